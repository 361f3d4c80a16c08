"""Shared by all calls that wait for a verdict: `?wait=`, the end when the caller hangs up, and the response's headers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import Request

from bus.config.settings import duration
from bus.errors import ConfigError, FleethookError, Unanswered, Unreachable
from bus.requests import MOST_BUDGET_MS
from bus.secrets.redaction import redact_text
from bus.transport import Fields, Transport
from workers.gateway.problems import Problem

T = TypeVar("T")

_LONGEST: Final = MOST_BUDGET_MS / 1000
_SHORTEST: Final = 0.001
_LOOK_SECONDS: Final = 0.5


def wait_seconds(request: Request) -> float:
    """The seconds in `?wait=`, such as `5s`; 0 without it. Raises Problem."""
    text = request.query_params.get("wait")
    if text is None:
        return 0.0
    try:
        return min(_LONGEST, max(_SHORTEST, duration("wait", text)))
    except ConfigError as error:
        raise Problem(400, "wait-invalid", str(error)) from error


def refuse_secret(event: str, what: str) -> None:
    """Raise Problem if an event's id looks like a secret: ids are shown as they are, and are parts of keys."""
    if redact_text(event) != event:
        raise Problem(400, "id-invalid", f"{what} looks like a secret; send an id that is none")


async def or_hang_up(request: Request, waiting: Coroutine[Any, Any, T]) -> T:
    """The result of `waiting`. If the caller hangs up, cancels it and raises Problem. The body has to be read before."""
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


async def ask(
    transport: Transport, entry: Fields, deadline: float, *, longest: float = 0.0, outage: float = 0.0
) -> bytes:
    """`transport.ask`, also for a call whose caller sends it again: if it waits for a person, raises Unanswered."""
    try:
        return await transport.ask(entry, deadline, longest=longest, outage=outage)
    except Unanswered:
        raise
    except FleethookError as error:
        question = transport.keys("question", str(entry[1]))
        try:
            with transport.connections.lease() as connection:
                (left,) = await connection.exchange([("HGET", question, "provisional")], seconds=_LOOK_SECONDS)
        except Unreachable:
            raise error from None
        if not isinstance(left, bytes):
            raise
        raise Unanswered(str(error), left) from error


def answer_headers(event: str, fallback: str = "") -> dict[str, str]:
    """The headers of an answer: the event's id for `fleethook trace`, and the reason of a fallback."""
    headers = {"Fleethook-Event": event, "Cache-Control": "no-store"} if event else {"Cache-Control": "no-store"}
    if fallback:
        headers["Fleethook-Fallback"] = "".join(letter if " " <= letter <= "~" else "?" for letter in fallback)[:256]
    return headers
