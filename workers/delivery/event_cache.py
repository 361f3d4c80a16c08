"""The events of deliveries: each is decoded once, and each of its webhook bodies is rendered once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from bus.errors import DecodeError
from bus.events import Event
from bus.hooks import Endpoint
from bus.hooksets.in_force import HookSet
from bus.requests import read_event, read_request
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.delivery.answer_links import AnswerLinks
from workers.delivery.deliveries import unpack_fields
from workers.delivery.formats import topic_of
from workers.delivery.formats.event_page import event_page
from workers.delivery.results import Undeliverable
from workers.delivery.webhook import render_body

_MOST_EVENTS: Final = 256
_MOST_BYTES: Final = 32 * 1024 * 1024


class DecodedEvent:
    """An event with its verdict, the hooks last seen in force for it, and the webhook bodies rendered so far."""

    __slots__ = ("_bodies", "_page", "event", "hook_set", "hook_set_read_at", "size", "verdict")

    def __init__(self, event: Event, verdict: Verdict | None, size: int, page: str = "") -> None:
        self.event, self.verdict, self.size, self._page = event, verdict, size, page
        self.hook_set: HookSet | None = None
        self.hook_set_read_at = 0.0
        self._bodies: dict[tuple[str, ...], bytes] = {}

    def webhook_body(self, endpoint: Endpoint, links: AnswerLinks | None = None) -> bytes:
        """The body that an endpoint gets; raises Undeliverable if it cannot be written."""
        if endpoint.routing_key or links is not None:  # this key may change at any time, and links are for one attempt
            return render_body(self.event, self.verdict, endpoint, links, self._page)
        form = (endpoint.dialect, endpoint.format, endpoint.payload, topic_of(endpoint))
        body = self._bodies.get(form)
        if body is None:
            body = self._bodies[form] = render_body(self.event, self.verdict, endpoint, None, self._page)
        return body


class EventCache:
    """The events that were decoded last, limited in number and in bytes; `public_url` is the address of their pages."""

    def __init__(self, keys: Keys, public_url: str = "") -> None:
        self._keys, self._public_url = keys, public_url
        self._events: OrderedDict[str, DecodedEvent] = OrderedDict()
        self._bytes = 0

    def decode(self, event: str, body: bytes, stream: str) -> DecodedEvent:
        """The event of this id, decoded from its kept body unless it is cached.

        `stream` is the stream of the delivery. Raises Undeliverable if the body cannot be read.
        """
        known = self._events.get(event)
        if known is None:
            known = _decode(body, stream, self._keys, self._public_url)
            self._events[event] = known
            self._bytes += known.size
            while len(self._events) > _MOST_EVENTS or (self._bytes > _MOST_BYTES and len(self._events) > 1):
                self._bytes -= self._events.popitem(last=False)[1].size
        return known


def _decode(body: bytes, stream: str, keys: Keys, public_url: str) -> DecodedEvent:
    try:
        fields = unpack_fields(body)
        event = read_event(read_request(StreamEntry(stream, fields[b"entry"].decode(), fields), keys))
        verdict = decode_verdict(fields[b"verdict"]) if b"verdict" in fields else None
    except (DecodeError, KeyError, ValueError) as error:
        raise Undeliverable(f"its event cannot be read: {error}") from error
    return DecodedEvent(event, verdict, len(body), event_page(public_url, event))
