"""The Gobby example end to end: a policy server that blocks any agent's call, and an audit that is tried again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.events import Event
from bus.wire.codec import pack
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.delivering import carrying, dispatching, publish, settled, turn_end
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.running import bash, evaluating, put, stream, verdict
from tests.support.servers import Server
from tests.support.waiting import until

EXAMPLE = Path(__file__).parents[4] / "examples" / "gobby" / "config.yaml"


def imported(folder: Path, receiver: Receiver) -> Path:
    """A user's file that imports the example, which asks this receiver; its waits are short."""
    text = EXAMPLE.read_text(encoding="utf-8").replace("localhost:8920", f"127.0.0.1:{receiver.port}")
    (folder / "config.yaml").write_text(text.replace("retry_count: 3", "retry_count: 3\n        retry_delay: 0.02"))
    user = folder / "fleethook.yaml"
    user.write_text(f"import: [config.yaml]\nnetwork: {{allow: ['127.0.0.1:{receiver.port}']}}\n", encoding="utf-8")
    return user


@pytest.mark.req("G-06", "G-07", "G-08", "G-20", "X-01")
async def test_a_policy_webhook_blocks_the_call_of_any_agent(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLICY_TOKEN", "t0k")
    async with receiving() as receiver:
        receiver.by_path["/policy"] = Answer(200, b'{"decision": "deny", "reason": "Destructive command"}')
        async with evaluating(server.url, keys, user_file=imported(tmp_path, receiver)):
            claude = {
                "hook_event_name": "PreToolUse",
                "session_id": "s",
                "cwd": "/p",
                "tool_name": "Bash",
                "tool_input": {"command": "rm -rf /"},
            }
            _, reply = await put(connections, keys, bash("rm -rf /", source="gemini", native_tool="run_shell_command"))
            said = await verdict(connections, reply)
            assert (said.decision, said.reason) == ("deny", "Destructive command")
            assert said.parts[0].origin == f"{tmp_path}/config.yaml:16"
            await put(connections, keys, pack(json.dumps(claude).encode()), source="claude", event="PreToolUse")

            async def two() -> bool:
                return len(receiver.got) == 2

            await until(two, "both have been asked")
            for got in receiver.got:
                assert got.headers["authorization"] == "Bearer t0k"
                assert (got.json["event"], got.json["data"]["tool_name"]) == ("before_tool", "Bash")
                assert got.json["data"]["tool_input"] == {"command": "rm -rf /"}

            receiver.by_path["/policy"] = Answer(500, b"broken")
            _, reply = await put(connections, keys, bash("ls"))
            open_ = await verdict(connections, reply)
            assert open_.decision == "abstain", "fail-open unless told otherwise"
            assert any("was answered 500" in note for note in open_.notes), "and loud"
            receiver.by_path["/policy"] = Answer(200, b'{"decision": "allow"}')
            _, reply = await put(connections, keys, bash("ls"))
            assert (await verdict(connections, reply)).decision == "abstain", "Gobby's allow is no allow of the prompt"
            assert len(await stream(connections, keys)) >= 3


@pytest.mark.req("G-07", "G-09", "G-10")
async def test_the_audit_is_told_and_tried_again(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    async with receiving() as receiver:
        user = imported(tmp_path, receiver)
        receiver.fail(2)
        receiver.usual = Answer(200, b'{"secret": "of the receiver"}')
        async with dispatching(server.url, keys, user_file=user), carrying(server.url, keys, user_file=user):
            event = turn_end(type="session:end", source="claude", session="s9")
            await publish(connections, keys, event)
            (done,) = await settled(connections, keys, event.id, "delivered")
            assert [attempt.status for attempt in done.log] == [503, 503, 200]
            assert done.log[-1].output == "", "log_deliveries is off in Gobby's files: no bodies, every attempt"
            assert {one.json["event"] for one in receiver.got} == {"session_end"}
            assert receiver.got[0].json["session_id"] == "s9"
            assert {one.sent for one in done.log} == {""}
            assert (done.type, done.session) == ("session:end", "s9")
            receiver.fail(9)
            failing: Event = turn_end(type="session:start")
            await publish(connections, keys, failing)
            (dead,) = await settled(connections, keys, failing.id, "dead")
            assert dead.attempts == 4, "one, and after 1, 2 and 4 steps"


@pytest.mark.req("G-10")
async def test_bodies_of_both_ways_are_logged_where_gobbys_file_wants_it(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """Redacted, and no more than a beginning of each."""
    async with receiving() as receiver:
        user = imported(tmp_path, receiver)
        file = tmp_path / "config.yaml"
        file.write_text(file.read_text().replace("    endpoints:", "    log_deliveries: true\n    endpoints:"))
        receiver.usual = Answer(200, b'{"taken": true}')
        async with dispatching(server.url, keys, user_file=user), carrying(server.url, keys, user_file=user):
            token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
            event = turn_end(
                type="session:end", source="claude", session="s9", data={"note": token, "long": "x" * 9000}
            )
            await publish(connections, keys, event)
            (done,) = await settled(connections, keys, event.id, "delivered")
    (only,) = done.log
    assert only.output == '{"taken": true}'
    assert '"session_id":"s9"' in only.sent.replace(" ", "")
    assert (len(only.sent) <= 4096, token in only.sent) == (True, False)
