"""Times, rates and filters as people write them."""

from __future__ import annotations

import time
from datetime import datetime

import click
import pytest

from workers.cli.deliveries.options import RATE, read_filter
from workers.cli.parameters import MOMENT


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("12h", 43_200), ("7d", 604_800), ("30", 30), ("now", 0)])
def test_a_length_of_time_is_so_long_ago(text: str, seconds: float) -> None:
    assert MOMENT.convert(text, None, None) == pytest.approx((time.time() - seconds) * 1000, abs=2_000)


def test_a_date_is_of_this_machines_clock_unless_it_says_otherwise() -> None:
    assert (
        MOMENT.convert("2026-11-21T14:30", None, None) == datetime(2026, 11, 21, 14, 30).astimezone().timestamp() * 1000
    )
    assert MOMENT.convert("2026-11-21T14:30:00Z", None, None) == 1_795_271_400_000
    for text in ("yesterday", "", "12:00", "9" * 400):
        with pytest.raises(click.UsageError, match=r"is no time; write 90s, .* or a date such as"):
            MOMENT.convert(text, None, None)


@pytest.mark.parametrize(("text", "rate"), [("50", 50), ("50/s", 50), ("600/m", 10), ("1800/h", 0.5), ("0", 0)])
def test_a_rate_is_so_many_a_second(text: str, rate: float) -> None:
    assert RATE.convert(text, None, None) == rate


@pytest.mark.parametrize("text", ["-1", "fast", "5/d", "nan", "inf", "/s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(click.UsageError, match="is no rate"):
        RATE.convert(text, None, None)


def test_what_is_left_out_is_no_filter() -> None:
    assert read_filter({"endpoint": "", "since": None, "states": ()}).empty
    assert read_filter({"endpoint": "log", "states": ("due", "dead")}).words() == "endpoint log; state due, dead"
