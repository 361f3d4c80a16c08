"""When a delivery is tried again: tenacity's policies, asked for the next delay and never left to sleep."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import tenacity
from tenacity import stop_after_attempt, wait_chain, wait_fixed, wait_random

from bus.errors import FleethookError
from bus.hooks import NATIVE, Endpoint, Schedule

DEFAULT_SCHEDULE: Final = (5.0, 30.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds before each next attempt of a webhook: over three days, as Standard Webhooks' example."""

SCHEDULES: Final[dict[Schedule, tuple[float, ...]]] = {
    "default": DEFAULT_SCHEDULE,
    "fast": (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0),
    "gobby": (1.0, 2.0, 4.0),
    "once": (),
}
"""What a file may name instead of a list. `gobby` is what Gobby's own webhooks do; `fast` is over in nine minutes."""

JITTER: Final = 0.1
"""At most this share is added to every wait, so that an outage's retries do not come back all at once."""


class AttemptFailed(FleethookError):
    """An attempt that may be tried again; `retry_after` is the receiver's own wish, in seconds."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        self.reason, self.retry_after = reason, retry_after
        super().__init__(reason)


class GivenUp(FleethookError):
    """An attempt that is not worth another: the delivery is a dead letter at once."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def schedule_of(endpoint: Endpoint) -> tuple[float, ...]:
    """The waits before each next attempt at an endpoint; another system's that names none has none."""
    if isinstance(endpoint.retry, str):
        return SCHEDULES[endpoint.retry]
    return endpoint.retry or (DEFAULT_SCHEDULE if endpoint.dialect == NATIVE else ())


@lru_cache(256)
def policy(schedule: tuple[float, ...]) -> tenacity.Retrying:
    """The tenacity policy of a schedule: one attempt more than it has waits, and only for what may be tried again."""
    waits = [wait_fixed(seconds) + wait_random(0, seconds * JITTER) for seconds in schedule]
    return tenacity.Retrying(
        stop=stop_after_attempt(len(schedule) + 1),
        wait=wait_chain(*waits) if waits else wait_fixed(0),
        retry=tenacity.retry_if_exception_type(AttemptFailed),
        reraise=True,
    )


def next_delay(schedule: tuple[float, ...], tries: int, error: FleethookError) -> float | None:
    """Seconds until the next attempt after `tries` failed ones, or None to give up.

    A receiver's Retry-After is never undercut.
    """
    retrying = policy(schedule)
    outcome = tenacity.Future(tries)
    outcome.set_exception(error)
    state = tenacity.RetryCallState(retrying, None, (), {})
    state.attempt_number = tries
    state.outcome = outcome
    if not retrying.retry(state) or retrying.stop(state):
        return None
    wanted = error.retry_after if isinstance(error, AttemptFailed) else 0.0
    return max(float(retrying.wait(state)), wanted)
