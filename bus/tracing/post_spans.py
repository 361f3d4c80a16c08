"""The span of one POST: OpenTelemetry's conventions for HTTP clients (docs/tracing.md)."""

from __future__ import annotations

from urllib.parse import urlsplit

from bus.tracing import spans
from bus.tracing.context import TraceContext


def post_span(url: str, parent: TraceContext, attempt: int = 0) -> spans.Span:
    """A span for a POST to `url`; `attempt` counts from 0. Its context goes into the headers.

    The URL's path and query are left out, because services put their secrets there.
    """
    if not spans.is_on():
        return spans.Span(parent)
    attributes: dict[str, spans.Value] = {"http.request.method": "POST"}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # the POST itself says what is wrong with the URL
        host, port = "", 0
    if host:
        name = f"[{host}]" if ":" in host else host
        attributes |= {"server.address": host, "server.port": port, "url.full": f"{parts.scheme}://{name}:{port}/"}
    if attempt:
        attributes["http.request.resend_count"] = attempt
    return spans.start("POST", "client", parent, attributes)


def note_reply(span: spans.Span, status: int, error: str) -> None:
    """Add the response to the span: its status (0: there was none), and the kind of the failure, if it failed."""
    if status:
        span.set({"http.response.status_code": status})
    if error or status >= 400:
        span.fail(error or str(status))
