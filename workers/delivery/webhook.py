"""One webhook attempt: the body rendered once, signed as sent, posted within a deadline; and what its answer means."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from bus.errors import ConfigError
from bus.events import Event
from bus.hookfiles import find_http
from bus.hookfiles.base import HttpDialect
from bus.hooks import Endpoint, Format
from bus.http.client import Before, Reply, WebhookClient
from bus.http.webhook_headers import webhook_headers
from bus.ids import webhook_id
from bus.secrets.redaction import redact_event, redact_texts
from bus.secrets.references import recent_secret
from bus.secrets.sealing import MissingKey
from bus.verdicts import Verdict
from workers.delivery.formats import MOST_BODY, content_type, render
from workers.delivery.formats.replies import objection, said, wanted_wait
from workers.delivery.outcomes import reason_of, row_of
from workers.delivery.responses import body_text
from workers.delivery.retries import AttemptFailed, GivenUp

MOST_RETRY_AFTER: Final = 86_400.0
"""A receiver's Retry-After counts up to a day."""

REPLAY_HEADER: Final = "fleethook-replay-of"
"""Says of a replay which event it sends again; the `webhook-id` is its own, the event's id in the body is not."""


def render_body(event: Event, verdict: Verdict | None, endpoint: Endpoint) -> bytes:
    """The body that an endpoint gets, secrets redacted: its dialect's own, else as its `format` has it.

    Raises GivenUp where it cannot be written, or PagerDuty's key is not there; MissingKey as `request_headers` does.
    """
    theirs = find_http(endpoint.dialect)
    try:
        if theirs is not None:
            return _foreign(event, verdict, theirs)
        key = recent_secret(endpoint.routing_key) if endpoint.routing_key else ""
        return render(event, verdict, endpoint, key)
    except MissingKey:  # it may come: the delivery waits for it
        raise
    except ConfigError as error:
        raise GivenUp(f"endpoint {endpoint.id!r} ({endpoint.origin}): {error}") from error
    except (TypeError, ValueError) as error:  # a value that JSON does not have, from a publisher's own event
        raise GivenUp(f"the event cannot be written as JSON ({error})") from error


def _foreign(event: Event, verdict: Verdict | None, theirs: HttpDialect) -> bytes:
    """Another system's body of the redacted event; one that is too large goes without what makes it so."""
    safe = msgspec.structs.replace(redact_event(event), raw=None)
    if verdict is not None:
        verdict = msgspec.structs.replace(
            verdict, **redact_texts({"reason": verdict.reason, "instead": verdict.instead})
        )
    raw = theirs.http_body(safe, verdict)
    if len(raw) > MOST_BODY:
        thin = {"input": {}, "output": None, "data": {"thin": f"the full event has {len(raw)} bytes"}}
        raw = theirs.http_body(msgspec.structs.replace(safe, **thin), verdict)
    return raw


def request_headers(
    endpoint: Endpoint, delivery: str, body: bytes, now: int, replay_of: str = "", *, batch: bool = False
) -> dict[str, str]:
    """The headers of one attempt at `now` (seconds): the endpoint's own, and the signature where it has a secret.

    `replay_of` is the id of the event where the delivery is a replay of it; a `batch` is of many, each with its own.

    Raises GivenUp where a `${VAR}` or secret that it names does not exist: no later attempt would find it; MissingKey where
    a secret is sealed with a key that this machine does not have yet.
    """
    ours = {"Content-Type": content_type(endpoint.format, batch=batch)}
    if replay_of:
        ours[REPLAY_HEADER] = replay_of
    try:
        return webhook_headers(endpoint, webhook_id(delivery), now, body, ours)
    except MissingKey:  # it may come: the delivery waits for it
        raise
    except ConfigError as error:
        raise GivenUp(f"endpoint {endpoint.id!r} ({endpoint.origin}): {error}") from error


async def post(
    client: WebhookClient,
    endpoint: Endpoint,
    delivery: str,
    body: bytes,
    now: int,
    before: Before | None = None,
    *,
    replay_of: str = "",
    batch: bool = False,
) -> Reply:
    """One attempt and what came back, whatever it was; raises GivenUp where it cannot even be written.

    `before` is awaited right before the first byte is sent, and what it raises is raised.
    """
    headers = request_headers(endpoint, delivery, body, now, replay_of, batch=batch)
    return await client.post(endpoint.url, body, headers, seconds=endpoint.timeout, before=before)


def judge(reply: Reply, name: Format = "fleethook") -> AttemptFailed | GivenUp | None:
    """What an answer means by the table of outcomes: delivered (None), to be tried again, or given up.

    `name` is the format that was sent: some services say an error in the body of a 200, or a wait in that of a 429.
    """
    row = row_of(reply)
    if row.means == "delivered":
        return objection(name, reply)
    if reply.error == "refused":
        return GivenUp(f"the address policy refuses the target: {reply.detail}")
    if reply.error:
        return AttemptFailed(f"{reply.error}: {reply.detail}")
    word = said(name, reply)
    text = f"receiver answered {reply.status}" + (f" ({word})" if word else "")
    if row.means == "dead":
        return GivenUp(reason_of(row, reply, text))
    wait = max(retry_after(reply.retry_after), min(wanted_wait(name, reply), MOST_RETRY_AFTER))
    return AttemptFailed(text, wait)


def retry_after(text: str, now: datetime | None = None) -> float:
    """The seconds in a Retry-After header (a number or a date), at most a day; 0 where it says nothing usable."""
    text = text.strip()
    if text.isascii() and text.isdigit():  # other scripts have digits too, which float() reads or not
        return min(float(text), MOST_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        left = (when - (now or datetime.now(UTC))).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):  # what it raises for text that is no date
        return 0.0
    return min(max(left, 0.0), MOST_RETRY_AFTER)


def shown(reply: Reply) -> str:
    """The beginning of a response's body, redacted, for a person."""
    return body_text(reply)
