"""Deliveries: plans those of an event, writes, lists and retries them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from bus.errors import DecodeError, NotFound
from bus.events import Event
from bus.hooks import Endpoint, Hook
from bus.http.timings import Phases
from bus.ids import delivery_id
from bus.lazy.conversions import from_msgpack
from bus.pacing import parse_rate
from bus.secrets.redaction import redact_text, redact_texts, redact_url
from bus.verdicts import Verdict
from bus.wire.codec import pack, unpack
from bus.wire.connections import Connections
from bus.wire.keys import HOST_EVENTS_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry, call_all, checked, flat
from workers.delivery.filters import NO_FILTER, Filter, delivery_test

if TYPE_CHECKING:  # commands that list deliveries start without the readers of hook files
    from bus.hooksets.in_force import HookSet

State = Literal["ready", "running", "due", "parked", "delivered", "dead"]

COMMAND_CAP: Final = 4
"""How many runs of one background command hook may be under way at the same time in the whole fleet."""

MAY_PUBLISH: Final = frozenset({"command", "workflow"})
"""The kinds of deliveries that may announce events, and so could trigger themselves."""

ONE_BY_ONE: Final = frozenset({"pigo"})
"""Dialects whose hooks of one event run one after the other, in the order of their file."""

KEPT_ATTEMPTS: Final = 50
_MOST_NAME: Final = 256
"""How many characters of an event's type, tool and session its deliveries keep; an agent may send any length."""
_PAGE: Final = 200


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of a delivery in its log."""

    ms: int
    """When it ended, in milliseconds since 1970."""
    took: float
    """Milliseconds."""
    outcome: str
    """`delivered`, `retry` or `dead`."""
    status: int = 0
    """HTTP status or exit code."""
    error: str = ""
    output: str = ""
    """The beginning of the response's body or the end of what a command printed, redacted."""
    carrier: str = ""
    head: str = ""
    """The response's status line and headers, redacted; together with `output` at most 4 KiB."""
    phases: Phases | None = None
    """The time of each phase of the request; None for a command."""
    sent: str = ""
    """The beginning of the body that was sent, redacted; only if Gobby's `log_deliveries` asks for it (G-10)."""
    next: int = 0
    """When the next attempt is due, in milliseconds since 1970; 0 if there is none."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery and its state."""

    id: str
    event: str
    hook: str
    kind: str
    target: str
    state: str
    layer: str
    version: str
    created: int
    updated: int
    type: str = ""
    """The type, tool and session of its event."""
    tool: str = ""
    session: str = ""
    due: int = 0
    attempts: int = 0
    redrives: int = 0
    reason: str = ""
    log: tuple[Attempt, ...] = ()

    @property
    def last_status(self) -> int:
        """The HTTP status or exit code of the last attempt; 0 if there is none."""
        return self.log[-1].status if self.log else 0

    def sent(self, text: str) -> bool:
        """Whether a recorded body of an attempt has this text, in upper or lower case."""
        return any(text.lower() in attempt.sent.lower() for attempt in self.log)


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery of an event to a hook or endpoint, before it is written to Redis."""

    id: str
    stream: str
    target: str
    cap: int
    timeout_ms: int
    kind: str
    hook: str
    version: str
    layer: str
    pace: str = ""
    """Rate, line and batch as dispatch.lua takes them: `name=value` words; empty if there are none."""


async def plan_deliveries(event: Event, verdict: Verdict | None, in_force: HookSet, keys: Keys) -> list[NewDelivery]:
    """`deliveries_of`, on a thread if it may take long, so that it does not block the event loop."""
    if in_force.is_costly(event):
        return await asyncio.to_thread(deliveries_of, event, verdict, in_force, keys)
    return deliveries_of(event, verdict, in_force, keys)


def deliveries_of(event: Event, verdict: Verdict | None, in_force: HookSet, keys: Keys) -> list[NewDelivery]:
    """The deliveries that an event makes: for the endpoints that match it, and for the background hooks that match it."""
    result = [_for_endpoint(event, endpoint, keys) for endpoint in in_force.targets(event, verdict)]
    result += [
        _for_hook(event, hook, keys, position) for position, hook in enumerate(in_force.background(event, verdict))
    ]
    return result


def _for_endpoint(event: Event, endpoint: Endpoint, keys: Keys) -> NewDelivery:
    return NewDelivery(
        id=delivery_id(event.id, endpoint.id),
        stream=_stream(endpoint, event, keys),
        target=endpoint_target(endpoint, event.host),
        cap=endpoint.max_in_flight,
        timeout_ms=int(endpoint.timeout * 1000),
        kind="webhook",
        hook=endpoint.id,
        version=endpoint.version,
        layer=endpoint.layer,
        pace=_pace(endpoint, event),
    )


def _pace(endpoint: Endpoint, event: Event) -> str:
    words = []
    if endpoint.rate:
        rate = parse_rate(endpoint.rate)
        words.append(f"rate={rate.speed / 1000:.17g}:{rate.most:.17g}")
    if endpoint.order == "fifo" and event.session:
        words.append(f"line={sha256(event.session.encode('utf-8', 'replace')).hexdigest()[:24]}")
    if endpoint.batch is not None:
        words.append(f"batch={endpoint.batch.max_events}:{int(endpoint.batch.max_wait * 1000)}")
    return " ".join(words)


def endpoint_target(endpoint: Endpoint, host: str) -> str:
    """The target of an endpoint's deliveries. One that is in a user's or project's file belongs to the event's host."""
    return f"endpoint:{endpoint.id}" if endpoint.layer == "fleet" else f"endpoint:{endpoint.id}@{host}"


def _for_hook(event: Event, hook: Hook, keys: Keys, position: int) -> NewDelivery:
    # Hooks whose system runs one after the other keep their order in the background, too (P-09); one for which that
    # system does not wait (P-11) has no place in the line.
    ordered = hook.blocking and hook.dialect in ONE_BY_ONE
    return NewDelivery(
        id=delivery_id(event.id, hook.id),
        stream=_stream(hook, event, keys),
        target=f"hook:{hook.id}",
        cap=COMMAND_CAP,
        timeout_ms=int(hook.timeout * 1000),
        kind=hook.kind,
        hook=hook.id,
        version=hook.version,
        layer=hook.layer,
        pace=f"line={hook.dialect}:{event.id} order={position}" if ordered else _flow_pace(hook, event),
    )


def _flow_pace(hook: Hook, event: Event) -> str:
    """The events of a session reach a workflow one after the other."""
    if hook.workflow is None or not event.session:
        return ""
    return f"line={sha256(event.session.encode('utf-8', 'replace')).hexdigest()[:24]}"


def _stream(entry: Hook | Endpoint, event: Event, keys: Keys) -> str:
    """Any host carries the deliveries of the fleet's hooks; only the event's host those of a user's or project's file."""
    return keys("deliveries") if entry.layer == "fleet" else keys("deliveries", event.host)


def dispatch_call(
    entry: StreamEntry,
    event: Event | None,
    deliveries: list[NewDelivery],
    keys: Keys,
    group: str,
    body: bytes,
    now: int,
    host: str = "",
    counts: str = "",
) -> ScriptCall:
    """The script call that acknowledges an event and writes its deliveries.

    `host` is the stream of the event's host, which dispatches it to the hooks that only it has; `-` on that host itself.
    `counts` are added to the fleet's metrics (`bus/wire/counts.py`).
    """
    name = event.id if event is not None else entry.id
    texts = ("", "", "") if event is None else (event.type, event.tool, event.session)
    kept_texts = [text[:_MOST_NAME].encode("utf-8", "replace") for text in texts]
    flat_args = [
        part
        for new in deliveries
        for part in (
            new.id,
            new.stream,
            new.target,
            new.cap,
            new.timeout_ms,
            new.kind,
            new.hook,
            new.version,
            new.layer,
            new.pace,
        )
    ]
    return ScriptCall(
        "dispatch",
        (entry.stream, keys("body", name), keys("recent"), keys("stats")),
        (
            group,
            entry.id,
            name,
            now,
            keys.prefix,
            body,
            event.parent if event else "",
            host,
            HOST_EVENTS_MS,
            *kept_texts,
            counts,
            *flat_args,
        ),
    )


async def deliveries(
    connections: Connections,
    keys: Keys,
    wanted: Filter = NO_FILTER,
    *,
    most: int = 100,
) -> list[Delivery]:
    """At most `most` deliveries that pass a filter, newest first."""
    fits, found = delivery_test(wanted), list[Delivery]()
    start = 0
    while len(found) < most:
        with connections.lease() as connection:
            asked = (
                "ZREVRANGEBYSCORE",
                keys("recent"),
                wanted.until or "+inf",
                wanted.since or "-inf",
                "LIMIT",
                start,
                _PAGE,
            )
            (page,) = await connection.exchange([asked])
            ids = [name.decode() for name in checked(page, "listing deliveries")]
            replies = await connection.exchange([("HGETALL", keys("delivery", name)) for name in ids]) if ids else []
        for name, reply in zip(ids, replies, strict=True):
            fields = flat(checked(reply, "reading a delivery"))
            if not fields:
                continue
            delivery = read_delivery(name, fields)
            if fits(delivery):
                found.append(delivery)
        if len(ids) < _PAGE:
            break
        start += _PAGE
    return found[:most]


async def delivery(connections: Connections, keys: Keys, name: str) -> Delivery:
    """One delivery with its attempts; raises NotFound."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("HGETALL", keys("delivery", name))])
    fields = flat(checked(reply, "reading a delivery"))
    if not fields:
        raise NotFound(f"no delivery is called {name!r}; see `fleethook deliveries list`")
    return read_delivery(name, fields)


