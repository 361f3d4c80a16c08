"""The body and the headers of a webhook request."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.errors import ConfigError
from bus.events import Event
from bus.hookfiles import find_http
from bus.hookfiles.base import HttpDialect
from bus.hooks import Endpoint
from bus.http.webhook_headers import webhook_headers
from bus.ids import webhook_id
from bus.secrets.redaction import redact_event, redact_texts
from bus.secrets.references import recent_secret
from bus.secrets.sealing import MissingKey
from bus.tracing.context import NO_CONTEXT, TraceContext
from bus.verdicts import Verdict
from workers.delivery.answer_links import AnswerLinks
from workers.delivery.formats import MOST_BODY, content_type, render
from workers.delivery.results import Undeliverable

REPLAY_HEADER: Final = "fleethook-replay-of"
"""The header of a replay with the id of the event that it sends again. Its `webhook-id` is new; its body has the event's id."""


def render_body(
    event: Event, verdict: Verdict | None, endpoint: Endpoint, links: AnswerLinks | None = None, page: str = ""
) -> bytes:
    """The body that an endpoint gets, redacted, in the form of its dialect or of its `format`.

    `page` is the address of the event's page, for messages to people.

    Raises Undeliverable if it cannot be written or PagerDuty's key does not exist; MissingKey as `request_headers` does.
    """
    dialect = find_http(endpoint.dialect)
    try:
        if dialect is not None:
            return _dialect_body(event, verdict, dialect)
        key = recent_secret(endpoint.routing_key) if endpoint.routing_key else ""
        return render(event, verdict, endpoint, key, links, page)
    except MissingKey:  # the delivery waits, because this machine may get the key
        raise
    except ConfigError as error:
        raise Undeliverable(f"endpoint {endpoint.id!r} ({endpoint.origin}): {error}") from error
    except (TypeError, ValueError) as error:  # a publisher's event may hold a value that JSON lacks
        raise Undeliverable(f"the event cannot be written as JSON ({error})") from error


def _dialect_body(event: Event, verdict: Verdict | None, dialect: HttpDialect) -> bytes:
    """Another system's body for the redacted event, without the event's details if it is too large."""
    safe = msgspec.structs.replace(redact_event(event), raw=None)
    if verdict is not None:
        verdict = msgspec.structs.replace(
            verdict, **redact_texts({"reason": verdict.reason, "instead": verdict.instead})
        )
    raw = dialect.http_body(safe, verdict)
    if len(raw) > MOST_BODY:
        thin = {"input": {}, "output": None, "data": {"thin": f"the full event has {len(raw)} bytes"}}
        raw = dialect.http_body(msgspec.structs.replace(safe, **thin), verdict)
    return raw


def request_headers(
    endpoint: Endpoint,
    delivery: str,
    body: bytes,
    now: int,
    replay_of: str = "",
    *,
    batch: bool = False,
    context: TraceContext = NO_CONTEXT,
    event: Event | None = None,
) -> dict[str, str]:
    """The headers of one attempt at `now` (seconds): the endpoint's own, and a signature if it has a secret.

    `replay_of` is the event's id if the delivery replays it. The events of a `batch` have their ids in the body. `context` is
    the trace context to pass on. `event` is the event of the body, which another system's headers may name.

    Raises Undeliverable if a `${VAR}` or a secret does not exist, since no later attempt would find it; MissingKey if a
    secret is sealed with a key that this machine does not have yet.
    """
    headers = {"Content-Type": content_type(endpoint.format, batch=batch), **context.headers()}
    if replay_of:
        headers[REPLAY_HEADER] = replay_of
    try:
        dialect = find_http(endpoint.dialect)
        defaults = dialect.http_headers(event) if dialect is not None and event is not None else None
        return webhook_headers(endpoint, webhook_id(delivery), now, body, headers, defaults=defaults)
    except MissingKey:  # the delivery waits, because this machine may get the key
        raise
    except ConfigError as error:
        raise Undeliverable(f"endpoint {endpoint.id!r} ({endpoint.origin}): {error}") from error
