"""A call that waits for a person outlives its gateway, or its server: its hook command asks again by the same id (X-03)."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from bus.shim.answer import HookAnswer
from tests.shim_kit import Proxy
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway
from tests.support.gateway_agent import GatewayAgent
from tests.support.held import HOOKS, Held
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-03", "B-08", "X-06"), pytest.mark.usefixtures("each_shim")]

_TRIES = 11
"""So many tries take more than two seconds: the pauses between them double from a hundredth of a second to half a second."""


class Caller(NamedTuple):
    """One hook command that waits, and the door that it uses."""

    way: str
    door: Proxy
    answer: Future[HookAnswer]

    @property
    def decision(self) -> tuple[str, str]:
        """What the agent got, with the reason."""
        own = json.loads(self.answer.result(2 * PATIENCE).stdout)["hookSpecificOutput"]
        return own["permissionDecision"], own["permissionDecisionReason"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[Fleet]:
    """A fleet for each hook command, since the questions of one would be in the lists of the other."""
    with fleet(tmp_path_factory.mktemp("approvals"), "evaluator", hooks=HOOKS) as one:
        yield one


@pytest.fixture(scope="module")
def held(world: Fleet) -> Held:
    return Held(world)


@pytest.fixture
def start(world: Fleet, gateway: Gateway, held: Held, tmp_path: Path) -> Iterator[Callable[[], list[Caller]]]:
    """Begin a held call by the unix socket, by HTTP with a token, and by Redis; all know that they are held."""
    with ExitStack() as stack, ThreadPoolExecutor() as pool:

        def begin() -> list[Caller]:
            known: set[str] = set()

            def watch(way: str) -> Callable[[int, bytes], bool]:
                def note(_number: int, reply: bytes) -> bool:
                    if b"FH1 " in reply:  # what counts while the call waits
                        known.add(way)
                    return False

                return note

            own = world.server.socket
            paths = {"socket": tmp_path / "gateway.sock", "http": None, "redis": tmp_path / "redis.sock"}
            doors = {
                way: stack.enter_context(
                    Proxy(own if way == "redis" else gateway.socket, path=path, swallow=watch(way))
                )
                for way, path in paths.items()
            }
            urls = {"socket": f"unix://{tmp_path}/gateway.sock", "http": f"http://127.0.0.1:{doors['http'].port}"}
            shim = world.url("shim").replace(str(own), str(paths["redis"]))
            callers = []
            for way, door in doors.items():
                token = gateway.token(f"{tmp_path.name}-{way}") if way == "http" else ""
                agent = GatewayAgent(world, "claude", tmp_path, urls.get(way, ""), token, shim=shim)
                callers.append(Caller(way, door, pool.submit(agent.call, way, f"deploy by {way}")))
            wait_until(lambda: known == set(doors), "all know that they wait for a person")
            return callers

        yield begin
        for question in held.waiting():
            held.answer(question, "deny")


def end_gateway(world: Fleet, number: signal.Signals) -> None:
    """End the gateway's process, and see it end."""
    (worker,) = [one for one in world.workers if one.kind == "gateway" and one.runs()]
    worker.process.send_signal(number)
    worker.process.wait(PATIENCE)


def start_again(world: Fleet, gateway: Gateway) -> None:
    """Start a gateway at the addresses of the one that has ended."""
    world.start("gateway", FLEETHOOK_GATEWAY_PORT=str(gateway.port))


def until_cut(callers: list[Caller]) -> None:
    """Return when each caller has been without a gateway for more than two seconds."""
    before = {caller.way: caller.door.connections for caller in callers}

    def have_tried() -> bool:
        return all(one.answer.done() or one.door.connections >= before[one.way] + _TRIES for one in callers)

    wait_until(have_tried, "they try again and again")
    assert [one.answer.result() for one in callers if one.answer.done()] == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_answer_that_is_given_while_no_gateway_runs_reaches_the_agent(
    world: Fleet, gateway: Gateway, held: Held, start: Callable[[], list[Caller]], number: signal.Signals
) -> None:
    callers = start()
    asked = {caller.way: held.question(f"deploy by {caller.way}") for caller in callers}
    end_gateway(world, number)
    if number == signal.SIGKILL:
        (line,) = [one.door for one in callers if one.way == "redis"]
        there, line.target = line.target, line.target / "nothing"
        line.cut()
        until_cut(callers)
        line.target = there
    assert held.answer(asked["socket"], "approve").word == "done"
    assert held.answer(asked["redis"], "approve").word == "done"
    start_again(world, gateway)
    assert held.answer(asked["http"], "deny", comment="not by http").word == "done"
    found = {caller.way: caller.decision for caller in callers}
    assert {way: decision for way, (decision, _) in found.items()} == {
        "socket": "allow",
        "http": "deny",
        "redis": "allow",
    }
    assert "not by http" in found["http"][1]
    names = {question.id for question in asked.values()}
    wait_until(lambda: names <= {seen.id for seen in world.events()}, "the calls are on record")
    for question in asked.values():
        (seen,) = [seen for seen in world.events() if seen.id == question.id]
        assert (seen.verdict.approval.state if seen.verdict and seen.verdict.approval else "") in {"approved", "denied"}
        assert not seen.fallback
    assert not [seen for seen in world.events() if seen.of in names], "no call fell back"


def test_a_gateway_that_is_told_to_end_denies_the_held_calls_of_hooks_without_a_command(
    world: Fleet, gateway: Gateway, held: Held
) -> None:
    """Its caller cannot ask again, and takes an error for a go-ahead."""
    payload = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_use_id": "t", "cwd": "/"}

    def post() -> httpx.Response:
        with gateway.unix() as client:
            body = {**payload, "tool_input": {"command": "deploy by the agent itself"}}
            return client.post("/v1/hooks/claude/PreToolUse", json=body)

    with ThreadPoolExecutor() as pool:
        call = pool.submit(post)
        question = held.question("deploy by the agent itself")
        end_gateway(world, signal.SIGTERM)
        own = call.result(PATIENCE).json()["hookSpecificOutput"]
    start_again(world, gateway)
    assert own["permissionDecision"] == "deny"
    assert "No person has refused this call" in own["permissionDecisionReason"]
    held.answer(question, "deny")
