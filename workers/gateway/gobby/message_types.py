"""The types of the WebSocket messages of Gobby's daemon; `/asyncapi.json` is made from them."""

from __future__ import annotations

from typing import Any

import msgspec


class Established(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="connection_established"):
    """The first message."""

    client_id: str
    user_id: str
    latency: float
    conversation_ids: tuple[str, ...]


class HookEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="hook_event"):
    """An event with its verdict, redacted. Without the payload it has only its names and its time."""

    event_type: str
    """Its name as the client spells it, such as `pre-tool-use`."""
    event: str
    """Gobby's unified name, such as `before_tool`."""
    timestamp: str
    session_id: str = ""
    source: str = ""
    data: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    task_id: str = ""


class SubscribeSuccess(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="subscribe_success"):
    """All names that the client has subscribed to."""

    events: tuple[str, ...]


class UnsubscribeSuccess(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="unsubscribe_success"):
    """The names that remain."""

    events: tuple[str, ...]


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="pong"):
    """The answer to a ping."""

    latency: float
    """Seconds of the last ping's round trip; 0 before the first."""


class Error(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="error"):
    """A message that could not be carried out."""

    code: str
    message: str
    request_id: Any = None


class Subscribe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="subscribe"):
    """Adds event names, each with a condition in CEL."""

    events: tuple[str, ...]
    where: str = ""


class Unsubscribe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="unsubscribe"):
    """Removes event names; without any, all of them."""

    events: tuple[str, ...] = ()


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ping"):
    """Asks for a pong."""


SENT = (Established, HookEvent, SubscribeSuccess, UnsubscribeSuccess, Pong, Error)
TAKEN = (Subscribe, Unsubscribe, Ping)
