"""What it takes to remember a yes: the exact call, kept with its question for the exception to the rules that asked (X-03)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bus.chain import changed_event
from bus.errors import FleethookError
from bus.events import Event
from bus.lazy.conversions import from_json
from bus.matching.exact_calls import ExactCall, call_input
from bus.secrets.redaction import redact, redact_text
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.approvals.questions import STATES, Question

_MOST_BYTES: Final = 8_192
"""A longer call makes no line of a hook file that a person would read."""


class Remembered(NamedTuple):
    """An approved question, and the calls that it was about."""

    question: Question
    calls: tuple[ExactCall, ...]
    """The call as the agent asked for it, and as hooks changed it."""


def has_secret(event: Event) -> bool:
    """Whether a call's input or folder holds a secret; such a call cannot be remembered."""
    return redact(event.input) != event.input or redact_text(event.cwd) != event.cwd


def calls_text(event: Event, changes: Mapping[str, Any] | None) -> str:
    """The calls of a question as Redis keeps them; empty if the question cannot be remembered."""
    seen = [event, changed_event(event, changes)] if changes else [event]
    if not event.tool or any(has_secret(one) for one in seen):
        return ""
    calls = [
        ExactCall(tool=one.tool, input=call_input(one.tool, one.input), cwd=one.cwd, source=one.source, host=one.host)
        for one in seen
    ]
    try:
        raw = msgspec.json.encode(calls)
    except ValueError:  # half of a surrogate pair, or a number such as NaN: no hook file can have it
        return ""
    return raw.decode() if len(raw) <= _MOST_BYTES else ""


async def read_remembered(connections: Connections, keys: Keys, question: Question) -> Remembered:
    """What can be remembered of a question; raises FleethookError, with the reason, if nothing can, and Unreachable."""
    if question.has_secret:
        raise FleethookError("the call's input holds a secret, so the call cannot be remembered")
    with connections.lease() as connection:
        (raw,) = await connection.exchange([("HGET", keys("question", question.id), "calls")])
    text = checked(raw, "reading the call of a question")
    if not text:
        raise FleethookError(
            "this call cannot be remembered: it is no call of a tool, or it is too long for a hook file"
        )
    return Remembered(question, from_json(text, tuple[ExactCall, ...]))


def check_approved(question: Question) -> None:
    """Raise FleethookError unless a person has approved the call: only a yes can be remembered."""
    if question.state != "approved":
        raise FleethookError(f"only a yes can be remembered, and this question is: {STATES[question.state]}")
