"""The response with a list: one page as JSON with a cursor, or the whole list as NDJSON."""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bus.errors import ConfigError
from bus.wire.codec import write_json
from workers.gateway.problems import Problem
from workers.gateway.records.queries import ListQuery, bad_query
from workers.records.pages import Page

NDJSON: Final = "application/x-ndjson"
_EXPORT_PAGE: Final = 200
_LONG: Final = 32 * 1024
"""Shorter responses take less time uncompressed."""

T = TypeVar("T")
Fetch = Callable[[int, str], Awaitable[Page[T]]]
"""Reads a page: its arguments are the most items and the position to begin at."""


async def page_response(
    request: Request, limit: int, cursor: str, position: re.Pattern[str], fetch: Fetch[T], plain: Callable[[T], Any]
) -> Response:
    """A page of a long list, or the whole list from the cursor on if the caller wants NDJSON. Raises Problem."""
    whole = wants_ndjson(request)
    try:
        page = await fetch(_EXPORT_PAGE if whole else limit, _read_cursor(cursor, position))
    except ConfigError as error:  # of a pattern or condition of the filter
        raise bad_query(str(error)) from error
    if whole:
        return StreamingResponse(_lines(page, fetch, plain), media_type=NDJSON)
    return _compressed(
        request, json_response({"items": [plain(item) for item in page.items], "next": _cursor(page.after)})
    )


def list_response(
    request: Request,
    query: ListQuery,
    items: Sequence[Mapping[str, Any]],
    key: tuple[str, ...],
    *,
    newest_first: bool = False,
) -> Response:
    """A list that is read as a whole: all of it in its own order, or with a limit or cursor a page of it. Raises Problem.

    The fields of `key` name an item and do not change while it exists. Pages are in their order, and a cursor is the key
    of the last item, so items that come and go between two pages neither repeat nor hide others.
    """
    after = ""
    if query.limit is not None or query.cursor:
        items, after = _page_by_key(request, query, items, key, newest_first)
    if wants_ndjson(request):
        return Response(b"".join(write_json(item) + b"\n" for item in items), media_type=NDJSON)
    return _compressed(request, json_response({"items": list(items), "next": _cursor(after)}))


def _page_by_key(
    request: Request, query: ListQuery, items: Sequence[Mapping[str, Any]], key: tuple[str, ...], newest_first: bool
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """The items after the cursor, as many as the limit, and the position after them. NDJSON has all after the cursor."""
    here = f"{request.scope['path']}\0"  # a cursor of another list is none of this one
    last = _read_cursor(query.cursor, re.compile(re.escape(here) + ".*", re.DOTALL))
    same: Counter[str] = Counter()
    rows = []
    for item in items:
        name = here + "\0".join(_text(item[field]) for field in key)
        rows.append((f"{name}\0{same[name]:06}", item))  # redacted names may be equal
        same[name] += 1
    rows.sort(key=lambda row: row[0], reverse=newest_first)
    if last:
        rows = [row for row in rows if (row[0] < last if newest_first else row[0] > last)]
    most = len(rows) if wants_ndjson(request) or query.limit is None else query.limit
    page = rows[:most]
    return [item for _, item in page], page[-1][0] if len(rows) > most else ""


def _text(value: object) -> str:
    """A field of a key as a text that sorts as its value."""
    return f"{value:020}" if isinstance(value, int) else str(value)


def _compressed(request: Request, response: Response) -> Response:
    """A long response in a twentieth of its bytes, for callers that take gzip: phones read long lists again and again."""
    if len(response.body) > _LONG and "gzip" in request.headers.get("accept-encoding", ""):
        response.body = gzip.compress(response.body, compresslevel=1)  # 10 ms for a megabyte
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(response.body))
    response.headers["Vary"] = "Accept-Encoding"
    return response


def entity_tag(request: Request, version: str) -> str:
    """The `ETag` of a list whose content has a version: it is that of this query and form, too."""
    about = "\0".join((version, str(request.url.query), "lines" if wants_ndjson(request) else ""))
    return f'W/"{hashlib.sha256(about.encode()).hexdigest()[:24]}"'


def is_known(request: Request, tag: str) -> bool:
    """Whether the caller has the answer with this `ETag` already."""
    return tag in (part.strip() for part in request.headers.get("if-none-match", "").split(","))


def not_modified(tag: str) -> Response:
    """The answer to a caller that has everything already."""
    return Response(None, 304, {"ETag": tag, "Cache-Control": "no-store", "Vary": "Accept-Encoding"})


def json_response(value: object, status: int = 200) -> Response:
    """A value as JSON that no cache may keep."""
    return Response(write_json(value) + b"\n", status, {"Cache-Control": "no-store"}, "application/json")


def wants_ndjson(request: Request) -> bool:
    """Whether the caller asks for lines of JSON."""
    return NDJSON in request.headers.get("accept", "")


async def _lines(page: Page[T], fetch: Fetch[T], plain: Callable[[T], Any]) -> AsyncIterator[bytes]:
    """The items of a page and of all pages after it. An error breaks the response off, so that it does not look complete."""
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
        raise Problem(400, "cursor-invalid", "this is no cursor of this list; take it from `next` of a page")
    return text
