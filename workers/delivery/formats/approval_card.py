"""The texts of a message about a held call: what waits, who answered, or that nobody did."""

from __future__ import annotations

from typing import Any, Final

from bus.events import Event
from bus.hooks import Payload
from bus.secrets.redaction import redact_text
from workers.delivery.formats.text import cut, line, safe

TYPES: Final = frozenset({"approval:requested", "approval:answered", "approval:ended"})

_TITLES: Final = {
    "waiting": "{tool} waits for your answer",
    "approved": "{tool} was approved",
    "denied": "{tool} was denied",
    "timed_out": "{tool}: nobody answered in time",
    "nobody_could_be_asked": "{tool}: nobody could be asked",
    "overtaken": "{tool}: the question was overtaken",
}
_LONGEST: Final = 8_000


def title(event: Event) -> str:
    """One line that says what happened."""
    tool = cut(line(redact_text(event.tool)), 100) or "A call"
    return _TITLES.get(_text(event, "state"), "{tool}: a question").format(tool=tool)


def reason(event: Event, payload: Payload) -> str:
    """Why a person is asked; empty in a thin message."""
    return "" if payload == "thin" else safe(redact_text(_text(event, "reason")))[:_LONGEST].strip()


def detail(event: Event, payload: Payload) -> str:
    """The call; empty in a thin message."""
    return "" if payload == "thin" else safe(redact_text(_text(event, "summary")))[:_LONGEST].strip()


def facts(event: Event) -> tuple[tuple[str, str], ...]:
    """Further facts, before those that every message has."""
    rules: Any = event.data.get("rules")
    names = [rule.get("hook") for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    return (
        ("Agent", _text(event, "agent")),
        ("Rule", ", ".join(name for name in names if isinstance(name, str))),
        ("Answered by", _text(event, "by")),
        ("Comment", _text(event, "comment")),
        ("Without an answer", _text(event, "default") if _text(event, "state") == "waiting" else ""),
    )


def command(event: Event) -> str:
    """The command that shows the question."""
    return f"fleethook approvals show {cut(line(redact_text(_text(event, 'question'))), 64)}"


def _text(event: Event, name: str) -> str:
    value = event.data.get(name)
    return value if isinstance(value, str) else ""
