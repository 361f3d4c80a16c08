"""A verdict cut to what one event of one agent can carry, by that agent's declared rules; every loss is named.

Dialects differ in the form of their answers, which is theirs to write, and in what their events can carry, which their
capability tables say. What follows from the two is the same for all and stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bus.codec import write_json
from bus.dialects import Capability
from bus.events import GATES, Event
from bus.tools import lost_fields, native_input
from bus.verdicts import Decision, Part, Verdict

_UNPRINTABLE: Final = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])


class Agent(NamedTuple):
    """What the texts of an agent's answers depend on."""

    name: str
    """Its source name."""
    label: str
    """As people call it."""
    limit: int
    """The longest text in an answer that the agent passes on whole, in UTF-16 units."""


class Case(NamedTuple):
    """A verdict cut to what the event can carry."""

    decision: Decision
    reason: str
    """For the model: never empty where there is a decision, and within the limit."""
    rewrite: dict[str, Any] | None
    """The whole changed input, in the agent's own fields."""
    context: str
    notes: list[str]
    """For the person at the terminal."""
    lost: tuple[str, ...]
    """What the verdict said and the answer cannot: counted, and shown in the trace."""


def settle(
    agent: Agent, native: str, can: Capability, verdict: Verdict, event: Event | None,
    original: Mapping[str, Any] | None,
) -> Case:  # fmt: skip
    """The verdict as the event can carry it; `original` is the tool's input as the agent sent it."""
    decision, extra = verdict.decision, ""
    lost: list[str] = []
    told_already: list[str] = []  # what the reason says anyway
    if verdict.fallback and can.type not in GATES:
        decision = "abstain"  # a failure never blocks a stop, nor anything that is not a gate
    rewrite: dict[str, Any] | None = None
    if verdict.updated_input and decision != "deny":
        rewrite = _rewritten(agent, verdict.updated_input, event, original) if can.rewrite else None
        if not can.rewrite:
            lost.append(f"a changed input was dropped: {native} carries none")
        elif rewrite is not None and rewrite == original:
            rewrite = None
        elif rewrite is None or (can.rewrite_as == "deny" and decision != "allow"):
            # No form for this input without a decision: the model is told what to call instead.
            decision, extra = "deny", f"A hook changed the input: call the tool with {_shown(verdict.updated_input)}"
            rewrite = None
        elif decision == "abstain" and can.rewrite_as == "ask":
            decision, extra = "ask", "A hook changed the input of this call"
    if decision == "ask" and not can.ask:
        decision = can.ask_else
        if decision == "deny":
            extra = f"A person has to approve it, and {agent.label} cannot ask for that at {native}"
            told_already.append(f"ask became deny: {native} cannot ask")
        elif not can.asks_anyway:
            lost.append(f"a hook wanted a person's approval, which {native} cannot ask for{_why(verdict)}")
        if decision != "deny" and rewrite is not None and can.rewrite_as != "alone":
            rewrite = None
            lost.append("a changed input was dropped with it")
    elif decision == "deny" and not can.block:
        decision = "abstain"
        lost.append(f"a hook wanted to block, which {native} cannot{_why(verdict)}")
    context = ""
    if can.context:
        context, cut = fit(agent, "\n\n".join(text for text in verdict.contexts if text))
        if cut:
            lost.append(f"{cut} characters of context were cut")
    elif any(verdict.contexts):
        lost.append(f"context was dropped: {native} takes none")
    reason = _reason(agent, verdict, event, extra) if decision != "abstain" else ""
    notes = [*_told(decision, verdict, rewritten=rewrite is not None), *lost]
    losses = tuple(clean(text) for text in (*told_already, *lost))
    return Case(decision, reason, rewrite, context, [clean(note) for note in notes], losses)


def told(agent: Agent, case: Case, verdict: Verdict, event: Event | None) -> str:
    """The notes as one message to the person, with the place to look; empty where there is nothing to say."""
    return fit(agent, "fleethook: " + "; ".join(case.notes), _trace(verdict, event, " ({})"))[0] if case.notes else ""


