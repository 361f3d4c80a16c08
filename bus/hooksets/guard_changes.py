"""Finds changes that remove or weaken guards, announces them as an event, and keeps them for `status`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bus.errors import DecodeError
from bus.events import Event, EventType
from bus.hooks import Hook
from bus.lazy.conversions import converted, from_json
from bus.matching.rule_fields import RuleDecision
from bus.verdicts import Decision, strictest
from bus.wire.announcements import announce, announced_key
from bus.wire.connections import Connections
from bus.wire.keys import DONE_MS, Keys
from bus.wire.streams import checked

KEPT: Final = 10
"""How many of the last changes `status` can show."""

_MOST_LOSSES: Final = 100


class Loss(NamedTuple):
    """A guard that was removed or weakened, and how: `removed`, `deny became ask`, `only observes`, `changed`."""

    guard: str
    how: str


class GuardChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change that weakens guards: who made it, how, and which guards."""

    how: str
    """The command (`guards disable`); `file` or `published` if a worker noticed it."""
    where: str
    """The file, `version 3`, or the machine."""
    losses: tuple[Loss, ...] = ()
    by: str = ""
    """The user who made the change; empty if that is not known."""
    agent: str = ""
    """The agent in whose terminal a person confirmed it."""
    about: str = ""
    """Identifies the change: the same in every process that notices it, so that it is announced once."""
    host: str = ""
    ms: int = 0
    """Milliseconds since 1970 by the clock of the process that noticed it."""

    @property
    def text(self) -> str:
        """The change in one line, for people."""
        lost = ", ".join(f"{loss.guard} {loss.how}" for loss in self.losses[:5])
        more = f" and {len(self.losses) - 5} more" if len(self.losses) > 5 else ""
        below = f" below {self.agent}" if self.agent else ""
        return f"{self.how} ({self.where}){' by ' + self.by if self.by else ''}{below}: {lost}{more}"


def weakened(before: Mapping[str, Hook], after: Mapping[str, Hook]) -> tuple[Loss, ...]:
    """The guards of `before` that are missing or weaker in `after`. A guard is a hook that can deny or ask."""
    return tuple(
        Loss(name, how) for name, hook in before.items() if _is_guard(hook) and (how := _loss(hook, after.get(name)))
    )


def file_mark(path: str, digest: str, imported: Iterable[str] = (), seen: Mapping[str, int] | None = None) -> str:
    """Identifies one state of a hook file in all processes of this host; a return to earlier content is a new state.

    `seen` has the modification times (nanoseconds) of the files when they were read; they may have changed again since.
    """
    times = [_changed_at(name) if seen is None or name not in seen else seen[name] for name in (path, *imported)]
    return f"{os.path.realpath(path)}\n{digest}\n{max(times)}"


def event_data(change: GuardChange) -> dict[str, Any]:
    """The `data` of the event `guard:changed`."""
    return {
        "how": change.how,
        "where": change.where,
        "by": change.by,
        "agent": change.agent,
        "text": change.text,
        "losses": [{"guard": loss.guard, "how": loss.how} for loss in change.losses[:_MOST_LOSSES]],
    }


async def report(connections: Connections, keys: Keys, change: GuardChange) -> bool:
    """Announce a change, and keep it for `status`; returns False if another process has done so. Raises Unreachable."""
    kind = EventType.GUARD_CHANGED.value
    if not await announce(connections, keys, kind, event_data(change), host=change.host, about=change.about):
        return False
    await list_change(connections, keys, change)
    return True


