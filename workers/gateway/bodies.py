"""Reads the body of a request within its limits of size and time."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect, Request

from bus.shim import MAX_STDIN
from workers.gateway.problems import Problem

MOST_BYTES: Final = MAX_STDIN
"""The most that the hook command takes too."""

SECONDS: Final = 10.0
"""How long a body may take to arrive, in seconds."""

_CLOSE: Final = {"Connection": "close"}


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """The whole body of at most so many bytes; raises Problem if it is too large or too slow, or its sender went away."""
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
                chunks.append(chunk)
    except TimeoutError:
        text = f"the body was not complete after {SECONDS:g} s; send it at once"
        raise Problem(408, "body-slow", text, _CLOSE) from None
    except ClientDisconnect:
        raise Problem(400, "body-cut", "the body was cut off") from None
    return b"".join(chunks)


def _too_large(most: int) -> Problem:
    return Problem(413, "body-too-large", f"a body has at most {most} bytes", _CLOSE)
