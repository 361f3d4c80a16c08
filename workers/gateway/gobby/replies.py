"""JSON responses in the format of Gobby's daemon: errors are `{"detail"}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from bus.wire.codec import write_json


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(write_json(value) + b"\n", status, headers, "application/json")


def refusal(status: int, detail: str) -> Response:
    """An error in Gobby's format."""
    return json_reply({"detail": detail}, status)
