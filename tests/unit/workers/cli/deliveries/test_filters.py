"""Times, rates and filters as people write them."""

from __future__ import annotations

import time
from datetime import datetime

import click
import pytest

from workers.cli.deliveries.filters import MOMENT, RATE, wanted, words
from workers.delivery.deliveries import Attempt, Delivery
from workers.records.selection import Wanted, fits


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("12h", 43_200), ("7d", 604_800), ("30", 30), ("now", 0)])
def test_a_length_of_time_is_so_long_ago(text: str, seconds: float) -> None:
    assert MOMENT.convert(text, None, None) == pytest.approx((time.time() - seconds) * 1000, abs=2_000)


def test_a_date_is_of_this_machines_clock_unless_it_says_otherwise() -> None:
    assert (
        MOMENT.convert("2026-11-21T14:30", None, None) == datetime(2026, 11, 21, 14, 30).astimezone().timestamp() * 1000
    )
    assert MOMENT.convert("2026-11-21T14:30:00Z", None, None) == 1_795_271_400_000
    for text in ("yesterday", "", "12:00", "9" * 400):
        with pytest.raises(click.UsageError, match="is no time"):
            MOMENT.convert(text, None, None)


@pytest.mark.parametrize(("text", "rate"), [("50", 50), ("50/s", 50), ("600/m", 10), ("1800/h", 0.5), ("0", 0)])
def test_a_rate_is_so_many_a_second(text: str, rate: float) -> None:
    assert RATE.convert(text, None, None) == rate


@pytest.mark.parametrize("text", ["-1", "fast", "5/d", "nan", "inf", "/s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(click.UsageError, match="is no rate"):
        RATE.convert(text, None, None)


def delivery(**more: object) -> Delivery:
    """A dead delivery."""
    made = {
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
        "log": (Attempt(ms=1, took=1.0, outcome="dead", status=503),),
    }
    return Delivery(**{**made, **more})  # type: ignore[arg-type]  # as they stand


@pytest.mark.req("G-10")
@pytest.mark.parametrize(
    ("given", "passes"),
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
        ({"ids": ("e1.log", "x")}, True),
        ({"ids": ("x",)}, False),
        ({"endpoint": "log", "reason": "tls"}, False),
    ],
)
def test_every_filter_that_is_given_has_to_hold(given: dict[str, object], passes: bool) -> None:
    assert fits(Wanted(**given))(delivery()) is passes  # type: ignore[arg-type]  # as they stand


def test_a_delivery_without_attempts_has_no_status() -> None:
    assert not fits(Wanted(status="5xx"))(delivery(log=()))
    assert not fits(Wanted(status="0"))(delivery(log=(Attempt(ms=1, took=1.0, outcome="dead"),)))


def test_what_is_left_out_is_no_filter() -> None:
    assert wanted({"endpoint": "", "since": None, "states": ()}).empty()
    assert words(wanted({"endpoint": "log", "states": ("due", "dead")})) == "endpoint log; state due, dead"
