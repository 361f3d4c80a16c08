"""Shows the HTTP request of a webhook delivery as it would be sent now, without its secrets."""

from __future__ import annotations

import shlex

import msgspec

from bus.errors import DecodeError, FleethookError
from bus.hooks import Endpoint
from bus.ids import webhook_id
from bus.requests import read_event, read_request
from bus.secrets.redaction import is_secret_name, redact_text, redact_url
from bus.secrets.replacements import REDACTED
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.delivery.deliveries import Delivery
from workers.delivery.formats import content_type
from workers.delivery.webhook import render_body
from workers.records.events import find_entry


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request; URL, headers and body are redacted."""

    url: str
    headers: dict[str, str]
    body: str


async def webhook_request(
    connections: Connections, keys: Keys, delivery: Delivery, endpoint: Endpoint
) -> RecordedRequest | None:
    """The request of a delivery to this endpoint; None if its event is no longer kept or has no body in this format."""
    entry = await find_entry(connections, keys, delivery.event)
    if entry is None:
        return None
    try:
        event = read_event(read_request(entry, keys))
        verdict = decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
        body = render_body(event, verdict, msgspec.structs.replace(endpoint, routing_key=""))
    except (DecodeError, FleethookError):
        return None
    last = delivery.log[-1] if delivery.log else None
    sent_at = int((last.ms - last.took) / 1000) if last is not None else delivery.created // 1000
    headers = {name: _header(name, value) for name, value in endpoint.headers.items()}
    headers |= {"Content-Type": content_type(endpoint.format), "webhook-id": webhook_id(delivery.id)}
    headers["webhook-timestamp"] = str(sent_at)
    if endpoint.secret:
        headers["webhook-signature"] = REDACTED
    return RecordedRequest(
        url=redact_url(endpoint.url), headers=headers, body=redact_text(body.decode("utf-8", "replace"))
    )


def curl(request: RecordedRequest) -> str:
    """The request as a curl command line, without the headers that are redacted."""
    words = [f"curl -X POST {shlex.quote(request.url)}"]
    words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in request.headers.items() if value != REDACTED]
    words.append(f"--data-raw {shlex.quote(request.body)}")
    return " \\\n  ".join(words)


def _header(name: str, value: str) -> str:
    """A header's value, redacted; a reference such as `${TOKEN}` is shown as it is and not resolved."""
    if value.startswith("${") and value.endswith("}"):
        return value
    return REDACTED if is_secret_name(name) else redact_text(value)
