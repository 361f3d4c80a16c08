"""One fleet with a gateway, and one browser, for the tests of a file. Each test has a tab without a sign-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browser import Tab, chromium
from tests.support.fleet import Agent, Fleet, fleet
from tests.support.gateway import Gateway, start_gateway

HOOKS = """
version: 1
hooks:
  - id: no-removal
    on: tool:pre_execute
    tool: bash
    rule: {decision: deny, reason: nothing is removed here, commands: [{program: [rm]}]}
  - id: deploy
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 300, default: deny}
    rule: {decision: ask, reason: deploying needs a person, commands: [{program: [deploy]}]}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def world(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The browser comes first: without one nothing else is started."""
    with fleet(tmp_path_factory.mktemp("pages"), "evaluator", "dispatcher", "carrier") as one:
        one.publish_hooks(HOOKS)
        yield one


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    return start_gateway(world, FLEETHOOK_OPERATOR_URL=world.url("admin"))


@pytest.fixture(scope="module")
def agent(world: Fleet) -> Agent:
    """Claude Code with Fleethook installed; its calls wait for a verdict as long as a busy machine needs."""
    return world.agent(budget=60.0)


@pytest.fixture
def tab(browser: Browser, gateway: Gateway) -> Iterator[Tab]:
    one = Tab(browser, gateway)
    yield one
    one.close()
    assert one.troubles == []
