"""When a delivery is tried again (B-03, G-09): tenacity's policies, asked and never left to sleep."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.hooksets.hookfile import parse_hook_file
from workers.delivery.results import AttemptResult, Outcome
from workers.delivery.retries import DEFAULT_SCHEDULE, JITTER, next_delay, schedule_of
from workers.delivery.retries import SCHEDULES as NAMED

SCHEDULES = st.lists(st.floats(0, 86_400), max_size=12).map(tuple)


def failed(schedule: tuple[float, ...], retry_after: float = 0.0) -> AttemptResult:
    """An attempt that may be repeated."""
    return AttemptResult("retry", "503", retry_after, schedule=schedule)


@pytest.mark.req("B-03", "G-09")
@given(SCHEDULES, st.integers(1, 20), st.floats(0, 86_400))
def test_each_wait_is_its_place_in_the_schedule_plus_a_tenth_at_most(
    schedule: tuple[float, ...], tries: int, wanted: float
) -> None:
    delay = next_delay(failed(schedule, wanted), tries)
    if tries > len(schedule):
        assert delay is None
    else:
        planned = schedule[tries - 1]
        assert delay is not None
        assert delay >= max(planned, wanted), "neither the schedule nor the receiver's wish is undercut"
        assert delay <= max(planned * (1 + JITTER), wanted)


@pytest.mark.req("G-09")
def test_exponential_as_it_is_written() -> None:
    delays = [next_delay(failed((1, 2, 4)), tries) for tries in (1, 2, 3, 4)]
    assert [None if delay is None else int(delay) for delay in delays] == [1, 2, 4, None]


@pytest.mark.req("B-03")
@pytest.mark.parametrize("outcome", ["delivered", "dead"])
def test_what_is_final_is_not_tried_again(outcome: Outcome) -> None:
    assert next_delay(AttemptResult(outcome, "410", schedule=DEFAULT_SCHEDULE), 1) is None


def test_no_schedule_is_one_attempt() -> None:
    assert next_delay(failed(()), 1) is None
    assert next_delay(failed((), 5), 1) is None


def test_the_jitter_differs_and_the_default_lasts_three_days() -> None:
    assert len({next_delay(failed((60.0,)), 1) for _ in range(20)}) > 15
    assert 3 * 86_400 < sum(DEFAULT_SCHEDULE) < 4 * 86_400


async def test_asking_never_sleeps() -> None:
    """Not even where the policy is asked for a day."""
    async with asyncio.timeout(0.5):
        assert (next_delay(failed((86_400.0,)), 1) or 0) >= 86_400


def test_a_schedule_has_a_name_or_is_a_list() -> None:
    def schedule(retry: str, more: str = "") -> tuple[float, ...]:
        text = f'endpoints: [{{url: "https://h.example/"{retry}{more}}}]'
        (endpoint,) = parse_hook_file(text, "user").endpoints
        return schedule_of(endpoint)

    assert schedule("") == schedule(", retry: default") == schedule(", retry: []") == DEFAULT_SCHEDULE
    assert schedule(", retry: gobby") == (1, 2, 4)
    assert schedule(", retry: once") == ()
    assert schedule(", retry: [3, 0.5]") == (3, 0.5)
    assert sum(NAMED["fast"]) < 600
