"""When a delivery is retried: tenacity's policies compute the delay, and never sleep."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import tenacity
from tenacity import stop_after_attempt, wait_chain, wait_fixed, wait_random

from bus.hooks import NATIVE, Endpoint, Hook, Schedule
from workers.delivery.results import AttemptResult

DEFAULT_SCHEDULE: Final = (5.0, 30.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds before each next attempt of a webhook: over three days, as in the example of Standard Webhooks."""

SCHEDULES: Final[dict[Schedule, tuple[float, ...]]] = {
    "default": DEFAULT_SCHEDULE,
    "fast": (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0),
    "gobby": (1.0, 2.0, 4.0),
    "once": (),
}
"""The schedules that a file may name instead of a list. `gobby` is that of Gobby's own webhooks; `fast` takes 9 minutes."""

JITTER: Final = 0.1
"""Up to this share is added to every delay at random, so that the retries after an outage are spread."""

RETRIED_4XX: Final = frozenset({408, 425, 429})
"""The 4xx statuses that ask for a later attempt. Every 5xx is retried too."""


def may_change(status: int) -> bool:
    """Whether another attempt may get another status."""
    return status >= 500 or status in RETRIED_4XX


def schedule_of(destination: Endpoint | Hook) -> tuple[float, ...]:
    """Seconds before each further attempt. The default schedule is only for native endpoints that name none."""
    if isinstance(destination, Hook):
        return destination.retry
    if isinstance(destination.retry, str):
        return SCHEDULES[destination.retry]
    return destination.retry or (DEFAULT_SCHEDULE if destination.dialect == NATIVE else ())


@lru_cache(256)
def policy(schedule: tuple[float, ...]) -> tenacity.Retrying:
    """The tenacity policy of a schedule: retries after the outcome `retry`, with one attempt more than there are delays."""
    waits = [wait_fixed(seconds) + wait_random(0, seconds * JITTER) for seconds in schedule]
    return tenacity.Retrying(
        stop=stop_after_attempt(len(schedule) + 1),
        wait=wait_chain(*waits) if waits else wait_fixed(0),
        retry=tenacity.retry_if_result(_wants_retry),
        reraise=True,
    )


def _wants_retry(result: AttemptResult) -> bool:
    return result.outcome == "retry"


def next_delay(result: AttemptResult, tries: int) -> float | None:
    """Seconds until the attempt after this one, which was number `tries`; None if there is none.

    The delay is never shorter than the receiver's Retry-After.
    """
    retrying = policy(result.schedule)
    outcome = tenacity.Future(tries)
    outcome.set_result(result)
    state = tenacity.RetryCallState(retrying, None, (), {})
    state.attempt_number = tries
    state.outcome = outcome
    if not retrying.retry(state) or retrying.stop(state):
        return None
    return max(float(retrying.wait(state)), result.retry_after)
