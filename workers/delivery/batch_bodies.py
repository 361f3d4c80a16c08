"""Several deliveries in one request with one webhook-id: they succeed together, or are retried together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from bus.hooks import Format
from workers.delivery.formats import MOST_BODY


def batch_body(name: Format, full: Sequence[bytes], thin: Callable[[], Sequence[bytes]]) -> bytes:
    """The body of a batch: the bodies of its deliveries, or their thin bodies if it would be too large.

    It is `{"type": "batch", "events": […]}`, and for CloudEvents only the list (its JSON batch format, 1.0.2).
    """
    raw = _joined(name, full)
    return raw if len(raw) <= MOST_BODY else _joined(name, thin())


def batch_id(deliveries: Sequence[str]) -> str:
    """The id of a batch, used like the id of a delivery: it is the same at every retry of the same deliveries."""
    return f"b{sha256(' '.join(deliveries).encode()).hexdigest()[:32]}"


def _joined(name: Format, bodies: Sequence[bytes]) -> bytes:
    together = b"[" + b",".join(bodies) + b"]"
    return together if name == "cloudevents" else b'{"type":"batch","events":' + together + b"}"
