"""The types of the live feed's messages. `/asyncapi.json` is made from them, and a test compares real messages with them."""

from __future__ import annotations

import msgspec

from workers.gateway.records.record_types import EventRecord


class FeedFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of every message of the feed."""

    cursor: str
    """The feed's place after the message; `?cursor=` continues from there."""


class LiveEvent(EventRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A redacted event."""

    cut: bool = False
    """Whether its payload is left out because it is too long."""


class DeliveryOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of a delivery, and its outcome."""

    id: str
    event: str
    hook: str
    kind: str
    target: str
    type: str
    tool: str
    session: str
    outcome: str
    """`delivered`, `retry` or `dead`."""
    attempt: int
    time: int
    at: str
    reason: str
    status: int = 0
    ms: float = 0.0
    next: int = 0
    """When it is tried again (ms since 1970)."""


class PositionMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="position"):
    """The first message: the place at which the feed begins for this client."""

    complete: bool
    """False if messages after the client's cursor may be lost."""


class EventMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """An event with its verdict."""

    event: LiveEvent


class DeliveryMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="delivery"):
    """The outcome of one attempt of a delivery."""

    delivery: DeliveryOutcome


class HeartbeatMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="heartbeat"):
    """Nothing came for 15 seconds."""


class BehindMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="behind"):
    """The client is slow: so many messages wait for it."""

    messages: int
    most: int


class DroppedMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="dropped"):
    """The client was too slow; the connection is closed."""

    messages: int


class Subscribed(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription."""

    events: str
    where: str


class SubscriptionsMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="subscriptions"):
    """The subscriptions in force, after a change."""

    subscriptions: tuple[Subscribed, ...]


class PongMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="pong"):
    """The answer to a ping."""


class ErrorMessage(FeedFields, frozen=True, kw_only=True, tag_field="kind", tag="error"):
    """A message of the client that could not be carried out, or an error of the feed."""

    detail: str
    code: str = ""


class Subscribe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="subscribe"):
    """Adds event patterns, each with the condition."""

    events: tuple[str, ...] = ()
    where: str = ""


class Unsubscribe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="unsubscribe"):
    """Removes event patterns; without any, all of them."""

    events: tuple[str, ...] = ()


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ping"):
    """Asks for a pong."""


SENT = (
    PositionMessage,
    EventMessage,
    DeliveryMessage,
    HeartbeatMessage,
    BehindMessage,
    DroppedMessage,
    SubscriptionsMessage,
    PongMessage,
    ErrorMessage,
)
TAKEN = (Subscribe, Unsubscribe, Ping)
