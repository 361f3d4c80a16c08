"""The texts of a message to people about an event: title, reason, detail and facts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from bus.agents.event_facts import error_text
from bus.events import Event, EventType
from bus.hooks import Payload
from bus.secrets.redaction import redact, redact_texts
from bus.verdicts import Verdict
from workers.delivery.answer_links import AnswerLinks
from workers.delivery.formats import approval_card
from workers.delivery.formats.facts import decider, facts_of, how_to_get, timestamp
from workers.delivery.formats.text import cut, line, safe

Level = Literal["error", "warning", "info"]

MOST_FACTS: Final = 8
FACT: Final = 200
"""The longest value of a fact, in UTF-16 code units."""

_DECISION_TEXTS: Final = {"deny": "denied", "ask": "needs an answer", "allow": "allowed"}
_TITLES: Final[dict[str, str]] = {
    EventType.TOOL_ERROR.value: "{tool} failed",
    EventType.PERMISSION_REQUEST.value: "{tool} waits for a permission",
    EventType.PERMISSION_PROMPT.value: "{tool} waits for a permission",
    EventType.AGENT_ERROR.value: "The agent failed",
    EventType.NOTIFICATION.value: "The agent notifies you",
    EventType.SESSION_START.value: "A session began",
    EventType.SESSION_END.value: "A session ended",
}
"""By type, where no hook decided; other types are named as they are."""
_DESCRIPTIVE_FIELDS: Final = (
    "command",
    "path",
    "pattern",
    "url",
    "query",
    "prompt",
    "error",
    "message",
    "reason",
    "name",
)
"""The fields that describe an event best, the best first."""

_DETAIL: Final = 8_000
"""Characters. No service accepts a longer detail, so the rest is not processed."""


@dataclass(frozen=True, slots=True)
class Card:
    """The texts of a message, without secrets and control characters. They are not escaped; only title and facts are cut."""

    title: str
    """One line, never empty."""
    reason: str
    """The reason of the verdict and what to do instead, or the error of a tool; empty in a thin message."""
    detail: str
    """What the agent was about to do or did; empty in a thin message."""
    facts: tuple[tuple[str, str], ...]
    """At most MOST_FACTS pairs of a name and a value that is not empty, on one line of at most FACT units."""
    show_command: str
    """The command that shows the whole event."""
    time: str
    """The time of the event, in RFC 3339."""
    level: Level
    links: tuple[tuple[str, str], ...] = ()
    """Buttons that answer a question by a page that they open: label and address."""
    page: str = ""
    """The address of the event's page at a gateway; empty if people reach none."""

    @property
    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Everything that a message can open: the answers to a question, then the event's page."""
        return (*self.links, ("Show it in Fleethook", self.page)) if self.page else self.links


def card_of(
    event: Event, verdict: Verdict | None, payload: Payload, links: AnswerLinks | None = None, page: str = ""
) -> Card:
    """The texts for an event; with the payload `thin`, reason and detail are empty. `page` is the address of its page."""
    if event.type in approval_card.TYPES:
        return _approval_card(event, payload, links, page)
    facts = facts_of(event)
    decision = verdict.decision if verdict is not None else ""
    verdict_texts = (
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
    decided = decision if decision in _DECISION_TEXTS else ""
    listed = (
        ("Session", facts["session"]),
        ("Agent", facts["source"]),
        ("Tool", facts["tool"]),
        ("Host", facts["host"]),
        ("Directory", facts["cwd"]),
        ("Decision", decided),
        ("Hook", verdict_texts.get("hook", "")),
        ("No hook answered", verdict_texts.get("fallback", "")),
    )
    texts = ((name, cut(line(text), FACT)) for name, text in listed)
    thin = payload == "thin"
    return Card(
        title=_title(event, facts, decision),
        reason="" if thin else _reason(event, verdict_texts),
        detail="" if thin else _detail(event),
        facts=tuple((name, text) for name, text in texts if text),
        show_command=line(how_to_get(event)),
        time=timestamp(event.time).replace("+00:00", "Z"),
        level=level_of(event, verdict),
        page=page,
    )


def _approval_card(event: Event, payload: Payload, links: AnswerLinks | None, page: str) -> Card:
    facts = facts_of(event)
    listed = (
        ("Session", facts["session"]),
        ("Host", facts["host"]),
        ("Directory", facts["cwd"]),
        *redact_texts(dict(approval_card.facts(event))).items(),
    )
    texts = ((name, cut(line(text), FACT)) for name, text in listed)
    return Card(
        title=approval_card.title(event),
        reason=approval_card.reason(event, payload),
        detail=approval_card.detail(event, payload),
        facts=tuple((name, text) for name, text in texts if text)[:MOST_FACTS],
        show_command=approval_card.command(event),
        time=timestamp(event.time).replace("+00:00", "Z"),
        level="warning",
        links=(("Approve", links.approve), ("Deny", links.deny)) if links is not None else (),
        page=page,
    )


def level_of(event: Event, verdict: Verdict | None) -> Level:
    """The severity: highest for errors and verdicts that no hook gave, then denials, then everything else."""
    if event.type.endswith(":error") or (verdict is not None and verdict.fallback):
        return "error"
    return "warning" if verdict is not None and verdict.decision == "deny" else "info"


def _title(event: Event, facts: dict[str, str], decision: str) -> str:
    if decision in _DECISION_TEXTS:
        subject = line(facts["tool"]) or line(facts["type"]) or "event"
        return f"{cut(subject, 100)} {_DECISION_TEXTS[decision]}"
    if event.type in _TITLES:
        return _TITLES[event.type].format(tool=cut(line(facts["tool"]), 100) or "A tool")
    kind = line(redact_texts({"type": event.type})["type"]) or "event"
    return cut(f"{kind} {line(facts['tool'])}".strip(), 120)


def _reason(event: Event, verdict_texts: dict[str, str]) -> str:
    """Why the hook decided so, and what to do instead; of a failed tool without one, the tool's error."""
    if not verdict_texts.get("reason") and (error := error_text(event)):
        return safe(_redacted(error)).strip()
    instead = f"Instead: {verdict_texts['instead']}" if verdict_texts.get("instead") else ""
    return "\n".join(text for text in (safe(verdict_texts.get("reason", "")).strip(), safe(instead).strip()) if text)


def _detail(event: Event) -> str:
    """The field that describes the event best, else all of its input or data as JSON."""
    for fields in (event.input, event.data):
        for name in _DESCRIPTIVE_FIELDS:
            value = fields.get(name)
            if isinstance(value, str) and (text := safe(_redacted(value)).strip()):
                return text
    rest = event.input or event.data
    if not rest:
        return ""
    return safe(json.dumps(redact(rest), ensure_ascii=False, default=str)[:_DETAIL])


def _redacted(text: str) -> str:
    # The text is redacted before it is cut, because a secret across the cut would not be recognised.
    return str(redact(text))[:_DETAIL]
