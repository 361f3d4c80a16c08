"""`POST /v1/entries`: what hook commands send, which need no Redis then.

The body has entries for the streams, in the form of the spool (`bus/shim/spool.py`): either one `requests` entry, whose
answer is the reply's bytes, or any number of `events` entries, which are added. The other side is `bus/shim/gateway.py`.
"""

from __future__ import annotations

import re
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bus.errors import NoEvaluator, Unreachable
from bus.requests import MOST_BUDGET_MS
from bus.shim.spool import BATCH_BYTES, read_records
from bus.transport import Fields, Transport
from workers.gateway.bodies import MOST_BYTES, read_body
from workers.gateway.problems import Problem
from workers.gateway.waiting import or_hang_up

MOST: Final = MOST_BYTES + 2 * BATCH_BYTES
"""Bytes of a body: a batch of the drainer ends with the entry that makes it large enough."""

FIELDS: Final = frozenset(
    {"id", "source", "event", "policy", "host", "folder", "repository", "body", "parent", "fallback", "of", "spooled"}
)
"""The fields that an entry may have; a reply key is never among them, since the gateway makes its own."""

_TIMES: Final = frozenset({"budget", "patience"})
_NAMES: Final = frozenset({"id", "source", "event", "host", "of", "parent"})
_NAME: Final = re.compile(rb"[^\x00-\x1f]{1,255}")
_OUTAGE_SECONDS: Final = 2.0
_OUTAGE_PART: Final = 0.2
_MARKED_SECONDS: Final = 0.25
"""How long a call tries to reach a Redis that is away, as the hook command does; less if it was away for the last call."""


class Entries:
    """The endpoint for hook commands of one gateway."""

    def __init__(self, transport: Transport) -> None:
        self._transport, self._away = transport, False

    async def handle(self, request: Request) -> Response:
        """Add the entries, or answer the one request: 200 with the reply, 202 once Redis or the spool has the events."""
        began = time.monotonic()
        requests, events = read_entries(await read_body(request, MOST))
        if not requests:
            await self._transport.publish(events)
            return Response(status_code=202)
        if len(requests) > 1 or events:
            raise Problem(400, "one-request", "a request is sent by itself")
        return Response(await self._ask(request, requests[0], began), media_type="application/octet-stream")

    async def _ask(self, request: Request, fields: Fields, began: float) -> bytes:
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        budget, patience = (_seconds(named, name) for name in ("budget", "patience"))
        entry = tuple(part for name, value in named.items() if name not in _TIMES for part in (name, value))
        outage = _MARKED_SECONDS if self._away else min(_OUTAGE_SECONDS, budget * _OUTAGE_PART)
        waiting = self._transport.ask(entry, began + budget, longest=began + patience, outage=outage)
        try:
            raw = await or_hang_up(request, waiting)
        except NoEvaluator as error:
            raise Problem(503, "no-evaluator", str(error)) from error
        except Unreachable:
            self._away = True
            raise
        self._away = False
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
        fields = (part for name, value in zip(names[1:], words[3::2], strict=True) for part in (name, value))
        entry: Fields = ("id", words[1].decode("ascii"), *fields)
        (requests if stream == b"requests" else events).append(entry)
    return requests, events


def _seconds(named: dict[str | bytes | int, str | bytes | int], name: str) -> float:
    text = named.get(name, b"0")
    if not isinstance(text, bytes) or not re.fullmatch(rb"[0-9]{1,9}", text):
        raise Problem(400, "entry-invalid", f"{name} is a number of milliseconds")
    return min(int(text), MOST_BUDGET_MS) / 1000
