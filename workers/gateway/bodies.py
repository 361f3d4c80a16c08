"""Reads the body of a request within its limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request

from bus.shim import MAX_STDIN
from workers.gateway.problems import Problem

MOST_BYTES: Final = MAX_STDIN
"""The most bytes of a body; the hook command has the same limit for its input."""

SECONDS: Final = 10.0
"""The most seconds that a body may take to arrive."""

MOST_HELD: Final = 16 * MOST_BYTES
"""The bytes of bodies that a gateway holds at once: 256 MiB."""

_HELD: Final = "fleethook.held"
"""The entry of an ASGI scope with how many bytes of its body are held."""

_CLOSE: Final = {"Connection": "close"}


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """The whole body. Raises Problem for more than `most` bytes, a body that is too slow, and a sender that went away."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                hold(request.scope, len(chunk))
                chunks.append(chunk)
    except TimeoutError:
        text = f"the body was not complete after {SECONDS:g} s; send it at once"
        raise Problem(408, "body-slow", text, _CLOSE) from None
    except ClientDisconnect:
        raise Problem(400, "body-cut", "the body was cut off") from None
    return b"".join(chunks)


class _Held:
    """The bytes of bodies that this process holds."""

    total = 0


def hold(scope: MutableMapping[str, Any], size: int) -> None:
    """Count bytes of a body until `release`; raises Problem if the gateway holds too many already."""
    if _Held.total + size > MOST_HELD:
        detail = "this gateway holds as many bytes of other requests as it can; try again"
        raise Problem(503, "busy", detail, {"Retry-After": "1"})
    _Held.total += size
    scope[_HELD] = scope.get(_HELD, 0) + size


def release(scope: MutableMapping[str, Any]) -> None:
    """End the count of a request's bytes."""
    _Held.total -= scope.pop(_HELD, 0)


def _too_large(most: int) -> Problem:
    return Problem(413, "body-too-large", f"a body has at most {most} bytes")
