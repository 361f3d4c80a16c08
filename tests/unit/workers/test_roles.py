"""When an evaluator that is not the first one ends, and when it says that another one is needed."""

from __future__ import annotations

import asyncio
import math

import pytest

from workers import roles
from workers.roles import watch_load
from workers.waiting import on_demand
from workers.waiting.pulses import pulse


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> on_demand.RequestLoad:
    monkeypatch.setattr(on_demand, "_taken", [on_demand.EVALUATOR])
    return on_demand.RequestLoad()


@pytest.mark.req("X-14")
async def test_an_evaluator_ends_when_it_had_no_request_for_long(load: on_demand.RequestLoad) -> None:
    """Only an `up` that starts evaluators on demand ends them, and one with a request meanwhile goes on."""
    stops = {most_idle: asyncio.Event() for most_idle in (0.0, 60.0, math.inf)}
    watching = [asyncio.create_task(watch_load(load, stop, most_idle)) for most_idle, stop in stops.items()]
    await stops[0.0].wait()
    assert not stops[60.0].is_set()
    load.last -= 61
    await stops[60.0].wait()
    assert not stops[math.inf].is_set()
    for task in watching:
        task.cancel()
    load.last -= 10_000
    on_demand._taken.clear()
    await watch_load(load, stops[math.inf], 0.0)
    assert not stops[math.inf].is_set()


@pytest.mark.req("X-14")
async def test_an_evaluator_with_several_requests_at_once_says_once_that_another_one_is_needed(
    load: on_demand.RequestLoad, capsys: pytest.CaptureFixture[str]
) -> None:
    watching = asyncio.create_task(watch_load(load, asyncio.Event(), math.inf))
    load.note(1, 0)
    await pulse()
    assert not capsys.readouterr().err, "one request is no reason"
    load.note(1, 1)
    await pulse()
    await pulse()
    watching.cancel()
    assert capsys.readouterr().err == "fleethook needs evaluator\n"


@pytest.mark.req("G-11", "X-14")
async def test_with_plugins_no_other_evaluator_is_asked_for_and_one_that_runs_ends_soon(
    load: on_demand.RequestLoad, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "PLUGIN_SECONDS", 0.0)
    first, other = asyncio.Event(), asyncio.Event()
    watching = [asyncio.create_task(watch_load(load, first, math.inf, lambda: True))]
    load.note(1, 1)
    watching.append(asyncio.create_task(watch_load(load, other, 600.0, lambda: True)))
    await other.wait()
    await pulse()
    for task in watching:
        task.cancel()
    assert not first.is_set(), "the first one goes on"
    assert not capsys.readouterr().err, "and nobody asks for another"
