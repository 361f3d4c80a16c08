"""What hooks with effects have said is kept until the answer is stored: they run once, however Redis goes away after them."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.proxy import Proxy
from tests.support.running import (
    bash,
    command_hook,
    do,
    evaluating,
    lines,
    publish_hooks,
    put,
    until_true,
    verdict,
)
from tests.support.servers import Server
from tests.support.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.req("B-05")]

ASKS = json.dumps({"decision": "ask", "reason": "a person decides"})


def asking(ran: Path, then: str = "true") -> str:
    """A hook file with one command that notes its run, waits for `then`, and wants a person's answer."""
    return command_hook(f"echo x >> {ran}; {then}; echo '{ASKS}'", hold={"timeout": 300, "default": "deny"})


async def held(connections: Connections, keys: Keys) -> None:
    """Wait until a question waits."""
    await until(lambda: do(connections, "ZCARD", keys("questions")), "it waits for a person")


async def test_a_server_that_goes_away_while_a_hook_runs_gets_its_question_later(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The look for a ticket is the first thing that fails."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    await publish_hooks(connections, keys, asking(ran, f"until test -e {go}; do sleep 0.01; done"))
    async with Proxy(server.url) as proxy, evaluating(proxy.url, keys):
        name, _ = await put(connections, keys, bash())
        await until_true(lambda: lines(ran), "the hook runs")
        proxy.away()
        go.touch()
        await until_true(lambda: f"request {name}" in caplog.text, "the answer cannot be made")
        proxy.back()
        await held(connections, keys)
        await until(lambda: _idle(connections, keys), "nothing is pending")
    assert lines(ran) == ["x"]


@pytest.mark.parametrize("lost", ["reply", "command"])
async def test_a_lost_question_is_asked_again_without_its_hooks(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, lost: str
) -> None:
    ran = tmp_path / "ran"
    await publish_hooks(connections, keys, asking(ran))
    async with Proxy(server.url) as proxy, evaluating(proxy.url, keys):
        (proxy.swallow_reply if lost == "reply" else proxy.swallow_command)(of="HOLD")
        await put(connections, keys, bash())
        await until_true(lambda: proxy.swallowed, f"a {lost} is lost")
        await held(connections, keys)
        await until(lambda: _idle(connections, keys), "nothing is pending")
    assert lines(ran) == ["x"]


@pytest.mark.parametrize("lost", ["reply", "command"])
async def test_late_contexts_that_are_lost_repeat_no_hook(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, lost: str
) -> None:
    ran, event = tmp_path / "ran", bash(source="generic", session="s")
    await publish_hooks(connections, keys, command_hook(f"echo x >> {ran}"))
    async with Proxy(server.url) as proxy, evaluating(proxy.url, keys) as evaluator:
        await evaluator._late_contexts.keep(event, "the build is red")
        await evaluator._late_contexts.refresh()
        (proxy.swallow_reply if lost == "reply" else proxy.swallow_command)(of="LPOP")
        _, reply = await put(connections, keys, event)
        await until_true(lambda: proxy.swallowed, f"a {lost} is lost")
        said = await verdict(connections, reply)
        await until(lambda: _idle(connections, keys), "nothing is pending")
    assert (said.decision, said.repeated, lines(ran)) == ("abstain", False, ["x"])


@pytest.mark.parametrize("lost", ["reply", "command"])
async def test_a_limit_that_asks_a_person_asks_again_without_the_other_hooks(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, lost: str
) -> None:
    """The script that answers refuses, and the question that is asked instead is lost."""
    ran = tmp_path / "ran"
    rule = {"decision": "ask", "reason": "enough for now", "limit": "1 per session"}
    hooks = [
        {"id": "enough", "on": "tool:pre_execute:bash", "rule": rule, "hold": {"timeout": 300}},
        {"id": "cmd", "on": "tool:pre_execute:bash", "command": f"echo x >> {ran}"},
    ]
    await publish_hooks(connections, keys, json.dumps({"hooks": hooks}))
    async with Proxy(server.url) as proxy, evaluating(proxy.url, keys):
        _, reply = await put(connections, keys, bash(session="s"))
        assert (await verdict(connections, reply)).decision == "abstain"
        (proxy.swallow_reply if lost == "reply" else proxy.swallow_command)(of="HOLD")
        await put(connections, keys, bash("pwd", session="s"))
        await until_true(lambda: proxy.swallowed, f"a {lost} is lost")
        await held(connections, keys)
        await until(lambda: _idle(connections, keys), "nothing is pending")
    assert lines(ran) == ["x", "x"]


async def test_an_answer_that_the_server_refuses_is_made_again_without_its_hooks(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a fail-over: the server answers, and takes no writes for a while."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    await publish_hooks(
        connections, keys, command_hook(f"echo x >> {ran}; until test -e {go}; do sleep 0.01; done; exit 2")
    )
    caplog.set_level(logging.ERROR)
    async with evaluating(server.url, keys):
        _, reply = await put(connections, keys, bash())
        await until_true(lambda: lines(ran), "the hook runs")
        await do(connections, "CONFIG", "SET", "min-replicas-to-write", 1)
        try:
            go.touch()
            await until_true(lambda: "script answer: " in caplog.text, "the answer is refused")
        finally:
            await do(connections, "CONFIG", "SET", "min-replicas-to-write", 0)
        said = await verdict(connections, reply)
        await until(lambda: _idle(connections, keys), "nothing is pending")
    assert (said.decision, said.repeated, lines(ran)) == ("deny", False, ["x"])


async def _idle(connections: Connections, keys: Keys) -> bool:
    return bool((await do(connections, "XPENDING", keys("requests"), "evaluators"))[0] == 0)