async def retry(
    connections: Connections, keys: Keys, ids: Sequence[str], *, before: int = 0, counted_by: str = ""
) -> int:
    """Make deliveries due now that are due later, parked or dead; returns how many.

    `before` (ms) skips those that changed at that time or later; `counted_by` is the key of a maintenance job that counts
    each.
    """
    more = (counted_by,) if counted_by else ()
    calls = [
        ScriptCall("retry", (keys("due"), keys("delivery", name), keys("dead"), *more), (name, keys.prefix, before))
        for name in ids
    ]
    return sum(int(checked(reply, "retry")) for reply in await call_all(connections, calls)) if calls else 0


async def waits_for(connections: Connections, keys: Keys, name: str) -> str:
    """Which delivery a parked delivery waits for, as the end of a sentence; empty if it waits for none."""
    asked = ("HMGET", keys("delivery", name), "target", "line", "batch", "head", "members")
    with connections.lease() as connection:
        (reply,) = await connection.exchange([asked])
        found = [None if part is None else part.decode() for part in checked(reply, "reading a delivery")]
        target, line, batch, head, members = found
        if head:
            return f"for its turn with {head}, whose batch it is in"
        if batch and members is None:  # the first of a complete batch has the ids of the others
            return "for others of its batch"
        if not line:
            return ""
        (reply,) = await connection.exchange([("ZRANGE", keys("line", f"{target}:{line}"), 0, 0)])
    first = [member.decode() for member in checked(reply, "reading a line")]
    return f"for {first[0]}, which is before it in its session" if first and first[0] != name else ""


