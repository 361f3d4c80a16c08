"""Reads a native hook's answer; a command's stdout and an http receiver's body have the same form."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bus.errors import DecodeError
from bus.lazy.conversions import converted
from bus.outcomes import Outcome
from bus.verdicts import Decision
from bus.wire.codec import read_json


class _HookReply(msgspec.Struct, frozen=True):
    """The fields of an answer; others are ignored, so that a newer hook works with an older bus."""

    decision: Literal["allow", "deny", "ask", "abstain", "continue"] | None = None
    reason: str | None = None
    instead: str | None = None
    context: str | list[str] | None = None
    updated_input: dict[str, Any] | None = None
    updated_output: Any = None


def read_reply(raw: bytes, hook: str) -> Outcome:
    """The outcome of an answer `{decision?, reason?, instead?, context?, updated_input?, updated_output?}`.

    Raises DecodeError, which says why.
    `continue`, or no decision, is abstain. A deny or ask without a reason gets a text that names `hook`.
    """
    value = read_json(raw)
    if not isinstance(value, dict):
        raise DecodeError(f"the answer is a JSON {type(value).__name__}, not an object")
    try:
        reply = converted(value, _HookReply)
    except msgspec.ValidationError as error:
        raise DecodeError(f"the answer does not fit: {error}") from error
    decision: Decision = "abstain" if reply.decision is None or reply.decision == "continue" else reply.decision
    reason = (reply.reason or "").strip()
    if not reason and decision in ("deny", "ask"):
        reason = f"hook {hook!r} says {decision} and gives no reason"
    contexts = [reply.context] if isinstance(reply.context, str) else reply.context or []
    return Outcome(
        decision=decision,
        reason=reason,
        instead=(reply.instead or "").strip(),
        contexts=tuple(text for text in contexts if text.strip()),
        updated_input=reply.updated_input,
        updated_output=reply.updated_output,
    )
