"""One fleet with an evaluator and a gateway for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway, start_gateway


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("gateway"), "evaluator") as one:
        yield one


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    return start_gateway(world)
