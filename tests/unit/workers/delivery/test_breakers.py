"""When a breaker opens, and what an answer says of its receiver (G-09)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.http.webhook_client import Reply
from bus.wire.scripts import every_script, script
from tests.support.rows import rows
from workers.delivery import breakers
from workers.delivery.breakers import CONSECUTIVE, SHARE, WINDOW, FailureCounts, change_text
from workers.delivery.outcome_table import judge


class Clock:
    """Seconds as the test says."""

    now = 1000.0

    def monotonic(self) -> float:
        """What `time.monotonic` would say."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock in the place of the process's own."""
    made = Clock()
    monkeypatch.setattr(breakers, "time", made)
    return made


@pytest.mark.req("G-09")
def test_five_failures_in_a_row_open_it_however_slowly_they_come(clock: Clock) -> None:
    seen = FailureCounts()
    for _ in range(CONSECUTIVE - 1):
        assert not seen.add_failure("a")
        clock.now += 3600
    seen.add_answer("a")
    for _ in range(CONSECUTIVE - 1):
        assert not seen.add_failure("a")
    assert not seen.add_failure("b"), "each target has its own count"
    assert seen.add_failure("a")
    assert not seen.add_failure("a"), "the counting begins anew"


@pytest.mark.req("G-09")
def test_half_of_twenty_within_a_minute_open_it(clock: Clock) -> None:
    def half(seconds: float) -> list[bool]:
        seen, opened = FailureCounts(), []
        for turn in range(WINDOW):
            clock.now += seconds
            if turn % 2:
                opened.append(seen.add_failure("a"))
            else:
                seen.add_failure("a") if turn == 0 else seen.add_answer("a")
        return opened

    assert half(1.0) == [False] * 9 + [True]
    assert not any(half(4.0)), "twenty attempts that took longer than a minute"


@given(st.lists(st.booleans(), max_size=200))
def test_it_opens_exactly_where_the_rule_says(attempts: list[bool]) -> None:
    """True is a failure; the window begins with the first failure, since a healthy target is not counted."""
    seen, window = FailureCounts(), list[bool]()
    for failed in attempts:
        opened = failed and seen.add_failure("a")
        if not failed:
            seen.add_answer("a")
        window = [*window, failed][-WINDOW:]
        if not any(window):
            window = []
        wanted = failed and (
            window[-CONSECUTIVE:] == [True] * CONSECUTIVE or (len(window) == WINDOW and sum(window) >= WINDOW * SHARE)
        )
        assert opened == wanted
        if wanted:
            window = []


def test_an_open_breaker_elsewhere_makes_the_counting_begin_anew() -> None:
    seen = FailureCounts()
    for _ in range(CONSECUTIVE - 1):
        seen.add_failure("a")
    seen.forget("a")
    assert not seen.add_failure("a")


@pytest.mark.req("G-09")
@rows(
    ("reply", "outcome", "signal"),
    [
        (Reply(status=200), "delivered", "ok"),
        (Reply(status=204), "delivered", "ok"),
        (Reply(status=301), "dead", "ok"),
        (Reply(status=400), "dead", "ok"),
        (Reply(status=404), "dead", "ok"),
        (Reply(status=410), "dead", "gone"),
        (Reply(status=408), "retry", "failed"),
        (Reply(status=425), "retry", "failed"),
        (Reply(status=429), "retry", "failed"),
        (Reply(status=500), "retry", "failed"),
        (Reply(status=503), "retry", "failed"),
        (Reply(error="timeout"), "retry", "failed"),
        (Reply(error="dns"), "retry", "failed"),
        (Reply(error="tls"), "retry", "failed"),
        (Reply(status=200, error="protocol"), "retry", "failed"),
        (Reply(error="refused"), "dead", ""),
        (Reply(status=503, headers=(("webhook-delivery", "abort"),)), "dead", "ok"),
        (Reply(status=429, headers=(("Webhook-Delivery", " Abort-Message "),)), "dead", "ok"),
        (Reply(status=503, headers=(("webhook-delivery", "later"),)), "retry", "failed"),
        (Reply(status=200, headers=(("webhook-delivery", "abort"),)), "delivered", "ok"),
        (Reply(status=503, error="timeout", headers=(("webhook-delivery", "abort"),)), "retry", "failed"),
    ],
)
def test_the_table_of_outcomes(reply: Reply, outcome: str, signal: str) -> None:
    result = judge(reply)
    assert (result.outcome, result.endpoint_signal) == (outcome, signal)
    aborted = any(value.strip().lower().startswith("abort") for _, value in reply.headers) and outcome == "dead"
    assert ("wants no more attempts (webhook-delivery: abort" in result.reason) == aborted


def test_each_change_is_said_in_words() -> None:
    for change in ("opened", "closed", "disabled", "failing:70"):
        assert "endpoint:a" in change_text("endpoint:a", change, "503")
    assert "70 %" in change_text("endpoint:a", "failing:70", "503")


def test_shared_lua_stands_in_every_script_that_names_it() -> None:
    texts = {one.name: one.text for one in every_script()}
    assert not [name for name, text in texts.items() if re.search(r"^-- with ", text, re.MULTILINE)]
    assert "local function release(" in texts["settle"]
    assert "local function failing(" in texts["settle"]
    assert "local function failing(" not in script("take").text


@pytest.mark.req("G-09")
@pytest.mark.parametrize(("failures", "opens"), [(10, True), (9, False)])
def test_ten_of_twenty_open_it_and_nine_do_not(clock: Clock, failures: int, opens: bool) -> None:
    """In figures of its own, not in those of the code."""
    seen = FailureCounts()
    turns = {2 * turn for turn in range(failures - 1)} | {19}
    opened = []
    for turn in range(20):
        if turn in turns:
            opened.append(seen.add_failure("a"))
        else:
            seen.add_answer("a")
    assert opened == [False] * (failures - 1) + [opens]
