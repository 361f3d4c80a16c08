"""The value that describes one path and method: the scope it needs, its handler, its parameters, bodies and statuses.

The application makes its routes and `/openapi.json` from these values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from workers.gateway.problems import Problem
from workers.gateway.tokens import Scope

Handle = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[Request, Problem], Response]

JSON: Final = "application/json"
TEXT: Final = "text/plain"


class Content(NamedTuple):
    """A body: its type, and the media types in which it comes."""

    kind: Any
    """A type that msgspec knows; None for a body that has no schema."""
    media: tuple[str, ...] = (JSON,)


class ApiPath(NamedTuple):
    """One path and method."""

    method: str
    path: str
    scope: Scope | None
    """The scope that the caller's token needs; None: anyone may call."""
    handle: Handle
    answer: tuple[Content, ...]
    """The bodies of a success; empty if they have no fixed type."""
    item: Any = None
    """For a list, the type of its items; `answer` does not count then."""
    query: type[msgspec.Struct] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """The headers that it reads, each with a description."""
    body: tuple[Content, ...] = ()
    status: int = 200
    """The status of a success."""
    also: tuple[int, ...] = ()
    """Other statuses of a success, without a body."""
    refusals: tuple[int, ...] = ()
    """The statuses of its errors besides those of every call."""
    from_anywhere: bool = False
    """Whether a page of another site may lead to it: for pages without a token that change nothing."""
    refuse: Refuse | None = None
    """Makes the response to a call that is refused or fails; None: the problem itself."""
