"""One webhook attempt: the body rendered once, signed as sent, posted within a deadline; and what its answer means."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from bus.codec import write_json
from bus.dialects.hooking import HttpDialect, find_http
from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import NATIVE, Endpoint
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

SHOWN: Final = 4096
"""Bytes of a response that the log of attempts keeps."""

_FACTS: Final = ("id", "source", "session", "host", "cwd", "native", "tool", "call")
_TEXTS: Final = (*_FACTS, "type", "native_tool")
_SECRET_SECONDS: Final = 1.0
_MOST_SECRETS: Final = 4096
_secrets: dict[str, tuple[float, str]] = {}

RETRIED: Final = frozenset({408, 425, 429})
"""4xx that say "later" and not "no"; every 5xx is retried too."""


def render_body(event: Event, verdict: Verdict | None, dialect: str = NATIVE) -> bytes:
    """The JSON body for an event, as the endpoint's dialect has it; secrets redacted.

    Ours has `type` with dots for colons, `timestamp`, `data`. Raises GivenUp where it cannot be written.
    """
    theirs = find_http(dialect)
    if theirs is not None:
        return _foreign(event, verdict, theirs)
    facts = _clean({
        "type": event.type.replace(":", "."), "id": event.id, "source": event.source, "session": event.session,
        "host": event.host, "cwd": event.cwd, "native": event.native, "tool": event.tool, "call": event.call,
    })  # fmt: skip
    data: dict[str, Any] = {name: facts[name] for name in _FACTS}
    if verdict is not None:
        said = _clean({"reason": verdict.reason, "fallback": verdict.fallback, "version": verdict.version})
        data["verdict"] = {"decision": verdict.decision, **said}
    body = {
        "type": facts["type"],
        "timestamp": datetime.fromtimestamp(event.time / 1000, UTC).isoformat(timespec="milliseconds"),
    }
    details = {name: redact(value) for name, value in
               (("input", event.input), ("output", event.output), ("data", event.data))}  # fmt: skip
    raw = write_json({**body, "data": {**data, **details}})
    if len(raw) > MOST_BODY:
        raw = write_json({**body, "data": {**data, "thin": f"the full event has {len(raw)} bytes"}})
    return raw


def _foreign(event: Event, verdict: Verdict | None, theirs: HttpDialect) -> bytes:
    """Another system's body of the redacted event; one that is too large goes without what makes it so."""
    clean = {name: redact(value) for name, value in
             (("input", event.input), ("output", event.output), ("data", event.data))}  # fmt: skip
    texts = _clean({name: getattr(event, name) for name in _TEXTS})
    safe = msgspec.structs.replace(event, raw=None, **texts, **clean)
    try:
        raw = theirs.http_body(safe, verdict)
        if len(raw) > MOST_BODY:
            thin = {"input": {}, "output": None, "data": {"thin": f"the full event has {len(raw)} bytes"}}
            raw = theirs.http_body(msgspec.structs.replace(safe, **thin), verdict)
    except (TypeError, ValueError) as error:  # a value that JSON does not have, from a publisher's own event
        raise GivenUp(f"the event cannot be written as JSON ({error})") from error
    return raw


def _clean(texts: dict[str, str]) -> dict[str, str]:
    """The texts without secrets; looked at together first, since most hold none and each look costs 10 us."""
    together = "\n".join(texts.values())
    return texts if redact_text(together) == together else {name: redact_text(text) for name, text in texts.items()}


def request_headers(endpoint: Endpoint, delivery: str, body: bytes, now: int) -> dict[str, str]:
    """The headers of one attempt at `now` (seconds): the endpoint's own, and the signature where it has a secret.

    Raises GivenUp where a `${VAR}` or secret that it names does not exist: no later attempt would find it.
    """
    try:
        own = fill(endpoint.headers) if endpoint.headers else {}
        if endpoint.secret:
            ours = signed_headers([_secret(endpoint.secret)], webhook_id(delivery), now, body)
        else:
            ours = {"webhook-id": webhook_id(delivery), "webhook-timestamp": str(now)}
    except ConfigError as error:
        raise GivenUp(f"endpoint {endpoint.id!r} ({endpoint.origin}): {error}") from error
    ours["Content-Type"] = "application/json"
    if not own:
        return ours
    # HTTP knows no case: a header of theirs beside ours of the same name would be two, and receivers differ on which counts.
    names = {name.lower() for name in ours}
    return {name: value for name, value in own.items() if name.lower() not in names} | ours


def _secret(reference: str) -> str:
    """The secret behind a reference, looked up at most once a second: a file may be replaced, and unsealing costs."""
    now = time.monotonic()
    known = _secrets.get(reference)
    if known is None or known[0] < now:
        if len(_secrets) >= _MOST_SECRETS:
            _secrets.clear()
        known = _secrets[reference] = (now + _SECRET_SECONDS, resolve_secret(reference))
    return known[1]


async def post(poster: Poster, endpoint: Endpoint, delivery: str, body: bytes, now: int) -> Reply:
    """One attempt and what came back, whatever it was; raises GivenUp where it cannot even be written."""
    headers = request_headers(endpoint, delivery, body, now)
    return await poster.post(endpoint.url, body, headers, seconds=endpoint.timeout)


def judge(reply: Reply) -> AttemptFailed | GivenUp | None:
    """What an answer means: 2xx delivered (None); 408, 425, 429, 5xx and no answer are tried again; the rest is final."""
    if reply.error == "refused":
        return GivenUp(f"the address policy refuses the target: {reply.detail}")
    if reply.error:
        return AttemptFailed(f"{reply.error}: {reply.detail}")
    if 200 <= reply.status < 300:
        return None
    text = f"receiver answered {reply.status}"
    if reply.status >= 500 or reply.status in RETRIED:
        return AttemptFailed(text, retry_after(reply.retry_after))
    if reply.status == 410:
        return GivenUp(f"{text}: the receiver is gone and wants no more")
    if 300 <= reply.status < 400:
        return GivenUp(f"{text}: redirects are never followed")
    return GivenUp(f"{text}: trying again would not change it")


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
    """The beginning of a response, redacted, for the log of attempts."""
    return redact_text(reply.body[:SHOWN].decode("utf-8", "replace")) if reply.body else ""
