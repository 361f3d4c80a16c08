"""Reduces a verdict to what one event of one agent can carry, by that agent's declared rules, and names every loss.

Each dialect writes its answers in its own form, and declares in its capability table what its events can carry. The
reduction itself is the same for all agents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from bus.agents.base import Capability
from bus.agents.event_facts import output_text
from bus.events import GATES, Event
from bus.matching.regexes import whole_characters
from bus.tools import lost_fields, native_input
from bus.verdicts import Decision, Part, Verdict
from bus.wire.codec import MAX_DEPTH, write_json
from bus.wire.deep_json import may_be_flat

_CODES: Final = {"utf-16": "utf-16-le", "utf-8": "utf-8"}
_NEAR_DEPTH: Final = MAX_DEPTH - 5
"""Agents put a tool's input up to three levels deep into their payloads, which are read one level less deep than MAX_DEPTH."""
_UNPRINTABLE: Final = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])


class Agent(NamedTuple):
    """The facts about an agent on which the texts of its answers depend."""

    name: str
    """The agent's source name."""
    label: str
    """The agent's name for people."""
    limit: int
    """The longest text that the agent passes on uncut, in its own unit."""
    unit: Literal["utf-16", "utf-8"] = "utf-16"
    """The unit of the limit: UTF-16 units, as in JavaScript, or bytes."""
    strict: bool = False
    """Whether its JSON reader refuses an answer with a lone surrogate, so that a deny would be lost."""


class CarriedVerdict(NamedTuple):
    """A verdict reduced to what the event can carry."""

    decision: Decision
    reason: str
    """The reason, for the model: never empty if there is a decision, and within the limit."""
    rewrite: dict[str, Any] | None
    """The whole changed input, in the agent's own fields."""
    context: str
    output: Any
    """The text or value that replaces the tool's output for the model, in the agent's own form; None: no change."""
    halt: str
    """Why the agent's work ends; empty if it goes on."""
    permissions: tuple[dict[str, Any], ...]
    """Changes of the agent's permissions that come with the allow."""
    interrupt: bool
    """The deny also interrupts the agent."""
    notes: list[str]
    """For the person at the terminal."""
    lost: tuple[str, ...]
    """The parts of the verdict that the answer cannot carry. They are counted, and shown in the trace."""


def degrade(
    agent: Agent,
    native: str,
    can: Capability,
    verdict: Verdict,
    event: Event | None,
    original: Mapping[str, Any] | None,
) -> CarriedVerdict:
    """The verdict as the event can carry it; `original` is the tool's input as the agent sent it."""
    decision, extra, deny_reason = verdict.decision, "", ""
    lost: list[str] = []
    quiet: list[str] = []  # losses that the person need not see at every call, or that the reason names anyway
    if verdict.fallback and can.type not in GATES:
        decision = "abstain"  # a failure never blocks a stop, nor anything that is not a gate
    rewrite: dict[str, Any] | None = None
    if verdict.updated_input and decision != "deny":
        rewrite = _rewritten(agent, verdict.updated_input, event, original)
        if "rewrite" in can.elsewhere or (rewrite is not None and rewrite == original):
            rewrite = None
        elif not can.rewrite and can.rewrite_else == "drop":
            rewrite = None
            lost.append(f"a changed input was dropped: {native} carries none")
        elif rewrite is None or not can.rewrite or (can.rewrite_as == "deny" and decision != "allow"):
            # The agent cannot carry this input, or not without a decision. The reason names the call to make instead.
            if not can.rewrite:
                quiet.append(f"a changed input became deny: {native} carries none")
            decision, extra = "deny", f"A hook changed the input: call the tool with {_shown(verdict.updated_input)}"
            rewrite = None
        elif decision == "abstain" and can.rewrite_as == "ask":
            decision, extra = "ask", "A hook changed the input of this call"
    output, extra_output = _output(can, native, verdict, event, lost)
    if extra_output and decision in ("abstain", "allow"):
        decision, extra = "deny", extra_output
    if decision == "ask" and not can.ask:
        decision = can.ask_else
        if decision == "deny":
            rewrite = None
            extra = f"A person has to approve it, and {agent.label} cannot ask for that at {native}"
            quiet.append(f"ask became deny: {native} cannot ask")
        elif not can.asks_anyway and "ask" not in can.elsewhere:
            lost.append(f"a hook wanted a person's approval, which {native} cannot ask for{_why(verdict)}")
        if rewrite is not None and can.rewrite_as != "alone":
            rewrite = None
            lost.append("a changed input was dropped with it")
    elif decision == "deny" and not can.block:
        decision = "abstain"
        if can.deny_else == "context":
            deny_reason = _reason(agent, "deny", verdict, event, extra)
            quiet.append(f"a block became context: {native} cannot block")
        else:
            lost.append(f"a hook wanted to block, which {native} cannot{_why(verdict)}")
    elif decision == "allow" and not can.allow:
        decision = "abstain"
        quiet.append(f"an allow became silence: {native} has none, so {agent.label}'s own rules decide")
    context = ""
    if can.context:
        room = agent._replace(limit=can.context_limit or agent.limit)
        context, cut = fit(room, "\n\n".join(text for text in (deny_reason, *verdict.contexts) if text))
        if cut:
            lost.append(f"{cut} characters of context were cut")
    elif any(verdict.contexts):
        lost.append(f"context was dropped: {native} takes none")
    halt = clean(verdict.halt) if can.halts else ""
    if verdict.halt and not can.halts:
        lost.append(f"a hook wanted to end the agent's work ({verdict.halt}), which {native} cannot")
    permissions = verdict.permissions if can.grants and decision == "allow" else ()
    interrupt = verdict.interrupt and can.interrupts and decision == "deny"
    if verdict.permissions and not permissions:
        lost.append(f"a change of permissions was dropped: {native} carries none here")
    if verdict.interrupt and not interrupt:
        lost.append(f"an interrupt was dropped: {native} carries none here")
    reason = _reason(agent, decision, verdict, event, extra) if decision != "abstain" else ""
    shown = verdict.decision if extra_output and extra == extra_output else decision
    notes = [*_person_notes(shown, verdict, rewritten=rewrite is not None), *lost]
    if output is not None or extra_output:
        notes.append("the tool's output was changed")
    losses = tuple(clean(text) for text in (*quiet, *lost))
    return CarriedVerdict(
        decision=decision,
        reason=reason,
        rewrite=rewrite,
        context=context,
        output=output,
        halt=fit(agent, halt)[0],
        permissions=permissions,
        interrupt=interrupt,
        notes=[clean(note) for note in notes],
        lost=losses,
    )


