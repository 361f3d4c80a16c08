"""Events that Fleethook itself announces, each once, even if several processes announce it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from bus.events import OWN_SOURCE, Event
from bus.ids import event_id
from bus.wire.codec import encode_event
from bus.wire.connections import Connections
from bus.wire.keys import DONE_MS, Keys
from bus.wire.streams import call


async def announce(
    connections: Connections, keys: Keys, kind: str, data: Mapping[str, Any], *, host: str, about: str
) -> bool:
    """Publish an event of type `kind` once in seven days for `about`; returns whether this call did. Raises Unreachable."""
    args = (DONE_MS, *announcement(kind, data, host=host))
    return bool(await call(connections, "announce", (keys("events"), announced_key(keys, kind, about)), args))


def announcement(kind: str, data: Mapping[str, Any], *, host: str) -> tuple[str | bytes, ...]:
    """The fields of an entry of the stream `events` for a new event of Fleethook itself."""
    name = event_id()
    event = Event(type=kind, id=name, source=OWN_SOURCE, host=host, time=time.time_ns() // 1_000_000, data=dict(data))
    return ("id", name, "source", OWN_SOURCE, "event", kind, "host", host, "body", encode_event(event))


def announced_key(keys: Keys, kind: str, about: str) -> str:
    """The key that exists for seven days after an event of type `kind` was announced for `about`."""
    digest = hashlib.sha256(f"{kind}\n{about}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return keys("announced", digest)
