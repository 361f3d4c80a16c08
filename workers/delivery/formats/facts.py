"""The data of an event in the body for programs, redacted, in full or thin."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from bus.events import Event
from bus.secrets.redaction import redact, redact_text, redact_texts
from bus.verdicts import Part, Verdict
from workers.delivery.formats.text import cut

FACTS: Final = ("id", "source", "session", "host", "cwd", "native", "tool", "call")

LONGEST: Final = 512
"""The most characters of a fact in a thin body; a publisher may send a text of any length."""

_LAST: Final = 253_402_300_799_999
"""The last millisecond that has a year of four digits."""


def facts_of(event: Event) -> dict[str, str]:
    """The event's type with dots for colons, and the texts that identify the event."""
    return redact_texts(
        {
            "type": event.type.replace(":", "."),
            "id": event.id,
            "source": event.source,
            "session": event.session,
            "host": event.host,
            "cwd": event.cwd,
            "native": event.native,
            "tool": event.tool,
            "call": event.call,
        }
    )


def full_data(event: Event, verdict: Verdict | None, facts: dict[str, str]) -> dict[str, Any]:
    """All fields of an event except the agent's raw payload."""
    data: dict[str, Any] = {name: facts[name] for name in FACTS}
    if verdict is not None:
        verdict_texts = redact_texts(
            {"reason": verdict.reason, "fallback": verdict.fallback, "version": verdict.version}
        )
        data["verdict"] = {"decision": verdict.decision, **verdict_texts}
    data["input"], data["output"], data["data"] = redact(event.input), redact(event.output), redact(event.data)
    return data


def thin_data(event: Event, verdict: Verdict | None, facts: dict[str, str], why: str) -> dict[str, Any]:
    """The event's identity, its decision and hook, and the command that shows the rest; nothing of what the agent did."""
    data: dict[str, Any] = {name: cut(facts[name], LONGEST) for name in FACTS}
    if verdict is not None:
        verdict_texts = redact_texts(
            {"fallback": verdict.fallback, "version": verdict.version, "hook": decider(verdict)}
        )
        data["verdict"] = {
            "decision": verdict.decision,
            **{name: cut(text, LONGEST) for name, text in verdict_texts.items()},
        }
    return {**data, "thin": why, "get": how_to_get(event)}


def how_to_get(event: Event) -> str:
    """The command that shows the whole event to a person who may read the bus."""
    return f"fleethook events show {cut(redact_text(event.id), 64)}"


def decider(verdict: Verdict) -> str:
    """The id of the hook that decided; empty if none did."""
    return part.hook if (part := _deciding(verdict)) is not None else ""


def _deciding(verdict: Verdict) -> Part | None:
    if verdict.decision == "abstain":
        return None
    return next((part for part in verdict.parts if part.decision == verdict.decision), None)


def timestamp(ms: int) -> str:
    """A time in RFC 3339, to the millisecond."""
    seconds, rest = divmod(min(max(ms, 0), _LAST), 1000)
    return f"{_second(seconds)}.{rest:03}+00:00"


@lru_cache(maxsize=64)  # cached, because a busy carrier sends hundreds of events of the same second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
