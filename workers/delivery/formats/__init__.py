"""Webhook bodies, one file for each service: pure functions from event and verdict to the bytes of a body.

Every body keeps its service's limits, whatever an agent wrote, and contains no secrets.
"""

from __future__ import annotations

from typing import Any, Final

from bus.events import Event
from bus.hooks import Endpoint, Format
from bus.verdicts import Verdict
from bus.wire.codec import write_json
from workers.delivery.answer_links import AnswerLinks
from workers.delivery.formats import cloudevents, discord, ntfy, pagerduty, slack, teams
from workers.delivery.formats.card import card_of
from workers.delivery.formats.facts import LONGEST, facts_of, full_data, thin_data, timestamp
from workers.delivery.formats.text import cut

MOST_BODY: Final = 256 * 1024
"""Bytes. A larger body is replaced by a thin body, which has a note instead of input, output and data."""

_CHATS: Final = {"slack": slack.body, "discord": discord.body, "teams": teams.body}
_THIN: Final = "payload: thin"


def content_type(name: Format, *, batch: bool = False) -> str:
    """The media type of a format's body; `batch`: of a body that holds several."""
    if name != "cloudevents":
        return "application/json"
    return "application/cloudevents-batch+json" if batch else "application/cloudevents+json"


def render(
    event: Event,
    verdict: Verdict | None,
    endpoint: Endpoint,
    routing_key: str = "",
    links: AnswerLinks | None = None,
    page: str = "",
) -> bytes:
    """The body for an endpoint with a `format`; `routing_key` is the key of PagerDuty itself, not a reference to it.

    `links` answer the question that the event announces; `page` is the address of the event's page, for people.

    Raises ValueError if the event has a value that JSON cannot express.
    """
    chat = _CHATS.get(endpoint.format)
    if chat is not None:
        return chat(card_of(event, verdict, endpoint.payload, links, page))
    if endpoint.format == "ntfy":
        return ntfy.body(card_of(event, verdict, endpoint.payload, links, page), endpoint.url)
    if endpoint.format == "pagerduty":
        card = card_of(event, verdict, endpoint.payload, links, page)
        return pagerduty.body(card, event, verdict, endpoint.resolve, routing_key)
    facts, answers = facts_of(event), {"answer": links._asdict()} if links is not None else {}
    why = _THIN
    if endpoint.payload != "thin":
        raw = _serialize(event, endpoint.format, facts, full_data(event, verdict, facts) | answers)
        if len(raw) <= MOST_BODY:
            return raw
        why = f"the full event has {len(raw)} bytes"
    short = {**facts, "type": cut(facts["type"], LONGEST)}
    return _serialize(event, endpoint.format, short, thin_data(event, verdict, facts, why) | answers)


def topic_of(endpoint: Endpoint) -> str:
    """The part of an endpoint's URL that is in its bodies; empty for most formats."""
    return ntfy.topic_of(endpoint.url) if endpoint.format == "ntfy" else ""


def post_url(endpoint: Endpoint) -> str:
    """The URL that a body is posted to; for ntfy not the one of the endpoint, which is its topic's."""
    return ntfy.post_url(endpoint.url) if endpoint.format == "ntfy" else endpoint.url


def _serialize(event: Event, name: Format, facts: dict[str, str], data: dict[str, Any]) -> bytes:
    if name == "cloudevents":
        return cloudevents.body(event, facts, data)
    return write_json({"type": facts["type"], "timestamp": timestamp(event.time), "data": data})
