"""Several deliveries in one body, under one webhook-id: they are delivered together, or tried again together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from workers.templates import MOST_BODY


def batch_body(full: Sequence[bytes], thin: Callable[[], Sequence[bytes]]) -> bytes:
    """`{"type": "batch", "events": […]}` of bodies as they would go out alone; of thin ones where it is too large."""
    raw = _joined(full)
    return raw if len(raw) <= MOST_BODY else _joined(thin())


def batch_id(deliveries: Sequence[str]) -> str:
    """What stands in a delivery's id's place for a batch: the same for the same deliveries, over every retry."""
    return f"b{sha256(' '.join(deliveries).encode()).hexdigest()[:32]}"


def _joined(bodies: Sequence[bytes]) -> bytes:
    return b'{"type":"batch","events":[' + b",".join(bodies) + b"]}"