def read_delivery(name: str, fields: Mapping[bytes, bytes]) -> Delivery:
    """A delivery from its hash."""

    def text(key: str) -> str:
        return fields.get(key.encode(), b"").decode("utf-8", "replace")

    def number(key: str) -> int:
        digits = text(key)
        return int(digits) if digits.isascii() and digits.isdigit() else 0

    attempts = sorted(
        (int(key[8:]), from_msgpack(value, Attempt)) for key, value in fields.items() if key.startswith(b"attempt:")
    )
    return Delivery(
        id=name,
        event=text("event"),
        hook=text("hook"),
        kind=text("kind"),
        target=redact_url(text("target")),
        state=text("state"),
        layer=text("layer"),
        version=text("version"),
        created=number("created"),
        updated=number("updated"),
        **redact_texts({key: text(key) for key in ("type", "tool", "session")}),
        due=number("due"),
        attempts=number("attempts"),
        redrives=number("redrives"),
        reason=redact_text(text("reason")),
        log=tuple(attempt for _, attempt in attempts),
    )


_WRITE_ATTEMPT: Final = msgspec.msgpack.Encoder().encode


def attempt_record(attempt: Attempt) -> bytes:
    """An attempt as it is stored in its delivery."""
    return _WRITE_ATTEMPT(attempt)


def now_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return int(time.time() * 1000)


def pack_fields(entry: StreamEntry) -> bytes:
    """The fields and the id of an event's entry, packed to be kept for its deliveries."""
    return pack([part for pair in {**entry.fields, b"entry": entry.id.encode()}.items() for part in pair])


def unpack_fields(raw: bytes) -> dict[bytes, bytes]:
    """The fields that `pack_fields` packed; raises DecodeError."""
    value = unpack(raw)
    if not isinstance(value, list):
        raise DecodeError("a kept event is not a list of fields")
    return flat(value)
