"""Several deliveries in one request with one webhook-id: they are delivered together, or tried again together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from bus.hooks import Format
from workers.delivery.formats import MOST_BODY


def batch_body(name: Format, full: Sequence[bytes], thin: Callable[[], Sequence[bytes]]) -> bytes:
    """One body that holds the bodies of its deliveries; the thin ones if it would be too large.

    `{"type": "batch", "events": […]}`, and for CloudEvents the list alone (its JSON batch format, 1.0.2).
    """
    raw = _joined(name, full)
    return raw if len(raw) <= MOST_BODY else _joined(name, thin())


def batch_id(deliveries: Sequence[str]) -> str:
    """The id of a batch, used like the id of a delivery: the same deliveries have the same one at every retry."""
    return f"b{sha256(' '.join(deliveries).encode()).hexdigest()[:32]}"


def _joined(name: Format, bodies: Sequence[bytes]) -> bytes:
    together = b"[" + b",".join(bodies) + b"]"
    return together if name == "cloudevents" else b'{"type":"batch","events":' + together + b"}"