def fit(agent: Agent, text: str, tail: str = "") -> tuple[str, int]:
    """Text and tail within the limit, the text's end cut and that said; and how many characters were cut."""
    if len(text) + len(tail) <= agent.limit // 2:  # at most two units a character
        return text + tail, 0
    room = agent.limit - _units(tail)
    if _units(text) <= room:
        return text + tail, 0
    raw = text.encode("utf-16-le", "surrogatepass")
    head = raw[: 2 * max(0, room - 50)]
    if head and 0xD8 <= head[-1] <= 0xDB:  # never half a pair
        head = head[:-2]
    cut = (len(raw) - len(head)) // 2
    return f"{head.decode('utf-16-le', 'surrogatepass')} [fleethook cut {cut} characters]{tail}", cut


def clean(text: str) -> str:
    """Without the control characters that could redraw a terminal."""
    return text.translate(_UNPRINTABLE)


def stderr(text: str) -> bytes:
    """A reason as the one line that an agent reads from stderr."""
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _rewritten(
    agent: Agent, changed: Mapping[str, Any], event: Event | None, original: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The whole input after a rewrite, since agents replace the input; None where it cannot be made."""
    if event is None or original is None or lost_fields(agent.name, event.native_tool, changed, original):
        return None
    return native_input(agent.name, event.native_tool, changed, original)


def _reason(agent: Agent, verdict: Verdict, event: Event | None, extra: str) -> str:
    """What the model is told: why, what to do instead, who said so, and where a person can look."""
    mine = _deciders(verdict)
    why = verdict.reason or next((part.reason for part in mine if part.reason), "")
    if not why and not extra:
        why = "Fleethook gave no reason" if not mine else f"The hook {mine[0].hook} gave no reason"
    instead = f"Instead: {verdict.instead}" if verdict.instead else ""
    text = " ".join(_sentence(part) for part in (why, instead, extra) if part.strip())
    who = ", ".join(dict.fromkeys(part.hook for part in mine))[:500]
    trace = _trace(verdict, event, "{}")
    tail = f" [{'; '.join(part for part in ('fleethook: ' + who if who else '', trace) if part) or 'fleethook'}]"
    return fit(agent, clean(text), clean(tail))[0]


def _told(decision: Decision, verdict: Verdict, *, rewritten: bool) -> list[str]:
    """What the person is told beside the model: who decided and where that stands, and everything that went wrong."""
    said = []
    if verdict.fallback:
        outcome = {"deny": "denied by failure policy", "ask": "asking by failure policy"}.get(
            decision, "nothing blocked"
        )
        said.append(f"no hook answered ({verdict.fallback}): {outcome}")
    elif decision in ("deny", "ask"):
        mine = [f"{part.hook} ({part.origin})" if part.origin else part.hook for part in _deciders(verdict)]
        because = f"by {', '.join(dict.fromkeys(mine))}" if mine else "by a hook"
        if verdict.updated_input and not mine:
            because = "since a hook changed the input"
        said.append(f"{'blocked' if decision == 'deny' else 'asked for'} {because}")
    if rewritten and verdict.decision != "abstain":
        said.append("the tool's input was changed")
    if verdict.repeated:
        said.append("hooks may have run twice")
    return [*said, *verdict.notes]


def _why(verdict: Verdict) -> str:
    return f": {verdict.reason}" if verdict.reason else ""


def _deciders(verdict: Verdict) -> list[Part]:
    """The hooks whose decision became the verdict's; nobody where all abstained."""
    return [part for part in verdict.parts if part.decision == verdict.decision != "abstain"]


def _trace(verdict: Verdict, event: Event | None, form: str) -> str:
    found = verdict.event or (event.id if event is not None else "")
    return form.format(f"fleethook trace {found}") if found else ""


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text[-1:] in ".!?" else f"{text}."


def _shown(changed: Mapping[str, Any]) -> str:
    return write_json(dict(changed)).decode("ascii")
