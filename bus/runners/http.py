"""Blocking webhooks: the event is posted, and the receiver's JSON is the answer (G-08)."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from bus.errors import DecodeError, FleethookError
from bus.events import Event
from bus.hookfiles import find_http
from bus.hookfiles.command_results import log_failure
from bus.hookfiles.json_replies import read_reply
from bus.hooks import NATIVE, Hook, HttpCall
from bus.http.webhook_client import Reply, WebhookClient
from bus.http.webhook_headers import webhook_headers
from bus.ids import delivery_id, webhook_id
from bus.outcomes import Outcome
from bus.runners.large_event import written
from bus.runners.per_file import run_per_file
from bus.secrets.redaction import redact_event, redact_text
from bus.tracing.context import at_trace, trace_of
from bus.tracing.post_spans import note_reply, post_span
from bus.wire.codec import write_json

SHOWN: Final = 4096
"""Characters at the end of an answer that a trace keeps."""

_REDACTION: Final = re.compile(rb"\[redacted(?::[a-z-]+)?\]")
_UNFIT: Final = re.compile(r"[^!-\-/-~]")  # characters that a message id may not hold (signing.py)


class HttpRunner:
    """Runs hooks of kind `http` with a client, which applies the address policy."""

    def __init__(self, client: WebhookClient) -> None:
        self._client = client

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """The receiver's answer; an imported hook is asked once per file of a call about several."""

        async def ask(call: Event, left: float) -> Outcome:
            outcome = await self._ask(hook, call, left)
            if outcome.failure:
                log_failure(call, outcome.failure)
            return outcome

        return await run_per_file(hook, event, seconds, ask)

    async def _ask(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """2xx with JSON is the answer, 2xx without a body is abstain; anything else is a failure."""
        name = f"hook {hook.id!r} ({hook.origin})" if hook.origin else f"hook {hook.id!r}"
        if hook.http is None:
            return Outcome(failure=f"{name} has no http part")
        dialect = find_http(hook.dialect)
        try:
            sent = event if hook.http.payload == "raw" else redact_event(event)
            body = await written(sent, lambda: dialect.http_body(sent, None, hook) if dialect else _body(sent))
            span = post_span(hook.http.url, trace_of(event))
            own = dialect.http_headers(event) if dialect else None
            headers = _headers(hook, hook.http, at_trace(event, span.context), body, own)
        except FleethookError as error:
            return Outcome(failure=f"{name} was not sent: {error}")
        except (TypeError, ValueError) as error:  # a publisher's event may hold a value that JSON lacks
            return Outcome(failure=f"{name} was not sent: the event cannot be written as JSON ({error})")
        with span:
            reply = await self._client.post(hook.http.url, body, headers, seconds=seconds)
            note_reply(span, reply.status, reply.error)
        if reply.error == "refused":
            # The rule that refused shows details of our network, so it is in the trace and not in the model's text.
            return Outcome(failure=f"{name} was not sent: the address policy refuses its target", output=reply.detail)
        shown = redact_text(reply.body[-2 * SHOWN :].decode("utf-8", "replace"))[-SHOWN:]
        problem = _problem(reply)
        if problem and dialect is not None and not reply.error and 400 <= reply.status < 500:
            refusal = dialect.http_refusal(reply.body, hook, event)
            if refusal is not None:
                return msgspec.structs.replace(refusal, output=shown)
        if problem:
            return Outcome(failure=f"{name} {problem}", output=shown)
        if not reply.body.strip():
            return Outcome()
        try:
            outcome = (
                dialect.http_answer(reply.body, hook, event) if dialect is not None else read_reply(reply.body, hook.id)
            )
            if hook.http.payload != "raw" and _holds_redaction(outcome.updated_input):
                return Outcome(
                    failure=f"{name} changed an input that it saw redacted, so its secrets would be lost; "
                    "say `payload: raw` where it has to see them",
                    output=shown,
                )
            return msgspec.structs.replace(outcome, output=shown)
        except DecodeError as error:
            return Outcome(failure=f"{name} got an answer that cannot be used: {error}", output=shown)


def _headers(
    hook: Hook, call: HttpCall, event: Event, body: bytes, defaults: Mapping[str, str] | None
) -> dict[str, str]:
    # The id that a delivery of this event would have: a failed request may be sent again as a delivery.
    message_id = _UNFIT.sub("-", webhook_id(delivery_id(event.id or "event", hook.id)))[:256]
    ours = {"Content-Type": "application/json", **trace_of(event).headers()}
    with_id = hook.dialect == NATIVE
    return webhook_headers(call, message_id, int(time.time()), body, ours, with_id=with_id, defaults=defaults)


def _holds_redaction(value: object) -> bool:
    """Whether JSON-like data holds the replacement of a secret anywhere."""
    return value is not None and _REDACTION.search(write_json(value)) is not None


def _body(event: Event) -> bytes:
    return write_json({"event": {field: getattr(event, field) for field in event.__struct_fields__}})


def _problem(reply: Reply) -> str:
    if reply.error:
        return f"got no answer ({reply.error}): {reply.detail}"
    if 300 <= reply.status < 400:
        return f"was answered {reply.status}, a redirect, and none is followed"
    if not 200 <= reply.status < 300:
        return f"was answered {reply.status}"
    encoding = next((value for key, value in reply.headers if key.lower() == "content-encoding"), "identity")
    return "" if encoding in ("", "identity") else f"was answered in {encoding[:40]} encoding, which was not accepted"
