"""The one shape of errors: `application/problem+json` (RFC 9457), never a 2xx and never with a decision in it."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from bus.errors import AmbiguousId, DecodeError, FleethookError, NotFound, RequestTimeout, Unreachable
from bus.wire.codec import write_json

MEDIA_TYPE: Final = "application/problem+json"

TITLES: Final = {
    400: "bad request",
    401: "no valid token",
    403: "refused",
    404: "not found",
    405: "method not allowed",
    408: "the body came too slowly",
    409: "not possible in this state",
    413: "the body is too large",
    415: "media type not supported",
    499: "the caller hung up",
    500: "the gateway failed",
    503: "the bus is away",
    504: "no verdict in time",
}


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True):
    """An error as its caller reads it."""

    title: str
    status: int
    code: str
    """What kind of error it is, for programs; docs/gateway.md lists them."""
    detail: str
    """What is wrong, where, and what to do."""


class Problem(FleethookError):
    """An error as its caller gets it; `detail` says what is wrong, where, and what to do."""

    def __init__(self, status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.code, self.detail, self.headers = status, code, detail, headers or {}
        super().__init__(detail)

    def response(self) -> Response:
        """The response to the caller."""
        title = TITLES.get(self.status, "error")
        body = ProblemBody(title=title, status=self.status, code=self.code, detail=self.detail)
        return Response(write_json(msgspec.to_builtins(body)) + b"\n", self.status, self.headers, MEDIA_TYPE)


def problem_of(error: FleethookError) -> Problem:
    """The problem that an error of the bus is to a caller."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, DecodeError):
        return Problem(400, "body-invalid", str(error))
    if isinstance(error, AmbiguousId):
        return Problem(400, "id-ambiguous", str(error))
    if isinstance(error, NotFound):
        return Problem(404, "not-found", str(error))
    if isinstance(error, RequestTimeout):
        return Problem(504, "no-verdict", str(error))
    if isinstance(error, Unreachable):
        return Problem(503, "bus-away", str(error), {"Retry-After": "1"})
    return Problem(500, "failed", str(error))
