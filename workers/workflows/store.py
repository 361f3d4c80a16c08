"""The state of workflows in Redis: read for an event, and written once for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bus.errors import FleethookError
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.workflows.carried import find_action
from bus.ids import delivery_id, event_id
from bus.transport import event_entry
from bus.wire.codec import encode_event
from bus.wire.connections import Connections
from bus.wire.keys import DAY, DONE_MS, FLOW_MS, Keys
from bus.wire.streams import StreamEntry, call, flat
from bus.workflow_steps.engine import Advance
from bus.workflow_steps.state import (
    MOST_STATE,
    FlowRecord,
    FlowState,
    decode_record,
    decode_state,
    encode,
    session_key,
)
from workers.delivery.deliveries import COMMAND_CAP, now_ms, pack_fields

_LEASE_MARGIN_MS: Final = 2_000
_WAIT_SECONDS: Final = 0.02
"""The pause between two looks at a state that another event of the session has leased."""

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder().decode
WEBHOOK_CAP: Final = 10
"""How many requests of one webhook of a workflow may be under way at the same time in the whole fleet."""


class Found(NamedTuple):
    """A workflow's state for an event."""

    record: FlowRecord | None = None
    """What it did at this event before; then nothing is to be done."""
    state: FlowState | None = None
    shared: Mapping[str, Any] = {}
    version: str = "0"
    token: str = ""


class FlowStore:
    """Reads and writes the states of workflows for one worker."""

    def __init__(self, connections: Connections, keys: Keys, worker: str) -> None:
        self._connections, self._keys, self._worker = connections, keys, worker

    async def read(
        self, hook: Hook, event: Event, *, leased_for: float = 0.0, wait: float = 0.0, again: bool = False
    ) -> Found:
        """The state of a workflow. With `leased_for` (seconds), no other event of the session changes it meanwhile.

        With `again`, the state is read also where the event was handled before.

        Waits at most `wait` seconds for another event's lease; then raises FleethookError. Raises Unreachable.
        """
        name, until = session_key(event), time.monotonic() + wait
        token = f"{event.id or event_id()}-{event_id()[-12:]}" if leased_for else ""
        keys = (
            self._keys("flow", name, hook.id),
            self._keys("flowed", "" if again else event.id),
            self._keys("flowvars", name),
        )
        lease = int(leased_for * 1000) + _LEASE_MARGIN_MS
        args = (hook.id, token, self._worker, lease, self._keys("beat", ""))
        while (reply := await call(self._connections, "flow", keys, args))[0] == b"wait":
            if time.monotonic() >= until:
                raise FleethookError("another event of the session is still being handled")
            await asyncio.sleep(_WAIT_SECONDS)
        if reply[0] == b"done":
            return Found(record=decode_record(reply[1]))
        state = decode_state(reply[1]) if reply[1] else None
        shared = {key.decode("utf-8", "replace"): _DECODE(value) for key, value in flat(reply[3:]).items()}
        return Found(None, state, shared, reply[2].decode(), token)

    async def write(self, hook: Hook, event: Event, found: Found, done: Advance) -> FlowRecord | None:
        """Write what was done; None if the state has changed since it was read, so that it has to be done again.

        Returns the record of the first time where the event was handled before. Raises Unreachable.
        """
        reply = await call(self._connections, "step", *self._step_call(hook, event, found, done))
        if reply[0] == b"done":
            return decode_record(reply[1])
        return done.record if reply[0] == b"ok" else None

    async def release(self, hook: Hook, event: Event, found: Found) -> None:
        """End the lease of an event at which nothing is written; raises Unreachable."""
        key = self._keys("flow", session_key(event), hook.id)
        await call(self._connections, "unlease", (key,), (found.token,))

    def _step_call(
        self, hook: Hook, event: Event, found: Found, done: Advance
    ) -> tuple[tuple[str, ...], tuple[str | bytes | int, ...]]:
        keys, name, now = self._keys, session_key(event), now_ms()
        record = done.record
        kept = record.moved or record.before != record.after or record.actions or record.decision != "abstain"
        raw, state = encode(record), encode(done.state) if done.state is not None else b""
        if len(state) > MOST_STATE:
            raise FleethookError(f"its state would have {len(state)} bytes; {MOST_STATE} is the most")
        shared = [part for key, value in done.shared.items() for part in (key, _ENCODE(value))]
        announced = [part for each in done.published for part in _announced(event, each.type, each.data)]
        carried = [part for each in done.carried for part in self._delivery(hook, event, each.action, each.kind)]
        body = pack_fields(_entry(keys, event)) if carried else b""
        return (
            (
                keys("flow", name, hook.id),
                keys("flowed", event.id),
                keys("flowvars", name),
                keys("flows"),
                keys("flowlog", name),
                keys("events"),
                keys("body", event.id),
                keys("recent"),
                keys("stats"),
            ),
            (
                hook.id,
                found.version,
                found.token,
                state,
                raw,
                FLOW_MS,
                f"{name}:{hook.id}",
                now,
                keys.prefix,
                event.id,
                raw if kept else b"",
                body,
                event.type[:256],
                event.tool[:256],
                event.session.encode("utf-8", "replace")[:256],
                event.parent,
                f"{event.time}-0",
                len(shared),
                len(announced),
                DONE_MS if kept else DAY,
                *shared,
                *announced,
                *carried,
            ),
        )

    def _delivery(self, hook: Hook, event: Event, action: str, kind: str) -> tuple[str | int, ...]:
        name = f"{hook.id}/{action}"
        on_host = hook.layer != "fleet"
        target = f"endpoint:{name}" if kind == "webhook" else f"hook:{name}"
        return (
            delivery_id(event.id, name),
            self._keys("deliveries", event.host) if on_host else self._keys("deliveries"),
            f"{target}@{event.host}" if on_host and kind == "webhook" else target,
            WEBHOOK_CAP if kind == "webhook" else COMMAND_CAP,
            _timeout_ms(hook, action),
            kind,
            name,
            hook.version,
            hook.layer,
            "",
        )


def _timeout_ms(hook: Hook, action: str) -> int:
    found = find_action(hook, action)
    return int(float(found.values.get("timeout") or 30.0) * 1000) if found is not None else 30_000


def _announced(event: Event, kind: str, data: dict[str, Any]) -> tuple[str | bytes | int, ...]:
    """The fields of an announced event, with their number before them."""
    made = Event(
        type=kind,
        id=event_id(),
        source="fleethook",
        host=event.host,
        cwd=event.cwd,
        session=event.session,
        time=now_ms(),
        data=data,
        parent=event.id,
    )
    fields = (
        "id", made.id, "source", "fleethook", "event", kind, "host", event.host, "body", encode_event(made),
        "parent", event.id,
    )  # fmt: skip
    return (len(fields), *fields)


def _entry(keys: Keys, event: Event) -> StreamEntry:
    """The event as an entry of the stream, for its deliveries."""
    parts = [part if isinstance(part, bytes) else str(part).encode("utf-8", "replace") for part in event_entry(event)]
    fields = dict(zip(parts[::2], parts[1::2], strict=True))
    return StreamEntry(keys("events"), f"{event.time}-0", fields)
