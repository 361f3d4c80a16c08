"""One webhook attempt: the body rendered once, signed as sent, posted within a deadline; and what its answer means."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from bus.codec import write_json
from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import Endpoint
from bus.ids import webhook_id
from bus.posting import Poster, Reply
from bus.redaction import redact, redact_text
from bus.secrets import fill, resolve_secret
from bus.signing import headers as signed_headers
from bus.verdicts import Verdict
from workers.retries import AttemptFailed, GivenUp

MOST_BODY: Final = 256 * 1024
"""A larger body goes thin: without input, output and data, and saying so."""

MOST_RETRY_AFTER: Final = 86_400.0
"""A receiver's Retry-After counts up to a day."""

RETRIED: Final = frozenset({408, 425, 429})
"""4xx that say "later" and not "no"; every 5xx is retried too."""


def render_body(event: Event, verdict: Verdict | None) -> bytes:
    """The JSON body for an event: `type` with dots for colons, `timestamp`, `data`; secrets redacted."""
    data: dict[str, Any] = {
        "id": event.id, "source": event.source, "session": event.session, "host": event.host, "cwd": event.cwd,
        "native": event.native, "tool": event.tool, "call": event.call,
    }  # fmt: skip
    if verdict is not None:
        data["verdict"] = {"decision": verdict.decision, "reason": verdict.reason, "fallback": verdict.fallback,
                           "version": verdict.version}  # fmt: skip
    body = {
        "type": event.type.replace(":", "."),
        "timestamp": datetime.fromtimestamp(event.time / 1000, UTC).isoformat(timespec="milliseconds"),
        "data": {**data, "input": event.input, "output": event.output, "data": event.data},
    }
    raw = write_json(redact(body))
    if len(raw) > MOST_BODY:
        raw = write_json(redact({**body, "data": {**data, "thin": f"the full event has {len(raw)} bytes"}}))
    return raw


def request_headers(endpoint: Endpoint, delivery: str, body: bytes, now: int) -> dict[str, str]:
    """The headers of one attempt at `now` (seconds): the endpoint's own, and the signature where it has a secret.

    Raises GivenUp where a `${VAR}` or secret that it names does not exist: no later attempt would find it.
    """
    made = {"Content-Type": "application/json", "User-Agent": "fleethook"}
    try:
        made |= fill(endpoint.headers)
        if endpoint.secret:
            made |= signed_headers([resolve_secret(endpoint.secret)], webhook_id(delivery), now, body)
        else:
            made |= {"webhook-id": webhook_id(delivery), "webhook-timestamp": str(now)}
    except ConfigError as error:
        raise GivenUp(f"endpoint {endpoint.id!r} ({endpoint.origin}): {error}") from error
    return made


async def post(poster: Poster, endpoint: Endpoint, delivery: str, body: bytes, now: int) -> Reply:
    """One attempt; raises AttemptFailed where another may help and GivenUp where none can."""
    reply = await poster.post(
        endpoint.url, body, request_headers(endpoint, delivery, body, now), seconds=endpoint.timeout
    )
    judge(reply)
    return reply


def judge(reply: Reply) -> None:
    """What an answer means: 2xx delivered; 408, 425, 429, 5xx and no answer at all are tried again; the rest is final."""
    if reply.error == "refused":
        raise GivenUp(f"the address policy refuses the target: {reply.detail}")
    if reply.error:
        raise AttemptFailed(f"{reply.error}: {reply.detail}")
    if 200 <= reply.status < 300:
        return
    text = f"receiver answered {reply.status}"
    if reply.status >= 500 or reply.status in RETRIED:
        raise AttemptFailed(text, retry_after(reply.retry_after))
    if reply.status == 410:
        raise GivenUp(f"{text}: the receiver is gone and wants no more")
    if 300 <= reply.status < 400:
        raise GivenUp(f"{text}: redirects are never followed")
    raise GivenUp(f"{text}: trying again would not change it")


def retry_after(text: str, now: datetime | None = None) -> float:
    """The seconds in a Retry-After header (a number or a date), at most a day; 0 where it says nothing usable."""
    if not text:
        return 0.0
    if text.isdigit():
        return min(float(text[:9]), MOST_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max((when - (now or datetime.now(UTC))).total_seconds(), 0.0), MOST_RETRY_AFTER)


def shown(reply: Reply) -> str:
    """The beginning of a response, redacted, for the log of attempts."""
    return redact_text(reply.body[:4096].decode("utf-8", "replace"))
