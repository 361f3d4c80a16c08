"""The table of outcomes: the one in docs/webhooks.md is the code's, and each of its rows comes true (G-09)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.http.webhook_client import CAP, Reply
from workers.delivery.breakers import CONSECUTIVE, SHARE, WINDOW, WINDOW_SECONDS
from workers.delivery.outcome_table import ENDPOINT, MOST_RETRY_AFTER, TABLE, find_row, judge
from workers.delivery.retries import may_change

PAGE: Final = Path(__file__).parents[4] / "docs" / "webhooks.md"
ABORT: Final = (("Webhook-Delivery", "abort"),)
SAMPLES: Final[dict[str, tuple[Reply, ...]]] = {
    "2xx": (Reply(status=200), Reply(status=299), Reply(status=204, headers=ABORT), Reply(status=200, body=b"x" * CAP)),
    "the address policy": (Reply(error="refused", detail="10.0.0.1 (private)"), Reply()),
    "no whole": (
        Reply(error="timeout"),
        Reply(status=200, error="timeout"),
        Reply(error="dns"),
        Reply(error="connect"),
        Reply(error="tls"),
        Reply(error="proxy"),
        Reply(status=200, error="protocol"),
        Reply(status=410, error="timeout"),
        Reply(status=503, error="timeout", headers=ABORT),
    ),
    "408, 425, 429, 5xx": tuple(
        Reply(status=status, retry_after="7") for status in (408, 425, 429, 500, 503, 599, 700)
    ),
    "one of those": tuple(Reply(status=status, headers=ABORT) for status in (408, 425, 429, 500, 503)),
    "410": (Reply(status=410), Reply(status=410, headers=ABORT)),
    "3xx": (Reply(status=300), Reply(status=301), Reply(status=308)),
    "any": (Reply(status=400), Reply(status=404), Reply(status=401, headers=ABORT), Reply(status=101)),
}
"""Answers of each row, by how its text begins."""


def documented() -> list[list[str]]:
    """The rows of the page's table."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("| the receiver answers |")) + 2
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("| ").split(" | ")])
    return rows


@pytest.mark.req("G-09")
def test_the_page_shows_the_table_that_the_code_goes_by() -> None:
    assert documented() == [[row.answer, row.consequence, ENDPOINT[row.outcome, row.endpoint_signal]] for row in TABLE]


@pytest.mark.req("G-09")
def test_each_row_comes_true() -> None:
    assert len(SAMPLES) == len(TABLE)
    for row, (begins, replies) in zip(TABLE, SAMPLES.items(), strict=True):
        assert row.answer.startswith(begins)
        for reply in replies:
            assert find_row(reply) is row, reply
            result = judge(reply)
            assert (result.outcome, result.endpoint_signal) == (row.outcome, row.endpoint_signal), reply
            assert row.consequence.startswith({"retry": "tried again"}.get(row.outcome, row.outcome))
            if row.outcome == "retry" and reply.retry_after:
                assert result.retry_after == 7


@given(st.integers(0, 999), st.sampled_from(["", "refused", "dns", "timeout"]), st.booleans())
def test_every_answer_has_its_row_and_the_statuses_are_those_that_it_names(
    status: int, error: str, abort: bool
) -> None:
    reply = Reply(status=status, error=error, headers=ABORT if abort else ())  # type: ignore[arg-type] # drawn of them
    row = find_row(reply)
    if not error and status:
        named = {
            "2xx": status // 100 == 2,
            "3xx": status // 100 == 3,
            "410": status == 410,
            "408": (status in {408, 425, 429} or status >= 500) and not abort,
            "one": (status in {408, 425, 429} or status >= 500) and abort,
        }
        assert next((name for name, is_it in named.items() if is_it), "any") == row.answer[:3]
        assert may_change(status) == (named["408"] or named["one"])


def test_the_figures_beside_the_table() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    words = {5: "five", 10: "ten", 20: "twenty"}
    assert f"After {words[CONSECUTIVE]} failures in a row, or" in text
    assert f"{words[int(WINDOW * SHARE)]} of the last {words[WINDOW]} attempts within a minute" in text
    assert (WINDOW_SECONDS, MOST_RETRY_AFTER, CAP) == (60, 24 * 3600, 64 * 1024)
