"""The format of all errors: `application/problem+json` (RFC 9457). It is never a 2xx and never contains a decision."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from bus.errors import AmbiguousId, DecodeError, FleethookError, NotFound, RequestTimeout, Unreachable
from bus.secrets.redaction import redact_text
from bus.wire.codec import write_json

MEDIA_TYPE: Final = "application/problem+json"

TITLES: Final = {
    400: "bad request",
    401: "no valid token",
    403: "refused",
    404: "not found",
    405: "method not allowed",
    408: "the request came too slowly",
    409: "not possible in this state",
    412: "changed meanwhile",
    413: "the body is too large",
    415: "media type not supported",
    428: "the version is missing",
    431: "the headers are too large",
    499: "the caller hung up",
    500: "the gateway failed",
    501: "not installed",
    503: "not possible now",
    504: "no verdict in time",
}


BUS_AWAY: Final = "bus-away"
"""The code of a problem that Redis cannot be used; it may pass."""


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an error."""

    title: str
    status: int
    code: str
    """The kind of the error, for programs; docs/gateway.md lists them."""
    detail: str
    """What is wrong, where, and what to do."""


class Problem(FleethookError):
    """An error of a call; `detail` says what is wrong, where, and what to do.

    It may quote what the caller sent, so secrets in it are redacted.
    """

    def __init__(self, status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.code, self.detail, self.headers = status, code, redact_text(detail), headers or {}
        super().__init__(self.detail)

    def response(self) -> Response:
        """The response to the caller."""
        title = TITLES.get(self.status, "error")
        body = ProblemBody(title=title, status=self.status, code=self.code, detail=self.detail)
        return Response(write_json(msgspec.to_builtins(body)) + b"\n", self.status, self.headers, MEDIA_TYPE)


def problem_of(error: FleethookError) -> Problem:
    """The problem that reports an error of the bus."""
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
        return Problem(503, BUS_AWAY, str(error), {"Retry-After": "1"})
    return Problem(500, "failed", str(error))