async def list_spooled(connections: Connections, keys: Keys, event: Event) -> bool:
    """Keep for `status` a change whose event a command spooled, and keep workers from announcing it again.

    It replaces the entry of a worker that noticed the same change, because this event names the user. Returns False if
    another event announced the change. Raises Unreachable, and DecodeError if the event describes no such change.
    """
    try:
        losses = [(loss["guard"], loss["how"]) for loss in event.data["losses"]]
        fields = {"about": event.id, **event.data, "losses": losses, "host": event.host, "ms": event.time}
        change = converted(fields, GuardChange)
    except (msgspec.ValidationError, LookupError, TypeError) as error:
        raise DecodeError(f"event {event.id} describes no change of guards: {error}") from error
    with connections.lease() as connection:
        key = announced_key(keys, EventType.GUARD_CHANGED.value, change.about)
        # The event's id is kept, so that this event still counts if it is dispatched again after an interruption.
        _, announced, known = await connection.exchange(
            [("SET", key, event.id, "NX", "PX", DONE_MS), ("GET", key), ("LRANGE", keys("weakened"), 0, KEPT - 1)]
        )
    same = [raw for raw in checked(known, "reading changes of the guards") if _change_id(raw) == change.about]
    await list_change(connections, keys, change, instead=same)
    return bool(checked(announced, "reading whether a change was announced") == event.id.encode())


async def list_change(connections: Connections, keys: Keys, change: GuardChange, instead: Iterable[bytes] = ()) -> None:
    """Keep an announced change for `status`, in the place of the entries `instead`. Raises Unreachable."""
    name, kept = keys("weakened"), msgspec.structs.replace(change, losses=change.losses[:_MOST_LOSSES])
    with connections.lease() as connection:
        replies = await connection.exchange(
            [
                *(("LREM", name, 1, raw) for raw in instead),
                ("LPUSH", name, msgspec.json.encode(kept)),
                ("LTRIM", name, 0, KEPT - 1),
                ("PEXPIRE", name, DONE_MS),
            ]
        )
    for reply in replies:
        checked(reply, "keeping a change of the guards")


def _change_id(raw: bytes) -> str:
    try:
        return from_json(raw, GuardChange).about
    except msgspec.MsgspecError:
        return ""


async def read_changes(connections: Connections, keys: Keys, most: int = KEPT) -> list[GuardChange]:
    """The last changes that weakened guards, newest first. Raises Unreachable."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("LRANGE", keys("weakened"), 0, most - 1)])
    try:
        return [from_json(raw, GuardChange) for raw in checked(reply, "reading changes of the guards")]
    except msgspec.MsgspecError as error:
        raise DecodeError("a kept change of the guards cannot be read") from error


def _is_guard(hook: Hook) -> bool:
    decides = hook.rule is None or hook.rule.decision not in {"allow", "warn"}
    return hook.enabled and hook.blocking and not hook.observe and decides


def _loss(hook: Hook, now: Hook | None) -> str:
    """How a guard became weaker; empty if it did not."""
    if now is None or not now.enabled:
        return "removed"
    if not now.blocking:
        return "no longer waited for"
    if now.observe:
        return "only observes"
    if hook.rule is not None and now.rule is not None:
        was, becomes = hook.rule.decision, now.rule.decision
        if was != becomes and strictest(_as_decision(was), _as_decision(becomes)) == was:
            return f"{was} became {becomes}"
    if any(call not in hook.unless for call in now.unless):
        return "got an exception"
    if hook.on_failure == "deny" and now.on_failure != "deny":
        return "no longer denies if it fails"
    return "" if _blocking_fields(hook) == _blocking_fields(now) else "changed"


def _as_decision(decision: RuleDecision) -> Decision:
    return "abstain" if decision == "warn" else decision


def _blocking_fields(hook: Hook) -> Hook:
    """The guard with only the fields that decide what it blocks, for comparison."""
    rule = hook.rule
    if rule is not None:
        rule = msgspec.structs.replace(rule, decision="deny", reason="", instead="", incident="")
    return msgspec.structs.replace(
        hook,
        layer="fleet",
        version="",
        origin="",
        position=0,
        description="",
        priority=0,
        on_failure=None,
        rule=rule,
        unless=(),
        pins={},
    )


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
