"""What the answers of other services mean beyond their status: an error inside a 200, a wait in a body, a word of why."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from bus.hooks import Format
from bus.http.client import Reply
from workers.delivery.outcomes import may_change
from workers.delivery.retries import AttemptFailed, GivenUp

PAGERDUTY_WAIT: Final = 60.0
"""Seconds after PagerDuty's 429, which asks for minutes and says no number."""

_TEAMS_CODE: Final = re.compile(rb"HTTP error (\d{3})\b", re.IGNORECASE)
_TEAMS_FAILED: Final = re.compile(rb"message delivery failed|error contacting", re.IGNORECASE)
_SLACK_LATER: Final = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "rollup_error",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
    }
)
_WORD: Final = re.compile(rb"[a-z][a-z0-9_]{2,63}\s*\Z")
_LONG: Final = 30 * 86_400
_MOST_SAID: Final = 200


def objection(name: Format, reply: Reply) -> AttemptFailed | GivenUp | None:
    """What a 2xx answer says against its own status; None where it means what it says."""
    if name == "teams":
        # Seen in public reports since 2019: a 200 with "Microsoft Teams endpoint returned HTTP error 429 with ContextId …".
        found = _TEAMS_CODE.search(reply.body)
        if found is None:
            failed = _TEAMS_FAILED.search(reply.body) is not None
            return AttemptFailed(f"receiver answered {reply.status} and that it failed") if failed else None
        return _as_status(int(found[1]), f"receiver answered {reply.status} and in it HTTP error {int(found[1])}")
    if name == "slack":
        answer = _json(reply.body)
        if answer.get("ok") is False:
            error = _short(answer.get("error"))
            text = f"receiver answered {reply.status} and in it {error or 'that it failed'}"
            return AttemptFailed(text) if error in _SLACK_LATER else GivenUp(text)
    return None


def wanted_wait(name: Format, reply: Reply) -> float:
    """The seconds that a refusal asks for elsewhere than in its Retry-After header; 0 where it does not."""
    if reply.status != 429:
        return 0.0
    if name == "pagerduty":
        return PAGERDUTY_WAIT
    if name == "discord":  # {"message": …, "retry_after": 0.653, "global": false}
        wait = _json(reply.body).get("retry_after")
        if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 < wait < _LONG:
            return float(wait)
    return 0.0


def said(name: Format, reply: Reply) -> str:
    """A service's own word for why it refused, on one line; empty where it has none that stays the same."""
    if name == "slack":
        return reply.body.decode("ascii").strip() if _WORD.match(reply.body) else ""
    if name == "discord":
        return _short(_json(reply.body).get("message"))
    if name == "pagerduty":
        answer = _json(reply.body)
        errors = answer.get("errors")
        return _short(errors[0] if isinstance(errors, list) and errors else answer.get("message"))
    if name == "teams":
        error = _json(reply.body).get("error")
        return _short(error.get("code") if isinstance(error, dict) else None)
    return ""


def _as_status(status: int, text: str) -> AttemptFailed | GivenUp:
    return AttemptFailed(text) if may_change(status) else GivenUp(text)


def _json(raw: bytes) -> dict[str, Any]:
    """The object in an answer; empty where there is none."""
    if raw.lstrip()[:1] != b"{":
        return {}
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested to do harm
        return {}
    return value if isinstance(value, dict) else {}


def _short(value: object) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return "".join(char for char in text[:_MOST_SAID] if char.isprintable())
