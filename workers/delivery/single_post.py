"""Posts one event to an endpoint now, outside of the stream of deliveries, as a carrier would send it."""

from __future__ import annotations

import time

from bus.events import Event
from bus.hooks import Endpoint
from bus.http.webhook_client import Reply, WebhookClient
from bus.ids import delivery_id
from bus.tracing.context import trace_of
from bus.tracing.post_spans import note_reply, post_span
from workers.delivery.batch_bodies import batch_body, batch_id
from workers.delivery.outcome_table import judge
from workers.delivery.results import Undeliverable
from workers.delivery.webhook import render_body, request_headers


async def post_once(client: WebhookClient, endpoint: Endpoint, event: Event) -> tuple[Reply, str]:
    """The receiver's reply to one attempt, and what is wrong with it; empty if it accepted the event.

    The trace context of the event is passed on, as it is with a delivery.
    """
    try:
        body, name = render_body(event, None, endpoint), delivery_id(event.id, endpoint.id)
        if endpoint.batch is not None:
            body, name = batch_body(endpoint.format, [body], list), batch_id([name])
        with post_span(endpoint.url, trace_of(event)) as span:
            now, is_batch = int(time.time()), endpoint.batch is not None
            headers = request_headers(endpoint, name, body, now, batch=is_batch, context=span.context, event=event)
            reply = await client.post(endpoint.url, body, headers, seconds=endpoint.timeout)
            note_reply(span, reply.status, reply.error)
    except Undeliverable as error:  # a secret or a variable is missing here
        return Reply(), error.reason
    return reply, judge(reply, endpoint.format).reason
