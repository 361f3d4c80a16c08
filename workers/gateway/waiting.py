"""What every call that waits for a verdict has: how long it waits, its end if the caller hangs up, and its headers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import Request

from bus.config.settings import duration
from bus.errors import ConfigError
from bus.requests import MOST_BUDGET_MS
from workers.gateway.problems import Problem

T = TypeVar("T")

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


async def or_hang_up(request: Request, waiting: Coroutine[Any, Any, T]) -> T:
    """The result of `waiting`, which ends if the caller hangs up; raises Problem then. The body was read before."""
    answered, now = False, asyncio.get_running_loop().time
    hang_up = asyncio.ensure_future(request.receive())
    try:
        async with asyncio.timeout(None) as limit:
            hang_up.add_done_callback(lambda _: None if answered else limit.reschedule(now()))
            try:
                return await waiting
            finally:
                answered = True
    except TimeoutError:
        if not limit.expired():
            raise
        raise Problem(499, "hung-up", "the caller hung up before the answer") from None
    finally:
        hang_up.cancel()


def answer_headers(event: str, fallback: str = "") -> dict[str, str]:
    """The headers of an answer: the event's id for `fleethook trace`, and why it is a fallback, where it is one."""
    headers = {"Fleethook-Event": event, "Cache-Control": "no-store"}
    if fallback:
        headers["Fleethook-Fallback"] = "".join(letter if " " <= letter <= "~" else "?" for letter in fallback)[:256]
    return headers
