"""What every call that waits for a verdict has: how long it waits, and the headers of its answer."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from bus.config.settings import duration
from bus.errors import ConfigError
from bus.requests import MOST_BUDGET_MS
from workers.gateway.problems import Problem

_LONGEST: Final = MOST_BUDGET_MS / 1000
_SHORTEST: Final = 0.001


def wait_seconds(request: Request) -> float:
    """The seconds that `?wait=` names, such as `5s`; 0 where it is not there. Raises Problem."""
    text = request.query_params.get("wait")
    if text is None:
        return 0.0
    try:
        return min(_LONGEST, max(_SHORTEST, duration("wait", text)))
    except ConfigError as error:
        raise Problem(400, "wait-invalid", str(error)) from error


def answer_headers(event: str, fallback: str = "") -> dict[str, str]:
    """The headers of an answer: the event's id for `fleethook trace`, and why it is a fallback, where it is one."""
    headers = {"Fleethook-Event": event, "Cache-Control": "no-store"}
    if fallback:
        headers["Fleethook-Fallback"] = "".join(letter if " " <= letter <= "~" else "?" for letter in fallback)[:256]
    return headers
