"""What is known of workflows in Redis: the sessions in them, and what they did."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.errors import ConfigError, DecodeError, FleethookError, NotFound
from bus.events import Event
from bus.hooks import Hook
from bus.ids import event_id
from bus.secrets.redaction import redact, redact_texts
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat
from bus.workflow_steps.engine import Advance, new_state
from bus.workflow_steps.state import FlowRecord, FlowState, decode_record, decode_state, session_name
from workers.delivery.deliveries import now_ms
from workers.workflows.store import FlowStore, Found

MOST_STATES: Final = 1_000


async def list_states(connections: Connections, keys: Keys, most: int = MOST_STATES) -> list[tuple[str, FlowState]]:
    """The sessions that are in workflows, those that changed last first; each with the id of its workflow."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("ZREVRANGE", keys("flows"), 0, most - 1)])
        names = [name.decode() for name in checked(reply, "listing workflows")]
        asked: list[Any] = [("HGET", keys("flow", *name.split(":", 1)), "state") for name in names]
        replies = await connection.exchange(asked) if asked else []
    found = []
    for name, raw in zip(names, replies, strict=True):
        if checked(raw, "reading a workflow's state"):
            try:
                found.append((name.partition(":")[2], decode_state(raw)))
            except DecodeError:
                continue
    return found


async def session_log(connections: Connections, keys: Keys, source: str, session: str) -> list[FlowRecord]:
    """What the workflows of a session did, oldest first; the last 256."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("LRANGE", keys("flowlog", session_name(source, session)), 0, -1)])
    return [decode_record(raw) for raw in checked(reply, "reading what workflows did")]


async def event_records(connections: Connections, keys: Keys, event: str) -> list[FlowRecord]:
    """What workflows did at an event."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("HGETALL", keys("flowed", event))])
    records = flat(checked(reply, "reading what workflows did"))
    return [decode_record(raw) for _, raw in sorted(records.items())]


async def start_workflow(
    connections: Connections, keys: Keys, hook: Hook, source: str, session: str, step: str = ""
) -> FlowState:
    """Give a session a workflow, or put it into another step; its actions of entry run at the session's next event."""
    workflow = hook.workflow
    if workflow is None:
        raise NotFound(f"{hook.id!r} is no workflow")
    if step and workflow.step(step) is None:
        names = ", ".join(each.name for each in workflow.steps)
        raise ConfigError(f"the workflow {hook.id!r} has no step {step!r}", hint=f"steps: {names}")
    event = Event(type="fleethook:workflow", id=event_id(), source=source, session=session, time=now_ms())
    store = FlowStore(connections, keys, "fleethook")
    found = await store.read(hook, event, leased_for=5.0, wait=10.0)
    state = new_state(workflow, event, now_ms())
    if found.state is not None and found.state.status == "active":
        state.variables = found.state.variables
    state.step, state.pending_entry = step or state.step, bool(workflow.steps)
    before = found.state.step if found.state is not None else ""
    await _write(store, hook, event, found, state, before, "started by a person")
    return state


async def stop_workflow(connections: Connections, keys: Keys, hook: Hook, source: str, session: str) -> bool:
    """End a workflow for a session; returns whether the session was in it."""
    event = Event(type="fleethook:workflow", id=event_id(), source=source, session=session, time=now_ms())
    store = FlowStore(connections, keys, "fleethook")
    found = await store.read(hook, event, leased_for=5.0, wait=10.0)
    state = found.state
    if state is None and hook.workflow is not None:
        state = new_state(hook.workflow, event, now_ms())
    if state is None:
        return False
    was_active = found.state is not None and found.state.status == "active"
    state.status = "ended"
    await _write(store, hook, event, found, state, state.step, "ended by a person")
    return was_active


async def _write(
    store: FlowStore, hook: Hook, event: Event, found: Found, state: FlowState, before: str, what: str
) -> None:
    record = FlowRecord(
        workflow=state.workflow,
        event=event.id,
        ms=now_ms(),
        source=event.source,
        session=event.session,
        before=before,
        after=state.step,
        actions=(what,),
    )
    if await store.write(hook, event, found, Advance(state, record, {})) is None:
        raise FleethookError("the session's state changed at the same time; try again")


def state_record(hook: str, state: FlowState) -> dict[str, Any]:
    """A session's state as `--json` gives it; secrets are redacted."""
    plain: Any = redact(msgspec.to_builtins(state))
    always = {"status": state.status, "step": state.step, "variables": plain.get("variables", {})}
    return {**plain, **always, "workflow": hook, "name": state.workflow}


def record_of(record: FlowRecord) -> dict[str, Any]:
    """What a workflow did as `--json` gives it; secrets are redacted."""
    plain: Any = {key: value for key, value in msgspec.to_builtins(record).items() if key not in {"names", "extras"}}
    texts = redact_texts({"reason": record.reason, "session": record.session})
    always = {"decision": record.decision, "before": record.before, "after": record.after, "moved": record.moved}
    redacted: Any = redact(plain)
    return {**redacted, **always, **texts, "actions": list(record.actions)}
