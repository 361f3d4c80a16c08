"""Which failures of a gateway's calls are tried again, and for how long."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bus.errors import Unreachable
from workers.gateway.patience import OUTAGE_SECONDS, Patience
from workers.gateway.problems import BUS_AWAY, Problem

pytestmark = pytest.mark.req("B-02")


class Work:
    """Fails with each of the errors in turn, then gives its result; `takes` seconds of the clock pass in each run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: Exception, takes: float = 0.0) -> None:
        self._errors, self._takes, self._now = list(errors), takes, 0.0
        clock = SimpleNamespace(monotonic=lambda: self._now)  # the loop keeps its own
        monkeypatch.setattr("workers.gateway.patience.time", clock)

    async def __call__(self) -> str:
        self._now += self._takes
        if self._errors:
            raise self._errors.pop(0)
        return "read"


AWAY = Unreachable("redis cannot be reached")


@pytest.mark.parametrize("error", [AWAY, Problem(503, BUS_AWAY, "tokens cannot be checked")])
async def test_a_broken_connection_is_tried_again_whatever_it_was_for(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    assert await Patience().read(Work(monkeypatch, error, error)) == "read"


async def test_the_time_begins_with_the_first_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long work on a busy machine is no outage."""
    assert await Patience().read(Work(monkeypatch, AWAY, takes=10 * OUTAGE_SECONDS)) == "read"


async def test_two_broken_connections_are_no_outage_however_long_the_tries_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience = Patience()
    for _ in range(2):  # what one call meets does not shorten the next one's tries
        assert await patience.read(Work(monkeypatch, AWAY, AWAY, AWAY, takes=OUTAGE_SECONDS)) == "read"


async def test_an_outage_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable):
        await Patience().read(Work(monkeypatch, *[AWAY] * 4, takes=OUTAGE_SECONDS))


async def test_a_server_that_hangs_is_not_asked_again_after_the_time_of_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = Unreachable("redis did not answer in time")
    silent.__cause__ = TimeoutError()
    with pytest.raises(Unreachable):
        await Patience().read(Work(monkeypatch, silent, silent, takes=OUTAGE_SECONDS))


async def test_a_callers_mistake_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem, match="no such event"):
        await Patience().read(Work(monkeypatch, Problem(404, "not-found", "no such event")))
