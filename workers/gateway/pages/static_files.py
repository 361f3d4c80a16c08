"""The files of the pages: `/` and `/pages/...`, from the package's folder `static`. They hold no data of the fleet."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from workers.gateway.api_path import ApiPath, Content
from workers.gateway.problems import Problem

INDEX: Final = "index.html"

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The files that are served; licences and notes beside them are not."""

_POLICY: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    # Nothing but lit-html's templates, which are constants of our own files, can become HTML.
    "require-trusted-types-for 'script'",
    "trusted-types lit-html",
)

HEADERS: Final = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not `no-referrer`: with it a browser sends forms with `Origin: null`, which is refused.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a browser asks each time whether a file has changed
}


class StaticFile(NamedTuple):
    """One file."""

    body: bytes
    media: str
    tag: str
    """Its ETag."""


@cache
def static_files() -> dict[str, StaticFile]:
    """Every file that is served, by its path below `static`."""
    return dict(_files(resources.files("workers.gateway.pages") / "static", ""))


def _files(folder: Traversable, beginning: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{beginning}{entry.name}/")
        elif media := _TYPES.get(entry.name.rpartition(".")[2]):
            body = entry.read_bytes()
            found.append(
                (f"{beginning}{entry.name}", StaticFile(body, media, f'"{hashlib.sha256(body).hexdigest()[:32]}"'))
            )
    return found


async def index(request: Request) -> Response:
    """The page itself, which is the same for everybody."""
    return _response(request, INDEX)


async def file(request: Request) -> Response:
    """A file that the page loads."""
    return _response(request, request.path_params["file"])


def _response(request: Request, name: str) -> Response:
    found = static_files().get(name)
    if found is None:
        raise Problem(404, "path", f"there is nothing at {request.url.path[:200]}")
    headers = {**HEADERS, "ETag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(None, 304, headers)
    return Response(found.body, 200, headers, found.media)


def page_paths() -> tuple[ApiPath, ...]:
    """The paths of the files; anyone may read them, and links of other sites may lead to the page."""
    html, anything = (Content(str, ("text/html",)),), (Content(None, ("text/css", "text/javascript", "image/svg+xml")),)
    return (
        ApiPath("GET", "/", None, index, html, from_anywhere=True),
        ApiPath("GET", "/pages/{file:path}", None, file, anything),
    )
