"""Our plugin for OpenCode in a JavaScript runtime, with the real hook command against a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bus.agents import opencode
from bus.events import GATES
from bus.shim.answer import HookAnswer, pack_answer
from bus.shim.answer_file import AnswerFile, EventLine, RedisServer, write_answer_file
from bus.verdicts import Policy, Verdict, failed
from bus.wire.codec import decode_body
from tests.live.bus.shim.test_empty_server import servers
from tests.shim_kit import Fields, World, connect, running_server
from tests.support.waiting import PATIENCE, wait_until

DRIVER = Path(__file__).parents[3] / "support" / "opencode_driver.mjs"
RUNTIME = shutil.which("node") or shutil.which("bun")

pytestmark = pytest.mark.skipif(RUNTIME is None, reason="needs node or bun on PATH: OpenCode's plugins are JavaScript")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server of this file's own."""
    path = tmp_path_factory.mktemp("s") / "s"
    with running_server(path):
        yield path


class OpenCode:
    """OpenCode with our plugin installed, each verdict as the test says."""

    def __init__(
        self, folder: Path, socket: Path, *, closed: bool = False, deadline: int = 0, python: str = ""
    ) -> None:
        self.folder = folder
        self.client = connect(socket)
        self.world = World(folder, socket, self.client)
        self.plugin = folder / "plugin" / "fleethook.js"
        self.plugin.parent.mkdir()
        self.install()

    def install(self, *, closed: bool = False, python: str = sys.executable, server: RedisServer | None = None) -> None:
        events = [native for native in opencode.CAPABILITIES if native not in opencode.QUIET]
        answers = AnswerFile(
            agent="opencode",
            server=server or RedisServer(kind="unix", address=str(self.world.socket)),
            prefix=self.world.keys.prefix,
            host="host-1",
            spool=str(self.world.spool),
            events=tuple(_line(native, closed=closed) for native in events),
        )
        write_answer_file(self.world.file, answers)
        self.plugin.write_text(opencode.plugin_text(python, self.world.file, events, fail_closed=closed))

    def play(self, *steps: Mapping[str, Any], verdicts: Mapping[str, Verdict] | None = None) -> Any:
        """Call the plugin's hooks in order; what became of each, and what the client was told."""

        def reply(fields: Fields) -> bytes:
            native, body = fields[b"event"].decode(), decode_body(fields[b"body"])
            assert isinstance(body, bytes)
            event = opencode.DIALECT.read(native, body)
            return pack_answer(opencode.DIALECT.render(native, (verdicts or {}).get(native, Verdict()), event))

        if verdicts is None:
            return self._run(steps)
        with self.world.evaluator(reply) as self.seen:
            return self._run(steps)

    def _run(self, steps: tuple[Mapping[str, Any], ...]) -> Any:
        script = {"plugin": str(self.plugin), "directory": "/home/dev/project", "steps": steps}
        assert RUNTIME is not None
        done = subprocess.run(
            [RUNTIME, str(DRIVER)],
            input=json.dumps(script),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "SECRET_OF_THE_AGENT": "x"},
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "" or "Warning" in done.stderr
        return json.loads(done.stdout)


def _line(native: str, *, closed: bool) -> EventLine:
    """What `install` writes of one event."""
    can = opencode.CAPABILITIES[native]
    policy: Policy = "deny" if closed and can.type in GATES else "allow"
    fallback = opencode.DIALECT.render(native, failed(policy, "no verdict in time")) if can.waits else HookAnswer()
    return EventLine(name=native, mode="request" if can.waits else "publish", fallback=fallback, policy=policy)


@pytest.fixture
def agent(house: Path, tmp_path: Path) -> Iterator[OpenCode]:
    one = OpenCode(tmp_path, house)
    yield one
    one.client.close()


def before(command: str = "ls", call: str = "call_1", tool: str = "bash") -> dict[str, Any]:
    """A tool call that is about to run."""
    given = {"tool": tool, "sessionID": "ses_1", "callID": call}
    return {"hook": "tool.execute.before", "input": given, "output": {"args": {"command": command, "timeout": 5}}}


def after(call: str = "call_1", **output: Any) -> dict[str, Any]:
    """A tool call that has run."""
    given = {"tool": "bash", "sessionID": "ses_1", "callID": call, "args": {"command": "ls"}}
    return {"hook": "tool.execute.after", "input": given, "output": output or {"title": "ls", "output": "a b\n"}}


def event(kind: str, **properties: Any) -> dict[str, Any]:
    """An event of OpenCode's own bus."""
    return {"hook": "event", "input": {"event": {"id": "evt_1", "type": kind, "properties": properties}}}


