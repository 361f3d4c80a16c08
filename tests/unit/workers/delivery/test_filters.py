"""The filter of deliveries and dead letters (G-10)."""

from __future__ import annotations

import pytest

from tests.support.rows import rows
from workers.delivery.deliveries import Attempt, Delivery
from workers.delivery.filters import Filter, delivery_test


def delivery(**more: object) -> Delivery:
    """A dead delivery."""
    values = {
        "id": "e1.log",
        "event": "e1",
        "hook": "log",
        "kind": "webhook",
        "target": "endpoint:log",
        "state": "dead",
        "layer": "fleet",
        "version": "1",
        "created": 5,
        "updated": 5,
        "reason": "receiver answered 503",
        "log": (Attempt(ms=1, took=1.0, outcome="dead", status=503, sent='{"cmd": "Ls"}'),),
    }
    return Delivery(**{**values, **more})  # type: ignore[arg-type]  # as they stand


@pytest.mark.req("G-10")
@rows(
    ("conditions", "passes"),
    [
        ({}, True),
        ({"endpoint": "log"}, True),
        ({"endpoint": "lo"}, False),
        ({"target": "endpoint:lo"}, True),
        ({"event": "e1"}, True),
        ({"event": "e"}, True),
        ({"event": "1"}, False),
        ({"states": ("due", "dead")}, True),
        ({"states": ("due",)}, False),
        ({"status": "503"}, True),
        ({"status": "5XX"}, True),
        ({"status": "4xx"}, False),
        ({"status": "50"}, False),
        ({"reason": "Answered 503"}, True),
        ({"payload": '"cmd": "ls"'}, True),
        ({"payload": "rm"}, False),
        ({"ids": ("e1.log", "x")}, True),
        ({"ids": ("x",)}, False),
        ({"endpoint": "log", "reason": "tls"}, False),
    ],
)
def test_every_condition_has_to_hold(conditions: dict[str, object], passes: bool) -> None:
    assert delivery_test(Filter(**conditions))(delivery()) is passes  # type: ignore[arg-type]  # as they stand


def test_a_delivery_without_attempts_has_no_status() -> None:
    assert not delivery_test(Filter(status="5xx"))(delivery(log=()))
    assert not delivery_test(Filter(status="0"))(delivery(log=(Attempt(ms=1, took=1.0, outcome="dead"),)))