def person_message(agent: Agent, case: CarriedVerdict, verdict: Verdict, event: Event | None) -> str:
    """The notes as one message to the person, with the command that shows more; empty if there are none."""
    return fit(agent, "fleethook: " + "; ".join(case.notes), _trace(verdict, event, " ({})"))[0] if case.notes else ""


def fit(agent: Agent, text: str, tail: str = "") -> tuple[str, int]:
    """Text and tail within the limit, and how many characters were cut from the text, which then says so."""
    if agent.strict:
        text, tail = whole_characters(text), whole_characters(tail)
    if len(text) + len(tail) <= agent.limit // 4:  # at most four bytes a character
        return text + tail, 0
    raw = _raw(agent, text)
    size = 2 if agent.unit == "utf-16" else 1
    room = size * agent.limit - len(_raw(agent, tail))
    if len(raw) <= room:
        return text + tail, 0
    head = raw[: max(0, room - 50 * size)]
    if size == 2 and head and 0xD8 <= head[-1] <= 0xDB:  # never half a pair
        head = head[:-2]
    while size == 1 and head and raw[len(head)] & 0xC0 == 0x80:  # never a part of a character
        head = head[:-1]
    kept = head.decode(_CODES[agent.unit], "surrogatepass")
    cut = len(text) - len(kept)
    return f"{kept} [fleethook cut {cut} characters]{tail}", cut


def clean(text: str) -> str:
    """The text without control characters, which could redraw a terminal."""
    return text.translate(_UNPRINTABLE)


def stderr(text: str) -> bytes:
    """A reason as the line that an agent reads from stderr."""
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _output(can: Capability, native: str, verdict: Verdict, event: Event | None, lost: list[str]) -> tuple[Any, str]:
    """The changed output for its own field, or as the reason of a block, which replaces the output."""
    changed = verdict.updated_output
    if changed is None or event is None or changed == event.output:
        return None, ""
    if can.output == "block":
        return None, f"A hook changed the output of this call. It is now: {output_text(event, changed)}"
    if can.output == "field" or (can.output == "mcp" and event.tool.startswith("mcp__")):
        return changed, ""
    lost.append(f"a changed output was dropped: {native} carries none{' for this tool' if can.output else ''}")
    return None, ""


