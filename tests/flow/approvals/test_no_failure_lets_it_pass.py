"""While a call waits for a person, no failure policy lets it pass: without evaluators and without the server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

import httpx
import msgspec
import pytest

from bus.shim.answer_file import read_answer_file, write_answer_file
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import sync_client
from bus.wire.keys import NOTE_MS, note_key
from bus.wire.streams import call as run_script
from tests.support.fleet import Fleet, fleet
from tests.support.gobby.daemon import Daemon, start_daemon
from tests.support.held import HOOKS, Held
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [
    pytest.mark.flow,
    pytest.mark.req("X-03", "X-06"),
    pytest.mark.usefixtures("each_shim"),
    pytest.mark.one_shim,
]


AGAIN = {"Idempotency-Key": "sent-again"}


class Callers(NamedTuple):
    """A held call by each way, each with a command of its own."""

    program: Future[Verdict]
    command: Popen[bytes]
    http: Future[httpx.Response]
    gobby: Future[httpx.Response] | None

    def answers(self) -> dict[str, tuple[str, str]]:
        """The decision that each caller got, with its reason."""
        verdict, http = self.program.result(PATIENCE), self.http.result(PATIENCE)
        with self.command as process:
            assert process.stdout is not None
            by_command = json.loads(process.stdout.read() or b'{"hookSpecificOutput": {}}')
        own = {name: body["hookSpecificOutput"] for name, body in (("command", by_command), ("http", http.json()))}
        said = {name: (one["permissionDecision"], one["permissionDecisionReason"]) for name, one in own.items()}
        by_all = {**said, "program": (verdict.decision, verdict.reason)}
        if self.gobby is None:
            return by_all
        gobby = self.gobby.result(PATIENCE).json()
        by_gobby = ({"approve": "allow", "block": "deny"}[gobby["decision"]], gobby.get("stopReason", ""))
        return {**by_all, "gobby": by_gobby}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("failures"), "evaluator", hooks=HOOKS, persistent=True) as one:
        yield one


@pytest.fixture(scope="module")
def daemon(world: Fleet) -> Daemon:
    """A gateway that has Gobby's ports too."""
    return start_daemon(world)


@pytest.fixture(scope="module")
def held(world: Fleet) -> Held:
    return Held(world)


def start_calls(
    world: Fleet,
    daemon: Daemon,
    held: Held,
    pool: ThreadPoolExecutor,
    headers: Mapping[str, str] | None = None,
    seconds: float = 0.0,
) -> Callers:
    """Four calls that are held, whose callers know it; with `seconds`, the three that can wait for so long and no longer."""
    payload = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_use_id": "t", "cwd": "/"}
    agent = world.agent()
    if seconds:
        limit(agent.places.answer_file("claude"), seconds)
    hook = agent.start("PreToolUse")
    assert hook.stdin is not None
    hook.stdin.write(json.dumps({**payload, "tool_input": {"command": "deploy by command"}}).encode())
    hook.stdin.close()
    by_http = {**payload, "tool_use_id": "u", "tool_input": {"command": "deploy by http"}}
    by_gobby = {**payload, "tool_use_id": "v", "tool_input": {"command": "deploy by gobby"}}
    asked = {"hook_type": "pre-tool-use", "source": "claude", "input_data": by_gobby}
    path = "/v1/hooks/claude/PreToolUse" + (f"?wait={seconds}s" if seconds else "")
    return Callers(
        held.call("deploy by program", timeout=seconds or PATIENCE * 5),
        hook,
        pool.submit(post, daemon.gateway.unix(), path, by_http, headers),
        None if seconds else pool.submit(post, daemon.http(), "/hooks/execute", asked),
    )


def limit(answers: Path, seconds: float) -> None:
    """Let the agent wait for so long and no longer."""
    file = read_answer_file(answers)
    lines = (msgspec.structs.replace(line, deadline_ms=int(seconds * 1000), patience_ms=0) for line in file.events)
    write_answer_file(answers, msgspec.structs.replace(file, events=tuple(lines)))


def until_held(held: Held, calls: Callers) -> None:
    """Return when a person is asked about each call."""
    for way in ("command", "http", "program", *(["gobby"] if calls.gobby else [])):
        held.question(f"deploy by {way}")


