"""`POST /v1/entries`: stream entries from hook commands that use a gateway instead of Redis.

The body has entries in the format of the spool (`bus/shim/spool.py`). It is either one `requests` entry, which is answered
with the bytes of the reply, or any number of `events` entries. The hook command's side is `bus/shim/gateway_link.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bus.agents import find
from bus.agents.generic import DIALECT as GENERIC
from bus.errors import DecodeError, NoEvaluator, Unanswered, Unreachable
from bus.requests import MOST_BUDGET_MS, checked_context
from bus.shim.spool import BATCH_BYTES, read_records
from bus.transport import Fields, Transport
from bus.wire.codec import decode_body
from bus.wire.entry_fields import PUBLISHED
from bus.wire.outages import Outages, outage_seconds
from bus.wire.streams import checked
from workers.gateway.bodies import MOST_BYTES, read_body
from workers.gateway.calls.event_formats import refuse_own_payload
from workers.gateway.calls.trace_headers import server_span
from workers.gateway.calls.verdict_wait import ask, or_hang_up, refuse_secret
from workers.gateway.problems import Problem

MOST: Final = MOST_BYTES + 2 * BATCH_BYTES
"""The most bytes of a body. A batch of the drainer is larger than BATCH_BYTES by its last entry."""

FIELDS: Final = frozenset({*PUBLISHED, "of", "flag"})
"""The fields that an entry may have. A reply key is not among them: the gateway makes its own."""

Named = dict[str | bytes | int, str | bytes | int]
"""The fields of one entry by name."""

_BYTES: Final = (b"\xc4", b"\xc5", b"\xc6")
"""How the body of an agent's own payload begins, in msgpack."""
_TIMES: Final = frozenset({"budget", "patience"})
_NAMES: Final = frozenset({"id", "source", "event", "host", "of", "parent"})
_IDS: Final = frozenset({"id", "of", "parent"})
_NAME: Final = re.compile(rb"[^\x00-\x1f]{1,255}")
_RETURN_SECONDS: Final = 0.25
_RETURN_PART: Final = 0.05
_LOOK_SECONDS: Final = 0.25
"""The time that is kept for the way back: seconds, and the part of the time. The seconds for looking whether a call is held."""


class Entries:
    """The path for hook commands."""

    def __init__(self, transport: Transport) -> None:
        self._transport, self._outages = transport, Outages()

    async def handle(self, request: Request) -> Response:
        """Answer a request with 200 and the reply; add events, and answer 202 when Redis or the spool has them."""
        began = time.monotonic()
        requests, events = read_entries(await read_body(request, MOST))
        if not requests:
            await self._transport.publish(events)
            return Response(status_code=202)
        if len(requests) > 1 or events:
            raise Problem(400, "one-request", "send a request alone, without other entries")
        fields = requests[0]
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        own = checked_context(_text(named, "traceparent"), _text(named, "tracestate"))
        with server_span(request, "/v1/entries", own, str(named["id"])) as span:
            named.update(span.context.headers())
            return Response(await self._ask(request, named, began), media_type="application/octet-stream")

    async def held(self, request: Request) -> Response:
        """The answer that counts for a call while it waits for a person; 204 if it does not wait, or Redis is away.

        The hook command asks for it while it waits, to have it when this gateway dies.
        """
        question = self._transport.keys("question", request.path_params["id"])
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                with self._transport.connections.lease() as connection:
                    (row,) = await connection.exchange([("HMGET", question, "provisional", "replied")])
                provisional, replied = checked(row, "looking for a question")
        except (Unreachable, TimeoutError):
            return Response(status_code=204)
        if provisional is None or replied is not None:
            return Response(status_code=204)
        return Response(provisional, media_type="application/octet-stream")

    async def _ask(self, request: Request, named: Named, began: float) -> bytes:
        budget, patience = (_seconds(named, name) for name in ("budget", "patience"))
        entry = tuple(part for name, value in named.items() if name not in _TIMES for part in (name, value))
        outage = self._outages.seconds(outage_seconds(budget))
        # The answer has to be there before the hook command stops waiting for it.
        until, longest = (
            began + seconds - min(_RETURN_SECONDS, seconds * _RETURN_PART) for seconds in (budget, patience)
        )
        waiting = ask(self._transport, entry, until, longest=longest, outage=outage)
        try:
            raw = await or_hang_up(request, waiting)
        except Unanswered as error:
            if self._transport.ends:  # the hook command asks the next gateway, which waits for the same answer
                raise Problem(503, "busy", "this gateway ends; send the request again") from error
            names = ("source", "event", "host")
            about = tuple(part for name in names for part in (name, named.get(name, b"")))
            await self._transport.report_fallback(entry, about, error)
            return error.answer
        except NoEvaluator as error:
            raise Problem(503, "no-evaluator", str(error)) from error
        except Unreachable as error:
            self._outages.note(error)
            raise
        self._outages.note()
        return raw


def read_entries(body: bytes) -> tuple[list[Fields], list[Fields]]:
    """The requests and the events of a body; raises Problem for one with anything else."""
    requests: list[Fields] = []
    events: list[Fields] = []
    for record, _ in read_records(body):
        if not record:
            raise Problem(400, "entry-invalid", "the body is not a sequence of entries in the form of the spool")
        stream, *words = record
        names = [word.decode("utf-8", "replace") for word in words[::2]]
        allowed = FIELDS | _TIMES if stream == b"requests" else FIELDS
        if names[0] != "id" or len(set(names)) != len(names) or not allowed.issuperset(names):
            unknown = ", ".join(sorted(set(names) - allowed))[:80] or "the same field twice"
            raise Problem(400, "entry-invalid", f"an entry has fields that it cannot have: {unknown}")
        for name, value in zip(names, words[1::2], strict=True):
            if name in _NAMES and not _NAME.fullmatch(value):
                raise Problem(400, "entry-invalid", f"the field {name} of an entry is empty, too long or not text")
        for name, value in zip(names, words[1::2], strict=True):
            if name in _IDS:
                refuse_secret(value.decode("utf-8", "replace"), f"the field {name} of an entry")
        _refuse_own(dict(zip(names, words[1::2], strict=True)))
        fields = (part for name, value in zip(names[1:], words[3::2], strict=True) for part in (name, value))
        entry: Fields = ("id", words[1].decode("ascii"), *fields)
        (requests if stream == b"requests" else events).append(entry)
    return requests, events


def _refuse_own(fields: dict[str, bytes]) -> None:
    """Raise Problem for an event that only Fleethook announces; a body that cannot be read is the evaluator's to refuse."""
    source, native = (fields.get(name, b"").decode("utf-8", "replace") for name in ("source", "event"))
    body = fields.get("body", b"")
    if body[:1] in _BYTES and find(source).name != GENERIC.name:
        return
    with contextlib.suppress(DecodeError):
        refuse_own_payload(source, native, decode_body(body))


def _text(named: Named, name: str) -> str:
    value = named.get(name, b"")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _seconds(named: Named, name: str) -> float:
    text = named.get(name, b"0")
    if not isinstance(text, bytes) or not re.fullmatch(rb"[0-9]{1,9}", text):
        raise Problem(400, "entry-invalid", f"{name} is a number of milliseconds")
    return min(int(text), MOST_BUDGET_MS) / 1000
