"""One delivery or dead letter with everything that is known of it: its event, its request, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.errors import NotFound
from bus.hooks import Endpoint
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.delivery.dead_letters import DeadLetter
from workers.delivery.deliveries import Delivery, delivery, waits_for
from workers.delivery.endpoint_health import read_health
from workers.records.events import payload
from workers.records.id_prefixes import whole_dead_ids, whole_delivery_id
from workers.records.selection import read_letters
from workers.records.webhook_requests import RecordedRequest, webhook_request


class DeliveryDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery with its event in the form of `records.events.record`; the event is None if it is not kept."""

    delivery: Delivery
    payload: dict[str, Any] | None
    request: RecordedRequest | None = None
    """Of a webhook whose endpoint is in force here, as it would be sent now."""
    waits: str = ""
    """What a parked delivery waits for."""


async def delivery_detail(
    connections: Connections, keys: Keys, beginning: str, endpoints: Mapping[str, Endpoint]
) -> DeliveryDetail:
    """The delivery with this id or prefix of an id; `endpoints` are those in force. Raises NotFound and AmbiguousId."""
    return await _detail(connections, keys, await whole_delivery_id(connections, keys, beginning), endpoints)


async def dead_detail(
    connections: Connections, keys: Keys, beginning: str, endpoints: Mapping[str, Endpoint]
) -> DeliveryDetail | DeadLetter:
    """The dead letter with this id or prefix of an id: a delivery, or the letter of an entry that could not be read.

    Raises NotFound and AmbiguousId.
    """
    (name,) = await whole_dead_ids(connections, keys, (beginning,))
    letters = await read_letters(connections, keys, (name,))
    if not letters:
        raise NotFound(f"no dead letter is called {name!r}; see `fleethook dead list`")
    return letters[0] if letters[0].kind == "entry" else await _detail(connections, keys, name, endpoints)


def detail_record(detail: DeliveryDetail) -> dict[str, Any]:
    """The delivery's own fields with `payload`, `request` and `waits`, as `--json` and the gateway give it."""
    return {
        **msgspec.to_builtins(detail.delivery),
        "payload": detail.payload,
        "request": msgspec.to_builtins(detail.request),
        "waits": detail.waits,
    }


async def _detail(connections: Connections, keys: Keys, name: str, endpoints: Mapping[str, Endpoint]) -> DeliveryDetail:
    found = await delivery(connections, keys, name)
    endpoint = endpoints.get(found.hook) if found.kind == "webhook" else None
    return DeliveryDetail(
        delivery=found,
        payload=await payload(connections, keys, found.event),
        request=None if endpoint is None else await webhook_request(connections, keys, found, endpoint),
        waits=await _why_parked(connections, keys, found) if found.state == "parked" else "",
    )


async def _why_parked(connections: Connections, keys: Keys, parked: Delivery) -> str:
    """What a parked delivery waits for, by the present state of its target, as the end of a sentence."""
    if waits := await waits_for(connections, keys, parked.id):
        return waits
    health = (await read_health(connections, keys, [parked.target]))[parked.target]
    if health.standing == "active":
        return "for its turn: its target is at its limit of rate, or of attempts at a time"
    why = {"paused": "its endpoint is paused", "disabled": "its endpoint is disabled"}.get(health.standing)
    return f"{why or 'the breaker of its endpoint is open, and a probe goes first'} ({health.reason})"