def prompt(session: str = "ses_1") -> dict[str, Any]:
    """A prompt."""
    part = {"id": "prt_1ffd711af001wRzBw05UsUPoPC", "type": "text", "text": "go"}
    message = {"id": "msg_1", "sessionID": session}
    return {
        "hook": "chat.message",
        "input": {"sessionID": session},
        "output": {"message": message, "parts": [part]},
    }


@pytest.mark.req("B-02", "B-08")
def test_deny_throws_rewrite_changes_in_place_and_context_comes_with_the_result(agent: OpenCode) -> None:
    denied = agent.play(
        before(),
        event(
            "message.part.updated",
            part={
                "type": "tool",
                "sessionID": "ses_1",
                "callID": "call_1",
                "tool": "bash",
                "state": {"status": "error"},
            },
        ),
        verdicts={"tool.execute.before": Verdict(decision="deny", event="e1", reason="no é \u2713", contexts=("why",))},
    )
    assert denied["results"][0]["threw"] == "no é ✓. [fleethook trace e1]\n\nwhy"
    assert [told["name"] for told in denied["told"]] == ["toast"]
    assert [one[b"event"] for one in agent.seen] == [b"tool.execute.before"]
    assert agent.world.entries("events") == [], "what was denied here is no failure of a tool"

    ran = agent.play(
        before(),
        after(),
        after("call_2"),
        after("call_3", content=[{"type": "text", "text": "x"}]),
        verdicts={
            "tool.execute.before": Verdict(updated_input={"command": "ls -l"}, contexts=("before",)),
            "tool.execute.after": Verdict(decision="deny", event="e1", reason="look again", contexts=("after",)),
        },
    )["results"]
    assert [one["threw"] for one in ran] == [None] * 4
    assert ran[0]["args"] == {"command": "ls -l", "timeout": 5}
    assert ran[1]["output"]["output"] == "a b\n\n\nbefore\n\nlook again. [fleethook trace e1]\n\nafter"
    assert ran[2]["output"]["output"] == "a b\n\n\nlook again. [fleethook trace e1]\n\nafter"
    assert [part["text"] for part in ran[3]["output"]["content"]][1].startswith("look again")


@pytest.mark.req("B-08")
def test_no_opinion_changes_nothing_and_token_by_token_events_start_no_process(agent: OpenCode) -> None:
    text = {"type": "text", "sessionID": "ses_1", "text": "hel"}
    steps = [before(), after(), prompt(), event("session.idle", sessionID="ses_1")]
    steps += [event("message.part.updated", part=text), event("message.part.delta"), event("file.watcher.updated")]
    played = agent.play(*steps, verdicts={})
    assert played["told"] == []
    for step, result in zip(steps, played["results"], strict=True):
        assert (result["threw"], result.get("output")) == (None, step.get("output"))
    assert sorted(one[b"event"] for one in agent.seen) == [
        b"chat.message",
        b"session.idle",
        b"tool.execute.after",
        b"tool.execute.before",
    ]
    assert agent.world.entries("events") == []


@pytest.mark.req("B-01", "B-08", "X-01")
def test_events_are_published_in_order_and_servers_are_named(agent: OpenCode) -> None:
    broken = {"type": "tool", "sessionID": "ses_1", "callID": "c", "tool": "my_lab_echo", "state": {"status": "error"}}
    agent.play(
        {"hook": "config", "input": {"mcp": {"my lab": {}, "my": {}}}},
        event("todo.updated", sessionID="ses_1"),
        event("file.edited", file="/a"),
        event("message.part.updated", part=broken),
        event("session.deleted", info={"id": "ses_1"}),
        verdicts={},
    )
    entries = agent.world.entries("events")
    assert [one[b"event"] for one in entries] == [
        b"todo.updated",
        b"file.edited",
        b"message.part.updated",
        b"session.deleted",
    ]
    body = decode_body(entries[2][b"body"])
    assert isinstance(body, bytes)
    assert opencode.DIALECT.read("message.part.updated", body).tool == "mcp__my_lab__echo"
    assert b"SECRET" not in body


