"""Narrow changes of rules that past answers support: an exception for one exact call, or a deny of one.

An exception never loosens the guard pack `fleethook-itself`, whichever rule asked: a call that the pack would stop gets none.
Neither does a rule that says who has to approve, for it asks so that these people see each call.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from bus.config.file_types import GuardSettings
from bus.config.hook_file_value import HookFile
from bus.hooks import Hook
from bus.hooksets.guards import packs
from bus.hooksets.in_force import HookSet, Layered
from workers.admin.dry_run import open_judge
from workers.approvals.remembered_calls import has_secret
from workers.simulation.history import AskedCall, HookHistory

PROTECTED: Final = "fleethook-itself"
"""The guard pack that no suggestion loosens."""
_MOST_BYTES: Final = 8_192
_BUDGET: Final = 10.0
_SLUG: Final = re.compile(r"[^a-z0-9]+")

Kind = Literal["exception", "deny"]


class Suggestion(NamedTuple):
    """A change of the rules that asked about one exact call."""

    kind: Kind
    asked: AskedCall

    @property
    def rules(self) -> tuple[tuple[str, str], ...]:
        """The layer and the id of each rule that asked."""
        return tuple(dict.fromkeys((part.layer, part.hook) for part in self.asked.parts))

    @property
    def lets_through(self) -> int:
        """How many of the recorded calls would have passed without a question."""
        return self.asked.asked if self.kind == "exception" else 0


class LeftOut(NamedTuple):
    """A call that got no suggestion although it was asked about often enough, and why."""

    asked: AskedCall
    why: str


async def suggestions(calls: Iterable[AskedCall], least: int) -> tuple[list[Suggestion], list[LeftOut]]:
    """The suggestions, that with the most questions first; `least` is how many answers of one kind one takes."""
    found: list[Suggestion] = []
    left_out: list[LeftOut] = []
    own = HookSet([Layered("fleet", "1", HookFile(guards={PROTECTED: GuardSettings()}))])
    async with open_judge(own, effects=False, seconds=_BUDGET, policy="deny") as judge:
        for call in sorted(calls, key=lambda call: (-call.asked, call.events)):
            kind: Kind = "exception" if call.approved else "deny"
            if max(call.approved, call.denied) < least:
                continue
            why = _reason_against(call, kind)
            if not why and kind == "exception" and (await judge(call.event))[1].decision in ("deny", "ask"):
                why = f"it concerns Fleethook itself: {PROTECTED} would stop it"
            if why:
                left_out.append(LeftOut(call, why))
            else:
                found.append(Suggestion(kind, call))
    return found, left_out


def _reason_against(call: AskedCall, kind: Kind) -> str:
    if call.approved and call.denied:
        return f"people do not agree: approved {call.approved} times, denied {call.denied} times"
    if any(part.hook.startswith(PROTECTED) for part in call.parts):
        return f"a rule of {PROTECTED} asked"
    if any(part.layer == "session" for part in call.parts):
        return "a rule of the session asked, and ends with it"
    if has_secret(call.event):
        return "the call holds a secret"
    if len(json.dumps(call.call.input, default=repr)) > _MOST_BYTES:
        return "the call is too long for a hook file"
    if kind == "exception" and any(part.hold is not None and part.hold.named for part in call.parts):
        return "its rule says who has to approve"
    if kind == "deny" and not _scalars(call.call.input):
        return "its input has lists or mappings, which a short condition cannot compare"
    return ""


def _scalars(fields: dict[str, Any]) -> bool:
    return all(isinstance(value, str | bool | int) and abs(_number(value)) < 2**53 for value in fields.values())


def _number(value: str | bool | int) -> int:
    return 0 if isinstance(value, str) else int(value)


def deny_entry(suggestion: Suggestion) -> dict[str, Any]:
    """A rule that denies the exact call, as an entry of a hook file."""
    asked = suggestion.asked
    call = asked.call
    text = str(call.input.get("command") or call.input.get("path") or call.tool)
    slug = _SLUG.sub("-", text.lower()).strip("-")[:32].strip("-") or "call"
    digest = hashlib.sha256(repr((call.tool, sorted(call.input.items()), call.cwd)).encode()).hexdigest()[:6]
    conditions = [f"event.cwd == {_cel(call.cwd)}"]
    for name, value in call.input.items():
        conditions += [f"{_cel(name)} in event.input", f"event.input[{_cel(name)}] == {_cel(value)}"]
    times = f"{asked.denied} times" if asked.denied > 1 else "once"
    return {
        "id": f"denied-{slug}-{digest}",
        "description": f"People have denied this call {times}.",
        "on": asked.event.type,
        "tool": re.escape(call.tool) if _SLUG.search(call.tool.replace("_", "")) else call.tool,
        "when": " && ".join(conditions),
        "rule": {"decision": "deny", "reason": f"People have denied this call {times}."},
    }


def _cel(value: str | bool | int) -> str:
    """A literal of CEL: its texts have the escapes of JSON, but for a slash."""
    return json.dumps(value)


def never_matched(in_force: HookSet, history: Sequence[HookHistory]) -> list[tuple[Hook, str]]:
    """The blocking hooks in force that had nothing to say to any event that was read, those of guard packs last.

    Each comes with its guard pack; empty for a hook of a file.
    """
    spoke, names = {(hook.hook, hook.layer) for hook in history}, packs()
    silent = [
        (hook, next((name for name in names if hook.id.startswith(f"{name}_")), ""))
        for hook in in_force.hooks.values()
        if hook.blocking and (hook.id, hook.layer) not in spoke
    ]
    return sorted(silent, key=lambda found: (found[1], found[0].order))