def post(client: httpx.Client, path: str, body: object, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """The response to one call, which may take long."""
    with client:
        return client.post(path, json=body, headers=headers, timeout=PATIENCE)


def until_known(world: Fleet, most: int = 24) -> None:
    """Return when each caller has read the note of its call: it reads it once a second."""
    with sync_client(world.url("admin")) as client:

        def reads() -> int:
            stats = client.info("commandstats")
            return sum(int(stats.get(name, {"calls": 0})["calls"]) for name in ("cmdstat_lindex", "cmdstat_blmove"))

        before = reads()
        wait_until(lambda: reads() >= before + most, "each caller has looked some times")


def test_without_any_evaluator_they_wait_on(world: Fleet, daemon: Daemon, held: Held) -> None:
    with ThreadPoolExecutor() as pool:
        calls = start_calls(world, daemon, held, pool, AGAIN)
        until_held(held, calls)
        evaluator = next(worker for worker in world.workers if worker.kind == "evaluator")
        evaluator.process.kill()
        evaluator.process.wait()
        with sync_client(world.url("admin")) as client:
            wait_until(lambda: not client.exists(world.keys("alive", "evaluator")), "no evaluator is alive")
        until_known(world)
        assert not any(call.done() for call in (calls.program, calls.http, calls.gobby) if call is not None)
        assert calls.command.poll() is None
        again = post(daemon.gateway.unix(), "/v1/hooks/claude/PreToolUse", {}, AGAIN)
        own = again.json()["hookSpecificOutput"]
        assert own["permissionDecision"] == "deny", "who sends the same call again is told that it waits"
        assert "No person has refused this call" in own["permissionDecisionReason"]
        for question in held.waiting():
            assert held.answer(question, "approve").word == "done"
        world.start("evaluator")
        assert {way: decision for way, (decision, _) in calls.answers().items()} == {
            "program": "allow",
            "command": "allow",
            "http": "allow",
            "gobby": "allow",
        }


def test_if_the_server_stays_away_they_are_denied_at_their_deadline(world: Fleet, daemon: Daemon, held: Held) -> None:
    """Until then the server may come back, and a person may answer. A busy machine gets more time, until it was enough."""
    for seconds in (6.0, 12.0, 24.0, 48.0):
        with ThreadPoolExecutor() as pool:
            calls = start_calls(world, daemon, held, pool, seconds=seconds)
            until_known(world, 18)
            in_time = sum(one.agent_waits for one in held.waiting()) == 3
            if in_time:
                world.server.kill()
            try:
                answers = calls.answers()
            finally:
                if in_time:
                    world.server.start()
        world.wait_alive("evaluator")
        for question in held.waiting():
            held.answer(question, "deny")
        if in_time:
            break
    for way, (decision, reason) in answers.items():
        assert decision == "deny", (way, reason)
        assert "No answer to the question about this call has reached the agent" in reason, way
        assert "No person has refused this call" in reason, way
    assert calls.program.result().fallback
    assert calls.http.result().headers["fleethook-fallback"]


def test_a_note_that_a_slow_hook_wrote_too_late_does_not_end_the_question(world: Fleet, held: Held) -> None:
    """Its note is valid for seconds; that of the question, which is the same key, for as long as the question."""
    call = held.call("deploy after a slow hook")
    question = held.question("deploy after a slow hook")
    with sync_client(world.url("admin")) as client:
        reply = client.hget(world.keys("question", question.id), "reply")
        note = note_key(reply.decode())
        before = client.pttl(note)
        for renew in ("", "1"):
            keys, args = (note, world.keys("join", "none")), (NOTE_MS, renew)
            assert world.ask(lambda connections, k=keys, a=args: run_script(connections, "note", k, a)) == 1  # type: ignore[misc]
        assert before - 60_000 < client.pttl(note) <= before
        assert decode_verdict(client.lindex(note, 0)).decision == "deny"
    held.answer(question, "deny")
    verdict = call.result(PATIENCE)
    assert verdict.decision == "deny", verdict


def test_a_held_request_that_cannot_be_read_any_more_is_denied(world: Fleet, held: Held) -> None:
    """The policy of its caller is to let calls pass when hooks fail."""
    call = held.call("deploy and lose it")
    question = held.question("deploy and lose it")
    with sync_client(world.url("admin")) as client:
        fields = client.hgetall(world.keys("question", question.id))
        request = {name.removeprefix(b"request:"): value for name, value in fields.items() if b"request:" in name}
        own = {"id": question.id, "reply": fields[b"reply"], "state": "approved", "verdict": b"no verdict"}
        client.xadd(world.keys("decided"), {**request, **own})
    verdict = call.result(PATIENCE)
    assert verdict.decision == "deny", verdict
    assert "the verdict of a held request cannot be read" in verdict.fallback
    held.answer(question, "deny")


def test_a_harmless_call_with_the_same_id_does_not_release_a_held_one(world: Fleet, held: Held) -> None:
    call = held.call("deploy the real one", id="e-same")
    question = held.question("deploy the real one")
    other = held.call("echo harmless", id="e-same")
    with sync_client(world.url("admin")) as client:
        wait_until(lambda: client.llen(world.keys("join", question.id)), "it waits for the same answer")
    assert not call.done()
    held.answer(question, "deny")
    assert [one.result(PATIENCE).decision for one in (call, other)] == ["deny", "deny"]


def test_a_payload_that_cannot_be_written_as_it_is_does_not_escape_the_question(world: Fleet, held: Held) -> None:
    """JSON can have half of a surrogate pair, which has no bytes in UTF-8."""
    payload = {
        "hook_event_name": "PreToolUse",
        "session_id": "half \ud83d",
        "tool_name": "Bash",
        "tool_use_id": "\ud83d",
    }
    hook = world.agent().start("PreToolUse")
    assert hook.stdin is not None
    hook.stdin.write(
        json.dumps({**payload, "cwd": "/\ud83d", "tool_input": {"command": "deploy half \ud83d"}}).encode()
    )
    hook.stdin.close()
    assert held.answer(held.question("deploy half ?"), "deny", comment="no halves").word == "done"
    with hook as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.read())["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert "no halves" in said["permissionDecisionReason"]
