"""`/asyncapi.json`: AsyncAPI 3.1 of the live feed and of the streams in Redis, made from the types in use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.events import Event
from bus.verdicts import Verdict
from bus.wire.codec import write_json
from bus.wire.entry_fields import ASKED, PUBLISHED, RECORDED
from bus.wire.keys import DECLARED, Keys
from workers.gateway.api_path import JSON
from workers.gateway.gobby import message_types as gobby
from workers.gateway.live import message_types as live

_REFS: Final = "#/components/schemas/{name}"
_MSGPACK: Final = "application/msgpack"
_ABOUT: Final = (
    "What Fleethook sends and takes in messages: the live feed of a gateway (WebSocket and server-sent events), the feed "
    "in Gobby's messages, and the streams in Redis that publishers in other languages write to (docs/wire.md)."
)
_LIVE_QUERY: Final = {
    "events": "Event patterns, with commas.",
    "where": "A condition in CEL.",
    "cursor": "Where to go on.",
}
_STREAMS: Final = ("events", "requests")

Types = Iterable[type[msgspec.Struct]]
Document = dict[str, Any]


class AsyncApi:
    """The description of the feed and of the fleet's streams."""

    def __init__(self, keys: Keys, version: str) -> None:
        self._keys, self._version = keys, version

    async def handle(self, _: Request) -> Response:
        """The messages of the live feed and of the streams, as AsyncAPI 3.1."""
        return Response(self._body, 200, None, JSON)

    @cached_property
    def _body(self) -> bytes:
        return write_json(self.document) + b"\n"

    @cached_property
    def document(self) -> Document:
        """The description as a value."""
        named = {
            **_named("live", (*live.SENT, *live.TAKEN)),
            **_named("gobby", (*gobby.SENT, *gobby.TAKEN)),
        }
        kinds = [*named.values(), Event, Verdict]
        schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFS)
        messages = {name: _message(kind, schema) for (name, kind), schema in zip(named.items(), schemas, strict=False)}
        event, verdict = schemas[-2:]
        messages |= {
            "streamEvent": _entry("An entry of the stream of events.", {**PUBLISHED, **RECORDED}, event),
            "streamRequest": _entry("An entry of the stream of requests.", {**ASKED, **PUBLISHED}, event),
            "reply": {
                "summary": "The verdict on a request.",
                "contentType": _MSGPACK,
                "payload": verdict,
            },
        }
        return {
            "asyncapi": "3.1.0",
            "info": {"title": "Fleethook", "version": self._version, "description": _ABOUT},
            "defaultContentType": JSON,
            "servers": {
                "gateway": {"host": "127.0.0.1:4665", "protocol": "ws", "security": [{"$ref": _scheme("token")}]},
                "events": {"host": "127.0.0.1:4665", "protocol": "http", "security": [{"$ref": _scheme("token")}]},
                "redis": {"host": "127.0.0.1:6379", "protocol": "redis"},
            },
            "channels": self._channels(),
            "operations": _operations(),
            "components": {
                "messages": messages,
                "schemas": components,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }

    def _channels(self) -> Document:
        query = {
            "type": "object",
            "properties": {name: {"type": "string", "description": text} for name, text in _LIVE_QUERY.items()},
        }
        described = {key.pattern: key.purpose for key in DECLARED}
        socket = {"bindings": {"ws": {"method": "GET", "query": query}}}
        return {
            "live": {
                "address": "/v1/live",
                "description": "The live feed over a WebSocket.",
                "servers": [_ref("servers", "gateway")],
                "messages": _refs(_names("live", (*live.SENT, *live.TAKEN))),
                **socket,
            },
            "liveEvents": {
                "address": "/v1/live/sse",
                "description": "The live feed as server-sent events: the kind is `event:`, the cursor is `id:`.",
                "servers": [_ref("servers", "events")],
                "messages": _refs(_names("live", live.SENT)),
            },
            "gobby": {
                "address": "/ws",
                "description": "The live feed in the messages of Gobby's daemon.",
                "servers": [_ref("servers", "gateway")],
                "messages": _refs(_names("gobby", (*gobby.SENT, *gobby.TAKEN))),
            },
            **{
                name: {
                    "address": self._keys(name),
                    "description": f"A stream in Redis: {described[name]}.",
                    "servers": [_ref("servers", "redis")],
                    "messages": _refs([_STREAM_MESSAGES[name]]),
                }
                for name in _STREAMS
            },
            "reply": {
                "address": None,
                "description": "The list that a request names in its field `reply`; one element is the answer.",
                "servers": [_ref("servers", "redis")],
                "messages": _refs(["reply"]),
            },
        }


_STREAM_MESSAGES: Final = {"events": "streamEvent", "requests": "streamRequest"}


def _operations() -> Document:
    """The operations of this application: it sends the feed, receives clients' messages, and reads the streams."""
    found: Document = {}
    for channel, prefix, sent, taken in (
        ("live", "live", live.SENT, live.TAKEN),
        ("liveEvents", "live", live.SENT, ()),
        ("gobby", "gobby", gobby.SENT, gobby.TAKEN),
    ):
        found[f"send_{channel}"] = _operation("send", channel, _names(prefix, sent))
        if taken:
            found[f"receive_{channel}"] = _operation("receive", channel, _names(prefix, taken))
    found["receive_events"] = _operation("receive", "events", ["streamEvent"])
    found["receive_requests"] = {
        **_operation("receive", "requests", ["streamRequest"]),
        "reply": {
            "channel": _ref("channels", "reply"),
            "address": {"location": "$message.payload#/reply", "description": "The list that the request names."},
            "messages": [{"$ref": "#/channels/reply/messages/reply"}],
        },
    }
    return found


def _operation(action: str, channel: str, names: Iterable[str]) -> Document:
    return {
        "action": action,
        "channel": _ref("channels", channel),
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in names],
    }


def _named(prefix: str, kinds: Types) -> dict[str, type[msgspec.Struct]]:
    return {_name(prefix, kind): kind for kind in kinds}


def _names(prefix: str, kinds: Types) -> list[str]:
    return [_name(prefix, kind) for kind in kinds]


def _name(prefix: str, kind: type[msgspec.Struct]) -> str:
    return f"{prefix}{kind.__name__.removesuffix('Message')}"


def _message(kind: type[msgspec.Struct], schema: Mapping[str, Any]) -> Document:
    text = re.sub(r"\s+", " ", (kind.__doc__ or "").strip())
    return {"name": str(kind.__struct_config__.tag), "summary": text, "contentType": JSON, "payload": dict(schema)}


def _entry(summary: str, fields: Mapping[str, str], body: Mapping[str, Any]) -> Document:
    """An entry of a stream: texts, and a body in msgpack."""
    properties: Document = {name: {"type": "string", "description": text} for name, text in fields.items()}
    properties["body"] = {
        "description": f"{fields['body']} In msgpack, with the schema number `v`: 1.",
        **body,
    }
    required = [name for name, text in fields.items() if text.endswith("Required.")]
    return {
        "summary": summary,
        "contentType": _MSGPACK,
        "payload": {"type": "object", "properties": properties, "required": required},
    }


def _refs(names: Iterable[str]) -> Document:
    return {name: _ref("components/messages", name) for name in names}


def _ref(kind: str, name: str) -> Document:
    return {"$ref": f"#/{kind}/{name}"}


def _scheme(name: str) -> str:
    return f"#/components/securitySchemes/{name}"
