"""When a breaker opens, and what an answer says of its receiver (G-09)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.http.client import Reply
from bus.wire.scripts import every_script, script
from workers.delivery import breakers
from workers.delivery.breakers import CONSECUTIVE, SHARE, WINDOW, Failures, change_text
from workers.delivery.outcomes import says
from workers.delivery.retries import AttemptFailed, GivenUp
from workers.delivery.webhook import judge


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
    seen = Failures()
    for _ in range(CONSECUTIVE - 1):
        assert not seen.failed("a")
        clock.now += 3600
    seen.answered("a")
    for _ in range(CONSECUTIVE - 1):
        assert not seen.failed("a")
    assert not seen.failed("b"), "each target has its own count"
    assert seen.failed("a")
    assert not seen.failed("a"), "the counting begins anew"


@pytest.mark.req("G-09")
def test_half_of_twenty_within_a_minute_open_it(clock: Clock) -> None:
    def half(seconds: float) -> list[bool]:
        seen, opened = Failures(), []
        for turn in range(WINDOW):
            clock.now += seconds
            if turn % 2:
                opened.append(seen.failed("a"))
            else:
                seen.failed("a") if turn == 0 else seen.answered("a")
        return opened

    assert half(1.0) == [False] * 9 + [True]
    assert not any(half(4.0)), "twenty attempts that took longer than a minute"


@given(st.lists(st.booleans(), max_size=200))
def test_it_opens_exactly_where_the_rule_says(attempts: list[bool]) -> None:
    """True is a failure; the window begins with the first failure, since a healthy target is not counted."""
    seen, window = Failures(), list[bool]()
    for failed in attempts:
        opened = failed and seen.failed("a")
        if not failed:
            seen.answered("a")
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
    seen = Failures()
    for _ in range(CONSECUTIVE - 1):
        seen.failed("a")
    seen.forget("a")
    assert not seen.failed("a")


@pytest.mark.req("G-09")
@pytest.mark.parametrize(
    ("reply", "outcome", "said"),
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
def test_the_table_of_outcomes(reply: Reply, outcome: str, said: str) -> None:
    error = judge(reply)
    assert {type(None): "delivered", AttemptFailed: "retry", GivenUp: "dead"}[type(error)] == outcome
    assert says(reply, error) == said
    aborted = any(value.strip().lower().startswith("abort") for _, value in reply.headers) and outcome == "dead"
    assert ("wants no more attempts (webhook-delivery: abort" in str(error)) == aborted


def test_each_change_is_said_in_words() -> None:
    for change in ("opened", "closed", "disabled", "failing:70"):
        assert "endpoint:a" in change_text("endpoint:a", change, "503")
    assert "70 %" in change_text("endpoint:a", "failing:70", "503")


def test_shared_lua_stands_in_every_script_that_names_it() -> None:
    texts = {one.name: one.text for one in every_script()}
    assert "-- with " not in "".join(texts.values()).replace("say `-- with", "").replace("below `-- with", "")
    assert "local function release(" in texts["settle"]
    assert "local function failing(" in texts["settle"]
    assert "local function failing(" not in script("take").text


@pytest.mark.req("G-09")
@pytest.mark.parametrize(("failures", "opens"), [(10, True), (9, False)])
def test_ten_of_twenty_open_it_and_nine_do_not(clock: Clock, failures: int, opens: bool) -> None:
    """In figures of its own, not in those of the code."""
    seen = Failures()
    turns = {2 * turn for turn in range(failures - 1)} | {19}
    opened = []
    for turn in range(20):
        if turn in turns:
            opened.append(seen.failed("a"))
        else:
            seen.answered("a")
    assert opened == [False] * (failures - 1) + [opens]
