"""A fleet with an evaluator and a gateway, and what stops its agents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli_kit import Result, fleethook_in
from tests.support.fleet import Agent, Fleet, fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.held import HOOKS

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("control"), "evaluator", "dispatcher", hooks=HOOKS) as one:
        yield one


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    return start_gateway(world)


@pytest.fixture(scope="module")
def operator(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.tcp(gateway.token("ops", "publish", "observe", "operate")) as client:
        yield client


@pytest.fixture(scope="module")
def claude(world: Fleet) -> Agent:
    return world.agent()


@pytest.fixture(scope="module")
def command(world: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Command:
    return command_beside(world, tmp_path_factory.mktemp("person"))


def command_beside(world: Fleet, folder: Path) -> Command:
    """A command as a person runs it in a folder beside this fleet."""
    environment = {
        "PATH": os.environ["PATH"],
        **{name: value for name, value in world.environment.items() if name.startswith(("FLEETHOOK_", "HOME"))},
        "FLEETHOOK_REDIS_URL": world.url("admin"),
        "FLEETHOOK_TEST_CONFIRMS": "1",
    }

    def run(*words: str, **more: str) -> Result:
        return fleethook_in({**environment, **more}, folder, *words)

    return run


@pytest.fixture(autouse=True)
def no_stop_is_left(world: Fleet) -> Iterator[None]:
    yield
    from workers.fleet_control.stops import lift_stops

    world.ask(lambda connections: lift_stops(connections, world.keys, by="a test"))
