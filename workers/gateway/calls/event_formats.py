"""Reads the events that programs send: canonical JSON, and CloudEvents 1.0 in binary, structured and batch mode."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from bus.agents import find
from bus.agents.generic import DIALECT
from bus.errors import DecodeError
from bus.events import OWN, Event, EventType
from bus.wire.codec import read_json, write_json
from workers.delivery.formats.cloudevents import PREFIX
from workers.gateway.calls.verdict_wait import refuse_secret
from workers.gateway.problems import Problem

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
MOST_EVENTS: Final = 1_000
"""The most events in one request."""

MOST_TYPE: Final = 255
"""The most characters of a type, which lists show whole."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TYPES: Final = {kind.value.replace(":", "."): kind.value for kind in EventType}
_ATTRIBUTES: Final = frozenset(
    {"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data", "data_base64"}
)
_TRACE: Final = ("traceparent", "tracestate")
"""The attributes of CloudEvents' extension for distributed tracing."""


def read_events(headers: Mapping[str, str], body: bytes) -> tuple[list[Event], bool]:
    """The events in a request, and whether it was a batch; raises DecodeError and Problem."""
    media = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if "ce-specversion" in headers:
        attributes: dict[str, Any] = {
            name[3:]: unquote(value) for name, value in headers.items() if name.startswith("ce-") and name != "ce-data"
        }
        if body:
            attributes["data"] = _json(body, media)
        return [_from_cloudevent(attributes)], False
    value = _json(body, media)
    if media == STRUCTURED:
        return [_from_cloudevent(value)], False
    many = value if isinstance(value, list) else [value]
    if media == BATCH and not isinstance(value, list):
        raise DecodeError("a batch of CloudEvents is a JSON list")
    if len(many) > MOST_EVENTS:
        raise DecodeError(f"a request has at most {MOST_EVENTS} events, and this one has {len(many)}")
    read = _from_cloudevent if media == BATCH else _canonical
    return [_numbered(read, item, index, len(many)) for index, item in enumerate(many)], isinstance(value, list)


def refuse_own(kind: str) -> None:
    """Raise Problem for a type of Fleethook itself: a caller could announce a resume or an answer that there was not."""
    if kind in OWN:
        raise Problem(400, "type-reserved", f"only Fleethook itself announces {kind}; give your event another type")


def refuse_own_payload(source: str, native: str, payload: bytes | Event) -> None:
    """The same for a payload, which names its type where it is canonical."""
    if isinstance(payload, bytes):
        if find(source).name != DIALECT.name:
            return
        try:
            payload = DIALECT.read(native, payload)
        except DecodeError:  # the evaluator says so, by the failure policy
            return
    refuse_own(payload.type)


def _numbered(read: Callable[[object], Event], item: object, index: int, count: int) -> Event:
    """The event in one item of a request; an error names the item's number."""
    try:
        return read(item)
    except DecodeError as error:
        if count == 1:
            raise
        raise DecodeError(f"event {index + 1} of {count}: {error}") from error


def _json(body: bytes, media: str) -> Any:
    if media not in {"application/json", STRUCTURED, BATCH}:
        accepted = f"application/json, {STRUCTURED} or {BATCH}"
        raise Problem(415, "media-type", f"the media type {media[:80]!r} is not supported; send {accepted}")
    return read_json(body)


def _canonical(value: object) -> Event:
    if not isinstance(value, dict):
        raise DecodeError(f"an event is a JSON object, not a {type(value).__name__}")
    event = DIALECT.read("", write_json(value))
    refuse_own(event.type)
    if len(event.type) > MOST_TYPE:
        raise DecodeError(f"an event's type has at most {MOST_TYPE} characters, and this one has {len(event.type)}")
    if event.id and not _ID.fullmatch(event.id):
        raise DecodeError("an event's id has 1 to 64 letters, digits, '_' and '-'")
    refuse_secret(event.id, "the event's id")
    refuse_secret(event.parent, "the event's parent")
    return event


def _data(cloud: dict[str, Any]) -> Any:
    """The data of a CloudEvent: JSON, or bytes in base64, which are read if they are JSON and kept as they came if not."""
    encoded = cloud.get("data_base64")
    if encoded is None:
        return cloud.get("data")
    if "data" in cloud or not isinstance(encoded, str):
        raise DecodeError("a CloudEvent has either data or, as text, data_base64")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise DecodeError(f"data_base64 is not base64: {error}") from error
    kind = str(cloud.get("datacontenttype") or "application/json").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return read_json(raw)
    return {"data": {"base64": encoded}}


def _from_cloudevent(value: object) -> Event:
    """The event in a CloudEvent, whose `data` has either the fields of an event or only the event's own `data`.

    A CloudEvent is identified by its source and id, so the event's id is made from both.
    """
    if not isinstance(value, dict):
        raise DecodeError(f"a CloudEvent is a JSON object, not a {type(value).__name__}")
    given = {name: value.get(name) for name in ("specversion", "id", "source", "type")}
    missing = [name for name, text in given.items() if not isinstance(text, str) or not text]
    if missing:
        raise DecodeError(f"a CloudEvent needs {', '.join(missing)}")
    if value["specversion"] != "1.0":
        raise DecodeError(f"CloudEvents {value['specversion'][:20]!r} are not supported; send specversion 1.0")
    data = _data(value)
    fields: dict[str, Any] = dict(data) if isinstance(data, dict) else {} if data is None else {"data": {"value": data}}
    kind = value["type"].removeprefix(PREFIX)
    trace = {name: item for name in _TRACE if isinstance(item := value.get(name), str)}
    extensions = {name: item for name, item in value.items() if name not in _ATTRIBUTES and name not in trace}
    fields = {
        **fields,
        "type": _TYPES.get(kind, kind),
        "id": "c" + hashlib.sha256(f"{value['source']}\0{value['id']}".encode()).hexdigest()[:32],
        "session": fields.get("session") or value.get("subject") or "",
        **trace,
    }
    event = _canonical(fields)
    about = {"cloudevent": {"source": value["source"], "id": value["id"], **extensions}}
    return msgspec.structs.replace(event, data={**event.data, **about})
