"""Reads what services report in the body of an answer: an error inside a 200, a delay before the next attempt, a reason."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from bus.hooks import Format
from bus.http.webhook_client import Reply
from workers.delivery.results import AttemptResult
from workers.delivery.retries import may_change

PAGERDUTY_DELAY: Final = 60.0
"""Seconds to wait after a 429 of PagerDuty, whose documentation says minutes and whose answer has no number."""

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
_MOST_DELAY: Final = 30 * 86_400
_MOST_REASON: Final = 200


def refusal_in_body(name: Format, reply: Reply) -> AttemptResult | None:
    """The result if the body of a 2xx answer reports an error; None if it reports none."""
    if name == "teams":
        # Seen in public reports since 2019: a 200 with "Microsoft Teams endpoint returned HTTP error 429 with ContextId …".
        found = _TEAMS_CODE.search(reply.body)
        if found is not None:
            return _refused(
                may_change(int(found[1])), f"receiver answered {reply.status}, with HTTP error {int(found[1])}"
            )
        if _TEAMS_FAILED.search(reply.body) is not None:
            return _refused(True, f"receiver answered {reply.status}, but its body says that it failed")
    if name == "slack":
        answer = _json(reply.body)
        if answer.get("ok") is False:
            error = _short(answer.get("error"))
            return _refused(
                error in _SLACK_LATER,
                f"receiver answered {reply.status}, but its body says {error or 'that it failed'}",
            )
    return None


def _refused(retry: bool, reason: str) -> AttemptResult:
    if retry:
        return AttemptResult("retry", reason, endpoint_signal="failed")
    return AttemptResult("dead", reason, endpoint_signal="ok")


def delay_in_body(name: Format, reply: Reply) -> float:
    """The seconds to wait that the body of a 429 asks for; 0 if it asks for none."""
    if reply.status != 429:
        return 0.0
    if name == "pagerduty":
        return PAGERDUTY_DELAY
    if name == "discord":  # {"message": …, "retry_after": 0.653, "global": false}
        delay = _json(reply.body).get("retry_after")
        if isinstance(delay, int | float) and not isinstance(delay, bool) and 0 < delay < _MOST_DELAY:
            return float(delay)
    return 0.0


def reason_in_body(name: Format, reply: Reply) -> str:
    """Why a service refused, on one line; empty if its answer has no reason, or one that changes from answer to answer."""
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


def _json(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body; empty if it holds none."""
    if raw.lstrip()[:1] != b"{":
        return {}
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
        return {}
    return value if isinstance(value, dict) else {}


def _short(value: object) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return "".join(char for char in text[:_MOST_REASON] if char.isprintable())
