"""The answer to a call for a list: one page as JSON with a cursor, or the whole list as NDJSON."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bus.errors import ConfigError
from bus.wire.codec import write_json
from workers.gateway.problems import Problem
from workers.gateway.queries import bad_query
from workers.records.pages import Page

NDJSON: Final = "application/x-ndjson"
_EXPORT_PAGE: Final = 200

T = TypeVar("T")
Fetch = Callable[[int, str], Awaitable[Page[T]]]
"""Reads at most so many items from a position on."""


async def page_response(
    request: Request, limit: int, cursor: str, position: re.Pattern[str], fetch: Fetch[T], plain: Callable[[T], Any]
) -> Response:
    """A page of a list that may be long, or all of it from the cursor on where NDJSON is asked for. Raises Problem."""
    whole = wants_ndjson(request)
    try:
        page = await fetch(_EXPORT_PAGE if whole else limit, _read_cursor(cursor, position))
    except ConfigError as error:  # of a pattern or condition of the filter
        raise bad_query(str(error)) from error
    if whole:
        return StreamingResponse(_lines(page, fetch, plain), media_type=NDJSON)
    return json_response({"items": [plain(item) for item in page.items], "next": _cursor(page.after)})


def list_response(request: Request, items: Sequence[Any]) -> Response:
    """A list that is always whole."""
    if wants_ndjson(request):
        return Response(b"".join(write_json(item) + b"\n" for item in items), media_type=NDJSON)
    return json_response({"items": list(items), "next": None})


def json_response(value: object, status: int = 200) -> Response:
    """A value as JSON; nothing on the way may keep it."""
    return Response(write_json(value) + b"\n", status, {"Cache-Control": "no-store"}, "application/json")


def wants_ndjson(request: Request) -> bool:
    """Whether the caller asks for lines of JSON."""
    return NDJSON in request.headers.get("accept", "")


async def _lines(page: Page[T], fetch: Fetch[T], plain: Callable[[T], Any]) -> AsyncIterator[bytes]:
    """The items of a page and of all after it. An error breaks the answer off, so that it does not look whole."""
    while True:
        if page.items:
            yield b"".join(write_json(plain(item)) + b"\n" for item in page.items)
        if not page.after:
            return
        page = await fetch(_EXPORT_PAGE, page.after)


def _cursor(position: str) -> str | None:
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=") if position else None


def _read_cursor(cursor: str, position: re.Pattern[str]) -> str:
    if not cursor:
        return ""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    if not position.fullmatch(text):
        raise Problem(400, "cursor-invalid", "this cursor is not of this list; take it from `next` of a page")
    return text