def _rewritten(
    agent: Agent, changed: Mapping[str, Any], event: Event | None, original: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The whole input after a rewrite, since agents replace the whole input; None if the agent cannot carry it."""
    if event is None or original is None or lost_fields(agent.name, event.native_tool, changed, original):
        return None
    whole = native_input(agent.name, event.native_tool, changed, original)
    kept = [value for name, value in whole.items() if name in original and original[name] == value]
    if may_be_flat(kept, _NEAR_DEPTH):  # the tool would get a text where the model gave a list or an object
        return None
    return None if agent.strict and _halved(whole) else whole


def _reason(agent: Agent, decision: Decision, verdict: Verdict, event: Event | None, extra: str) -> str:
    """The text for the model: the reason, what to do instead, the hooks, and the command that shows more."""
    deciders, why = _deciders(verdict), verdict.reason
    if decision == "deny" and verdict.decision == "allow":
        deciders, why = [], ""  # hooks that allowed the changed input did not deny this one
    why = why or next((part.reason for part in deciders if part.reason), "")
    if not why and not extra:
        why = f"The hook {deciders[0].hook} gave no reason" if deciders else "Fleethook gave no reason"
    instead = f"Instead: {verdict.instead}" if verdict.instead else ""
    who = ", ".join(dict.fromkeys(part.hook for part in deciders))[:500]
    trace = _trace(verdict, event, "{}")
    tail = f" [{'; '.join(part for part in ('fleethook: ' + who if who else '', trace) if part) or 'fleethook'}]"
    several = list(dict.fromkeys(part.reason for part in deciders if part.reason))
    if len(several) > 1 and {*why.split("\n\n")} - {""} == {*"\n\n".join(several).split("\n\n")} - {""}:
        # At a stop the model gets the reasons of all hooks.
        why = _shared(agent, several, len(_raw(agent, f"{instead}{extra}{tail}")), why)
    text = " ".join(_sentence(part) for part in (why, instead, extra) if part.strip())
    return fit(agent, clean(text), clean(tail))[0]


def _shared(agent: Agent, texts: Sequence[str], taken: int, whole: str) -> str:
    """`whole` if it fits beside `taken` bytes, else the texts, each cut to its share of the room."""
    size = 2 if agent.unit == "utf-16" else 1
    left, short = agent.limit - taken // size - 10, dict[str, str]()
    if len(_raw(agent, whole)) <= size * left:
        return whole
    for number, text in enumerate(sorted(texts, key=len)):
        share = max(0, left // (len(texts) - number) - 2)
        short[text] = fit(agent._replace(limit=share), text)[0]
        left -= len(_raw(agent, short[text])) // size + 2
    return "\n\n".join(short[text] for text in texts)


def _person_notes(decision: Decision, verdict: Verdict, *, rewritten: bool) -> list[str]:
    """The notes for the person: which hooks decided and where they are defined, and every failure."""
    notes = []
    if verdict.fallback:
        outcome = {"deny": "denied by failure policy", "ask": "asking by failure policy"}.get(
            decision, "nothing blocked"
        )
        notes.append(f"no hook answered ({verdict.fallback}): {outcome}")
    elif decision in ("deny", "ask"):
        hooks = [f"{part.hook} ({part.origin})" if part.origin else part.hook for part in _deciders(verdict)]
        because = f"by {', '.join(dict.fromkeys(hooks))}" if hooks else "by a hook"
        if verdict.updated_input and (not hooks or verdict.decision == "allow"):
            because = "since a hook changed the input"
        notes.append(f"{'blocked' if decision == 'deny' else 'asked for'} {because}")
    if rewritten and (decision == "abstain" or verdict.decision != "abstain"):  # else the question says so
        notes.append("the tool's input was changed")
    if verdict.repeated:
        notes.append("hooks may have run twice")
    return [*notes, *verdict.notes]


def _why(verdict: Verdict) -> str:
    """A reason in a note, which must leave room for the others."""
    reason = verdict.reason
    return f": {reason if len(reason) <= 500 else reason[:500] + ' …'}" if reason else ""


def _deciders(verdict: Verdict) -> list[Part]:
    """The hooks whose decision became the verdict's; none if all abstained."""
    return [part for part in verdict.parts if part.decision == verdict.decision != "abstain"]


def _trace(verdict: Verdict, event: Event | None, form: str) -> str:
    found = verdict.event or (event.id if event is not None else "")
    return form.format(f"fleethook trace {found}") if found else ""


def _raw(agent: Agent, text: str) -> bytes:
    return text.encode(_CODES[agent.unit], "surrogatepass")


def _halved(value: Mapping[str, Any]) -> bool:
    """Whether a JSON object has half a surrogate pair anywhere."""
    text = json.dumps(value, ensure_ascii=False)
    return "\ufffd" in whole_characters(text.replace("\ufffd", ""))


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text[-1:] in ".!?" else f"{text}."


def _shown(changed: Mapping[str, Any]) -> str:
    return write_json(dict(changed)).decode("ascii")
