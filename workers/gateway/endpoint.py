"""One path and method of a gateway: who may call it, what handles it, and what it takes and gives.

The application routes by these values, and `/openapi.json` is made from them.
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


class Endpoint(NamedTuple):
    """One path and method."""

    method: str
    path: str
    scope: Scope | None
    """What the caller's token has to have; None: anyone may call."""
    handle: Handle
    answer: tuple[Content, ...]
    """What it gives where it succeeds; empty where that has no type of its own."""
    item: Any = None
    """The type of the items where it gives a list; `answer` is not read then."""
    query: type[msgspec.Struct] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """The headers that it reads, each with what it means."""
    body: tuple[Content, ...] = ()
    status: int = 200
    """Where it succeeds."""
    also: tuple[int, ...] = ()
    """Other statuses of success, which have no body."""
    refusals: tuple[int, ...] = ()
    """The statuses of its own errors, beside those that every call can have."""
    refuse: Refuse | None = None
    """Makes the response to a call that is refused or fails, where that is more than the error itself."""
