"""What a message to people says of an event: a title, why, what the agent was about to do, and the facts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from bus.events import Event
from bus.hooks import Payload
from bus.secrets.redaction import redact, redact_texts
from bus.verdicts import Verdict
from workers.delivery.formats.facts import decider, facts_of, how_to_get, timestamp
from workers.delivery.formats.text import cut, line, safe

Level = Literal["error", "warning", "info"]

MOST_FACTS: Final = 8
FACT: Final = 200
"""Units of one fact's value."""

_DONE: Final = {"deny": "denied", "ask": "needs an answer", "allow": "allowed"}
_TELLING: Final = ("command", "path", "pattern", "url", "query", "prompt", "error", "message", "reason", "name")
"""Fields that say best what an event is about, the most telling first."""

_DETAIL: Final = 8_000
"""Characters of the detail that any service has room for; what is longer is not even looked at."""


@dataclass(frozen=True, slots=True)
class Card:
    """Texts for a message, secrets and control characters out and nothing escaped; all but title and facts uncut."""

    title: str
    """One line, never empty."""
    reason: str
    """Why it was decided so, and what to do instead; empty in a thin one."""
    detail: str
    """What the agent was about to do or did; empty in a thin one."""
    facts: tuple[tuple[str, str], ...]
    """At most MOST_FACTS, none of them empty, each on one line of at most FACT units."""
    get: str
    """The command that shows the whole event."""
    time: str
    """RFC 3339."""
    level: Level


def card_of(event: Event, verdict: Verdict | None, payload: Payload) -> Card:
    """The texts for an event; `thin` leaves out what the agent did and why it was stopped."""
    facts = facts_of(event)
    decision = verdict.decision if verdict is not None else ""
    said = (
        redact_texts(
            {
                "hook": decider(verdict),
                "fallback": verdict.fallback,
                "reason": verdict.reason,
                "instead": verdict.instead,
            }
        )
        if verdict is not None
        else {}
    )
    decided = decision if decision in _DONE else ""
    listed = (
        ("Session", facts["session"]),
        ("Agent", facts["source"]),
        ("Tool", facts["tool"]),
        ("Host", facts["host"]),
        ("Directory", facts["cwd"]),
        ("Decision", decided),
        ("Hook", said.get("hook", "")),
        ("No hook answered", said.get("fallback", "")),
    )
    texts = ((name, cut(line(text), FACT)) for name, text in listed)
    thin = payload == "thin"
    return Card(
        title=_title(event, facts, decision),
        reason="" if thin else _reason(said),
        detail="" if thin else _detail(event),
        facts=tuple((name, text) for name, text in texts if text),
        get=line(how_to_get(event)),
        time=timestamp(event.time).replace("+00:00", "Z"),
        level=level_of(event, verdict),
    )


def level_of(event: Event, verdict: Verdict | None) -> Level:
    """How bad it is: errors and verdicts that no hook gave, then what was denied, then everything else."""
    if event.type.endswith(":error") or (verdict is not None and verdict.fallback):
        return "error"
    return "warning" if verdict is not None and verdict.decision == "deny" else "info"


def _title(event: Event, facts: dict[str, str], decision: str) -> str:
    if decision in _DONE:
        subject = line(facts["tool"]) or line(facts["type"]) or "event"
        return f"{cut(subject, 100)} {_DONE[decision]}"
    kind = line(redact_texts({"type": event.type})["type"]) or "event"
    return cut(f"{kind} {line(facts['tool'])}".strip(), 120)


def _reason(said: dict[str, str]) -> str:
    instead = f"Instead: {said['instead']}" if said.get("instead") else ""
    return "\n".join(text for text in (safe(said.get("reason", "")).strip(), safe(instead).strip()) if text)


def _detail(event: Event) -> str:
    """The most telling field, else all of its input or data as JSON."""
    for fields in (event.input, event.data):
        for name in _TELLING:
            value = fields.get(name)
            if isinstance(value, str) and (text := safe(_redacted(value)).strip()):
                return text
    rest = event.input or event.data
    if not rest:
        return ""
    return safe(json.dumps(redact(rest), ensure_ascii=False, default=str)[:_DETAIL])


def _redacted(text: str) -> str:
    # The whole text is looked at and then cut: a secret across the cut would not be recognised.
    return str(redact(text))[:_DETAIL]
