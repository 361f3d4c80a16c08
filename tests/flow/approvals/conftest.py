"""A fleet with an evaluator and a gateway whose rules hold calls for a person."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.held import HOOKS


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("approvals"), "evaluator", hooks=HOOKS) as one:
        yield one


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    return start_gateway(world)
