"""Sends test events to an endpoint now, as a carrier would send them, for `webhooks test` and the gateway."""

from __future__ import annotations

import time
from typing import NamedTuple

import msgspec

from bus.events import Event, EventType
from bus.hooks import Endpoint
from bus.hooksets.in_force import HookSet
from bus.http.webhook_client import Reply, WebhookClient
from bus.ids import event_id, host_name
from bus.tracing.context import TraceContext
from workers.delivery.single_post import post_once


class TrialAttempt(NamedTuple):
    """One attempt: the receiver's reply, and what is wrong with it; empty if it accepted the event."""

    reply: Reply
    wrong: str


async def post_tests(hooks: HookSet, endpoint: Endpoint, message: str, context: TraceContext) -> list[TrialAttempt]:
    """Send a test; at PagerDuty also the end of the incident that it opens. Returns each attempt.

    `context` is the trace context of the person or program that wants the test.
    """
    name = event_id()
    event = Event(
        type="notification",
        id=name,
        source="generic",
        native="test",
        time=int(time.time() * 1000),
        host=host_name(),
        data={"test": True, "message": message},
        traceparent=context.traceparent,
        tracestate=context.tracestate,
    )
    async with WebhookClient(hooks.network, proxy=hooks.proxy) as client:
        client.open()  # the imports take 300 ms, which must not count as the receiver's time
        if endpoint.format != "pagerduty":
            return [TrialAttempt(*await post_once(client, endpoint, event))]
        # A separate incident, so that the test changes no incident of real events.
        endpoint = msgspec.structs.replace(endpoint, resolve="session")
        event = msgspec.structs.replace(event, session=f"test-{name}")
        sent = [TrialAttempt(*await post_once(client, endpoint, event))]
        if not sent[0].wrong:
            end = msgspec.structs.replace(event, type=EventType.SESSION_END.value, id=event_id())
            sent.append(TrialAttempt(*await post_once(client, endpoint, end)))
        return sent
