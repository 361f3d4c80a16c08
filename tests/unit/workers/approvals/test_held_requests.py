"""The reserve of an agent's time: small for short waits, seconds for long ones (X-03)."""

from __future__ import annotations

import pytest

from workers.approvals.held_requests import margin_ms

pytestmark = pytest.mark.req("X-03")


@pytest.mark.parametrize(
    ("left", "margin"), [(1_000, 150), (10_000, 1_500), (50_000, 1_500), (300_000, 9_000), (3_600_000, 10_000)]
)
def test_the_margin_grows_with_the_time(left: int, margin: int) -> None:
    assert margin_ms(left) == margin
