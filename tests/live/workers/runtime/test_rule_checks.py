"""What is heavy to check is checked in processes of its own, and delays the verdicts of nobody else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.events import Event
from bus.matching.checker_messages import MatchQuestion
from bus.matching.findings import Findings, ask
from bus.matching.rules import TOO_LARGE
from bus.system.child import ChildProcess
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import answer, bash, evaluating, lines, publish_hooks, put, until_true, verdict
from tests.support.servers import Server
from tests.support.waiting import PATIENCE

GUARD = "guards: {destructive-commands: true}\n"
SLOW = (
    "rm -f" + " b{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" * 700,
    "rm x;" + "a|" * 6000 + "a",
    "rm x; f0(){ a; a; };" + "".join(f"f{n}(){{ f{n - 1}; f{n - 1}; }};" for n in range(1, 40)) + "f39",
)


class Gate:
    """Holds every check until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.waiting = 0

    def ask(self, child: ChildProcess, question: MatchQuestion, seconds: float) -> Findings:
        """As `findings.ask`, when the gate is open."""
        self.waiting += 1
        assert self.open.wait(2 * PATIENCE)
        return ask(child, question, max(seconds, PATIENCE))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate before the checks of this test."""
    made = Gate()
    monkeypatch.setattr("workers.runtime.rule_checks.ask", made.ask)
    yield made
    made.open.set()


def request(agent: str, command: str) -> Event:
    return bash(command, session=agent, host="test-host")


@pytest.mark.req("X-09")
async def test_slow_lines_of_three_agents_hold_up_none_of_four_others(
    server: Server, keys: Keys, connections: Connections, gate: Gate
) -> None:
    await publish_hooks(connections, keys, GUARD)
    async with evaluating(server.url, keys) as evaluator:
        slow = [
            await put(connections, keys, request(f"slow-{n}", command), budget=60_000)
            for n, command in enumerate(SLOW)
            for _ in range(3)
        ]
        await until_true(lambda: gate.waiting == 2, "both processes are busy")
        for round_ in range(5):
            for agent in range(4):
                _, reply = await put(connections, keys, request(f"agent-{agent}", f"ls {round_}; rm -rf /"))
                assert (await verdict(connections, reply)).decision == "deny"
        assert len(evaluator._checking.tasks) == len(slow), "none of the slow ones has been answered"
        gate.open.set()
        for _, reply in slow:
            said = await verdict(connections, reply, 60)
            assert said.decision == "deny"
            assert TOO_LARGE in said.reason
            assert any("not checked as a whole" in note for note in said.notes)


@pytest.mark.req("X-09")
async def test_a_long_harmless_line_passes_and_one_of_many_from_one_agent_is_too_much(
    server: Server, keys: Keys, connections: Connections, gate: Gate
) -> None:
    await publish_hooks(connections, keys, GUARD)
    heredoc = "cat > notes.md <<'EOF'\n" + "how to rm a file\n" * 4000 + "EOF\n"
    async with evaluating(server.url, keys):
        held = [await put(connections, keys, request("one", heredoc + f"ls {n}"), budget=60_000) for n in range(6)]
        _, reply = await put(connections, keys, request("one", heredoc + "ls 7"), budget=60_000)
        said = await verdict(
            connections, reply
        )  # two are checked, four wait: nobody checks this one, and it names `rm`
        assert said.decision == "deny"
        assert TOO_LARGE in said.reason
        deleting = await put(connections, keys, request("two", heredoc + "rm -rf /etc/x"), budget=60_000)
        gate.open.set()
        for _, reply in held:
            said = await verdict(connections, reply, 60)
            assert (said.decision, said.notes) == ("abstain", ())
        said = await verdict(connections, deleting[1], 60)
        assert said.decision == "deny"
        assert "rm -rf /etc/x" in said.reason


@pytest.mark.req("X-09")
async def test_a_line_that_is_read_in_part_and_names_no_program_passes_with_a_note(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, GUARD)
    async with evaluating(server.url, keys):
        for command, decision in (("ls ) )", "abstain"), ("if true; then 'rm' -rf $X", "deny")):
            _, reply = await put(connections, keys, request("one", command))
            said = await verdict(connections, reply)
            assert said.decision == decision, command
            assert said.notes == ("a part of the command could not be read and was not checked",)


@pytest.mark.req("X-09")
async def test_a_heavy_line_still_gets_its_other_hooks(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    hook = {"id": "cmd", "on": "tool:pre_execute:bash", "command": f"echo x >> {ran}"}
    await publish_hooks(connections, keys, json.dumps({"guards": {"destructive-commands": True}, "hooks": [hook]}))
    async with evaluating(server.url, keys):
        _, reply = await put(connections, keys, request("one", "echo " + "x" * 9000))
        said = await verdict(connections, reply)
        assert (said.decision, [part.hook for part in said.parts]) == ("abstain", ["cmd"])
        assert lines(ran) == ["x"]
        _, reply = await put(connections, keys, request("one", "git reset --hard " + "x" * 9000))
        assert (await verdict(connections, reply)).decision in {"deny", "ask"}


COSTLY = "event.data.l.all(a, event.data.l.all(b, event.data.l.all(c, true)))"


@pytest.mark.req("X-09")
async def test_a_condition_that_takes_too_long_counts_as_true_for_a_rule_and_as_a_failure_for_others(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    hooks = [
        {
            "id": "cmd",
            "on": "tool:pre_execute:bash",
            "when": COSTLY,
            "command": f"echo x >> {ran}",
            "on_failure": "ask",
        },
        {"id": "yes", "on": "tool:pre_execute:bash", "when": COSTLY, "rule": {"decision": "allow", "reason": "yes"}},
        {"id": "no", "on": "tool:pre_execute:write", "when": COSTLY, "rule": {"reason": "never"}},
    ]
    await publish_hooks(connections, keys, json.dumps({"hooks": hooks}))
    many = {"l": list(range(600))}
    async with evaluating(server.url, keys):
        _, reply = await put(connections, keys, bash("ls", data=many))
        said = await verdict(connections, reply, 30)
        assert said.decision == "ask"
        assert "took too long" in said.reason
        assert not lines(ran)
        _, reply = await put(
            connections, keys, Event(type="tool:pre_execute", tool="write", input={"path": "x"}, data=many)
        )
        said = await verdict(connections, reply, 30)
        assert (said.decision, "counts as true" in said.reason) == ("deny", True)
        _, reply = await put(connections, keys, bash("ls", data={"l": [1]}))
        assert (await verdict(connections, reply)).decision == "allow"
        assert lines(ran) == ["x"]


@pytest.mark.req("X-09")
async def test_an_evaluator_that_ends_leaves_no_checking_process(
    server: Server, keys: Keys, connections: Connections, gate: Gate
) -> None:
    await publish_hooks(connections, keys, GUARD)
    async with evaluating(server.url, keys, drain=0.1) as evaluator:
        gate.open.set()
        _, reply = await put(connections, keys, request("one", SLOW[0]))
        assert await answer(connections, reply, 30)
        processes = [child._process for child in evaluator._checks._all if child._process is not None]
        assert processes
    assert all(process.poll() is not None for process in processes)