@pytest.mark.req("B-08")
def test_prompts_starts_permissions_and_stops(agent: OpenCode) -> None:
    verdicts = {
        "session.created": Verdict(contexts=("start",)),
        "chat.message": Verdict(contexts=("prompt",)),
        "experimental.session.compacting": Verdict(contexts=("keep",)),
        "permission.asked": Verdict(decision="deny", event="e1", reason="not that"),
        "session.idle": Verdict(decision="deny", event="e1", reason="run the tests"),
    }
    played = agent.play(
        event("session.created", sessionID="ses_1", info={"id": "ses_1"}),
        prompt(),
        prompt(),
        {"hook": "experimental.session.compacting", "input": {"sessionID": "ses_1"}, "output": {"context": []}},
        event("permission.asked", id="per_1", sessionID="ses_1", permission="bash", metadata={"command": "ls"}),
        {"hook": "until", "known": 2},
        *[
            step
            for n in range(9)
            for step in (
                event("session.idle", sessionID="ses_1"),
                {"hook": "until", "known": 2 + 2 * (n + 1) - (n == 8)},
            )
        ],
        verdicts=verdicts,
    )
    first, second, compacting = played["results"][1:4]
    added = first["output"]["parts"][1]
    assert (added["text"], added["synthetic"], added["messageID"]) == ("start\n\nprompt", True, "msg_1")
    assert added["id"].startswith("prt_1ffd711af002"), "it sorts after the part that was there"
    assert second["output"]["parts"][1]["text"] == "prompt"
    assert compacting["output"]["context"] == ["keep"]
    (answered,) = [told for told in played["told"] if told["name"] == "post"]
    assert answered["path"] == {"requestID": "per_1"}
    assert answered["body"] == {"reply": "reject", "message": "not that. [fleethook trace e1]"}
    prompts = [told["body"]["parts"][0]["text"] for told in played["told"] if told["name"] == "prompt"]
    assert prompts == ["run the tests. [fleethook trace e1]"] * 8, "a loop of stops ends"

    played = agent.play(prompt(), verdicts={"chat.message": Verdict(decision="deny", event="e1", reason="off hours")})
    assert played["results"][0]["threw"] == "off hours. [fleethook trace e1]"


@pytest.mark.req("G-20", "X-06")
@pytest.mark.parametrize("closed", [False, True])
def test_without_an_answer_gates_do_as_they_were_installed(agent: OpenCode, closed: bool) -> None:
    agent.install(closed=closed)
    steps = before(), after(), prompt(), event("session.idle", sessionID="ses_1")
    played = agent.play(*steps)  # no evaluator is alive
    threw = [result["threw"] for result in played["results"]]
    assert ("no evaluator" in str(threw) or "no verdict" in str(threw)) == closed
    assert [text is not None for text in threw] == [closed, False, closed, False]

    agent.install(closed=closed, server=RedisServer(kind="unix", address="/nowhere/s"))
    assert [one["threw"] is not None for one in agent.play(*steps)["results"]] == [closed, False, closed, False]

    agent.world.file.unlink()
    assert [one["threw"] is not None for one in agent.play(*steps)["results"]] == [closed, False, closed, False]

    agent.install(closed=closed, python="/gone/python")
    gone = [one["threw"] for one in agent.play(*steps)["results"]]
    assert [text is not None for text in gone] == [closed, False, closed, False]
    assert not closed or "fleethook is gone" in gone[0]


@pytest.mark.req("G-20")
@pytest.mark.parametrize("closed", [False, True])
def test_a_hook_command_that_hangs_is_killed_in_the_plugins_own_time(agent: OpenCode, closed: bool) -> None:
    stuck = agent.folder / "stuck"
    stuck.write_text(f"#!/bin/sh\necho $$ > {agent.folder}/pid\nexec sleep 60\n")
    stuck.chmod(0o755)
    agent.install(closed=closed, python=str(stuck))
    agent.plugin.write_text(agent.plugin.read_text().replace('"timeout": 600000', '"timeout": 200'))
    (result,) = agent.play(before())["results"]
    assert (result["threw"] is not None) == closed
    assert result["ms"] < 5000
    pid = int((agent.folder / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it is gone")


@pytest.mark.req("X-06", "X-10")
@pytest.mark.parametrize("back", ["at once", "later"])
def test_a_server_replaced_by_an_empty_one_lets_no_call_pass(tmp_path: Path, back: str) -> None:
    """Its own connection asks again, and leaves a server without evaluators to the hook command, which waits for them."""

    def deny(fields: Fields) -> bytes:
        return pack_answer(opencode.DIALECT.render(fields[b"event"].decode(), Verdict(decision="deny", reason="no")))

    with servers(tmp_path) as both, ThreadPoolExecutor(1) as pool:
        agent = OpenCode(tmp_path, both.world.socket)
        agent.world.alive()
        playing = pool.submit(agent.play, before("rm -rf /"))
        wait_until(lambda: agent.world.entries("requests"), "it is asked")
        both.replace()
        if back == "later":
            both.asked()
        with agent.world.evaluator(deny, both.empty):
            (result,) = playing.result(PATIENCE)["results"]
        agent.client.close()
    assert result["threw"].startswith("no.")
