"""Whatever an agent sends and whatever a hook does: a clear message, a record, and nobody else loses anything by it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bus.events import Event
from bus.ids import event_id, reply_token
from bus.installs.hook_command import Setup, hook_command
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import EventLine, read_answer_file, write_answer_file
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict, encode_payload, pack
from bus.wire.connections import sync_client
from tests.support import chosen_shim
from tests.support.fleet import Agent, Fleet, fleet
from tests.support.waiting import BUDGET, BUDGET_MS, CONNECT, PATIENCE, TIMED, at_most, wait_until
from workers.records.events import RecordedEvent

pytestmark = [
    pytest.mark.flow,
    pytest.mark.req("B-02", "F-11", "X-06"),
    pytest.mark.usefixtures("each_shim"),
    pytest.mark.one_shim,
]

CUT = b'{"session_id":"s","tool_name":"Bash","tool_input":{"command":"'
UNREADABLE = {
    "nothing at all": (b"", "Expecting value at line 1 column 1"),
    "truncated": (CUT[:-7], "at line 1 column"),
    "10 MB, truncated": (CUT + b"x" * 10_000_000, "Unterminated string"),
    "no object": (b"[1]", "not a JSON object but a list"),
    "two objects": (b"{}{}", "Extra data at line 1 column 3"),
    "not a number": (b'{"a":NaN}', "NaN is not a number"),
    "a number of 5,000 digits": (b'{"a":1' + b"0" * 5000 + b"}", "not usable JSON"),
    "another encoding": (b"\xff\xfe{\x00}\x00", "Expecting value"),
    "not text": (bytes(range(256)), "Expecting value"),
}

Odd = dict[str, tuple[bytes, str]]
READABLE: Odd = {
    "10 MB": (CUT + b"rm -rf x; " + b"x" * 10_000_000 + b'"}}', "rm -rf x"),
    "invalid UTF-8": (CUT + b'rm \xff\xfe\xc3"}}', "rm \ufffd"),
    "lone surrogates": (CUT + b'rm \\ud83d"},"cwd":"/\\udc80","\\udfff":"\\udbff"}', "rm "),
    "nested deeper than hooks take": (CUT + b'rm x"},"a":' + b'{"a":' * 40 + b"1" + b"}" * 41, "rm x"),
    "nested deeper than Python reads": (b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"," + CUT[1:] + b'rm x"}}', "rm x"),
    "zeros": (CUT + b'rm \\u0000"},"cwd":"/\\u0000"}', "rm"),
    "a line break before and behind": (b"\n" + CUT + b'rm x"}}\r\n', "rm x"),
}

UNUSABLE = "printed an answer that cannot be used: "

LONG = str(100_000 + os.getpid())
"""Seconds that nobody waits for, by which the processes of this run are known."""

# What each hook runs, and what is said of it; it has half a second where its time is what is tried.
HOOKS = {
    "missing": ("no-such-command --now", "failed, command not found: exit 127"),
    "hangs": (f"sleep {LONG}", "timed out after 0.5 s"),
    "stubborn": (f"trap '' TERM; sleep {LONG}; sleep {LONG}", "timed out after 0.5 s"),
    "floods": ("yes", "timed out after 0.5 s"),
    "floods-stderr": ("yes >&2", "timed out after 0.5 s"),
    "talks": (
        """printf '{"reason": "'; head -c 9000000 /dev/zero""",
        f"{UNUSABLE}it is 9000012 bytes long; 65536 are read",
    ),
    "forks": (f"""setsid sleep {LONG} & (sleep {LONG} &); echo '{{"context": "forked"}}'""", ""),
    "holds": (f"setsid sleep {LONG} & exit 3", "failed: exit 3"),
    "signal": ("kill -SEGV $$", "was killed by SIGSEGV"),
    "closes": ("""exec <&-; echo '{"context": "closed"}'""", ""),
    "babbles": ("""echo '{"decision": "maybe"}'""", UNUSABLE),
    "half": ("""printf '{"decision": "deny"'""", UNUSABLE),
}
ALONE = 6  # of these run at the same time


def published(folder: Path) -> str:
    """The hook file, one hook for each of HOOKS and each policy; JSON is YAML.

    Tools tell them apart, for a condition over 10 MB has a time limit, which a busy machine exceeds.
    """
    bad = [
        {
            "id": f"{name}-{policy}",
            "on": f"tool:pre_execute:{name}-{policy}",
            "command": command,
            "timeout": 0.5 if what.startswith("timed out") else BUDGET,
            "on_failure": policy,
        }
        for name, (command, what) in HOOKS.items()
        for policy in ("deny", "allow")
    ]
    rule = {"decision": "deny", "reason": "No rm here", "commands": [{"program": ["rm"]}]}
    good = [
        {"id": "no-rm", "on": "tool:pre_execute:bash", "rule": rule},
        {"id": "dump", "on": "tool:pre_execute:write", "command": f"cat > {folder}/dumped"},
    ]
    return json.dumps({"hooks": bad + good})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[Fleet]:
    """Two evaluators: a busy machine may give one no processor for the two seconds that its heartbeat lasts."""
    folder = tmp_path_factory.mktemp("bad")
    with fleet(folder, "evaluator", "evaluator", "dispatcher", hooks=published(folder)) as one:
        yield one
        assert all(worker.runs() for worker in one.workers)


@pytest.fixture(scope="module")
def agent(world: Fleet, each_shim: str) -> Agent:
    return world.agent()


@contextmanager
def bystander(world: Fleet) -> Iterator[list[tuple[float, Verdict]]]:
    """Another agent that asks all the while; every one of its requests must get its own verdict, and soon."""
    stop, seen = threading.Event(), list[tuple[float, Verdict]]()

    async def ask() -> None:
        async with world.bus(connect=CONNECT) as bus:
            while not stop.is_set():
                command = "rm x" if len(seen) % 2 else "ls"
                start = time.monotonic()
                verdict = await bus.request(
                    Event(type="tool:pre_execute", tool="bash", input={"command": command}), budget=BUDGET
                )
                seen.append((time.monotonic() - start, verdict))
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    try:
        wait_until(lambda: seen, "the bystander is served")
        yield seen
    finally:
        stop.set()
        thread.join()
    # Evaluators that get no processor for the two seconds of a heartbeat count as dead, on a busy machine.
    judged = [
        (number, verdict)
        for number, (_, verdict) in enumerate(seen)
        if TIMED or not verdict.fallback.startswith("no evaluator is alive")
    ]
    assert [verdict.fallback for _, verdict in judged if verdict.fallback] == []
    wanted = ["deny" if number % 2 else "abstain" for number, _ in judged]
    assert [verdict.decision for _, verdict in judged] == wanted
    assert max(took for took, _ in seen) < at_most(3.0), "nobody waits for anybody else"


def said(answer: HookAnswer) -> dict[str, Any]:
    """The one JSON object that an agent got."""
    assert (answer.exit_code, answer.stderr) == (0, b"")
    told: dict[str, Any] = json.loads(answer.stdout)
    return told


def traced(answer: HookAnswer) -> str:
    """The event that an answer tells the person to trace."""
    found = re.search(rb"fleethook trace (e[0-9a-f]{32})", answer.stdout)
    assert found is not None, answer
    return found[1].decode()


def test_what_cannot_be_read_is_said_and_kept(world: Fleet, agent: Agent) -> None:
    with bystander(world), ThreadPoolExecutor(3) as pool:
        answers = dict(
            zip(UNREADABLE, pool.map(lambda one: agent.hook("PreToolUse", one[0]), UNREADABLE.values()), strict=True)
        )

    letters = {letter.event: letter for letter in world.dead()}
    for name, (payload, why) in UNREADABLE.items():
        told = said(answers[name])
        assert told.keys() == {"systemMessage"}, name
        assert "no hook answered (payload could not be read: " in told["systemMessage"]
        assert why in told["systemMessage"], name
        assert told["systemMessage"].partition("): ")[2].startswith("nothing blocked")
        letter = letters[traced(answers[name])]
        assert why in letter.reason, name
        assert payload[:100].decode("utf-8", "replace") in letter.body
        seen = world.trace(letter.event)
        assert why in seen.event.problem, name
        assert why in seen.event.fallback_reason, "and what the agent was answered"
        assert seen.event.event.type == "tool:pre_execute"


def test_workers_that_fail_closed_keep_the_gates_shut_and_nothing_else(tmp_path: Path) -> None:
    with fleet(tmp_path) as closed:
        closed.start("evaluator", FLEETHOOK_ON_FAILURE="deny")
        agent = closed.agent()
        tool = said(agent.hook("PreToolUse", CUT))
        assert tool["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert "payload could not be read" in tool["hookSpecificOutput"]["permissionDecisionReason"]
        assert said(agent.hook("UserPromptSubmit", CUT))["decision"] == "block"
        assert said(agent.hook("Stop", CUT)).keys() == {"systemMessage"}, "else the agent would never stop"


@pytest.mark.parametrize("name", READABLE)
def test_what_is_odd_and_can_be_read_is_judged(world: Fleet, agent: Agent, name: str) -> None:
    payload, matched = READABLE[name]
    with bystander(world):
        answer = agent.hook("PreToolUse", payload)
    specific = said(answer)["hookSpecificOutput"]
    assert specific["permissionDecision"] == "deny"
    assert specific["permissionDecisionReason"].startswith(f"No rm here (matched: `{matched}")
    assert world.event(traced(answer)).decision == "deny"


def test_ten_megabytes_and_half_characters_reach_a_hook_whole(world: Fleet, agent: Agent) -> None:
    content = "\ud83d \0 \x1b[31m" + "\u00e4" * 5_000_000
    sent = {"session_id": "s", "tool_name": "Write", "tool_input": {"file_path": "a", "content": content}}
    raw = json.dumps(sent, ensure_ascii=False).replace("\ud83d", "\\ud83d").encode()

    answer = agent.hook("PreToolUse", raw)
    assert (answer.exit_code, answer.stderr) == (0, b"")
    # On a busy machine it may be told that the hook ran twice, for the same reason as the bystander.
    assert answer.stdout == b"" or (not TIMED and said(answer).keys() == {"systemMessage"})

    got = json.loads((world.folder / "dumped").read_bytes())
    assert got["input"]["content"] == content
    assert got["raw"] == sent


def test_an_announced_event_that_cannot_be_read_is_a_dead_letter(world: Fleet, agent: Agent) -> None:
    assert agent.hook("Notification", CUT) == HookAnswer()
    wait_until(lambda: any(letter.stream == "events" for letter in world.dead()), "it is a dead letter")
    (letter,) = [letter for letter in world.dead() if letter.stream == "events"]
    assert "Unterminated string" in letter.reason
    assert "Unterminated string" in world.trace(letter.event).event.problem


def test_an_unknown_event_does_nothing_and_an_unknown_agent_speaks_plain_json(world: Fleet, agent: Agent) -> None:
    tomorrow = agent.commands["PreToolUse"].replace(" PreToolUse ", " OfTomorrow ")
    assert tomorrow != agent.commands["PreToolUse"]
    assert Agent({"OfTomorrow": tomorrow}, agent.places).hook("OfTomorrow", b"{}") == HookAnswer()

    path = agent.places.answer_file("marvin")
    claude_file = read_answer_file(agent.places.answer_file("claude"))
    write_answer_file(path, replace(claude_file, agent="marvin", events=(EventLine(name="*"),)))
    events = ("tool:pre_execute", "Sigh")
    setup = Setup(sys.executable, str(path), events)
    marvin = Agent({name: hook_command(setup, "marvin", name) for name in events}, agent.places)

    denied = said(marvin.hook("tool:pre_execute", {"tool": "bash", "input": {"command": "rm x"}}))
    assert (denied["decision"], denied["parts"][-1]["hook"]) == ("deny", "no-rm")
    sighed = said(marvin.hook("Sigh", {"brain": "size of a planet"}))
    assert (sighed["decision"], sighed.get("fallback", "")) == ("abstain", "")
    seen = world.event(sighed["event"])
    assert (seen.event.native, seen.event.data) == ("Sigh", {"brain": "size of a planet"})


@pytest.mark.parametrize("closed", [False, True])
def test_a_stdin_that_never_ends_costs_no_more_than_the_budget(world: Fleet, closed: bool) -> None:
    def reported() -> list[RecordedEvent]:
        found = world.events(decision="fallback")
        return [seen for seen in found if seen.of and seen.fallback_reason == "stdin did not end"]

    before = len(reported())
    agent = world.agent(f"slow-{closed}", closed=closed, budget=0.6)
    start = time.monotonic()
    with bystander(world), agent.start("PreToolUse") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(CUT)
        process.stdin.flush()
        told = json.loads(process.stdout.read())
        assert process.wait(PATIENCE) == 0
    assert time.monotonic() - start < at_most(3)
    policy = "denied by failure policy" if closed else "nothing blocked"
    assert policy in told["systemMessage"]
    assert ("hookSpecificOutput" in told) == closed
    # Its time may have been up before the server had the report; then the next call sends it.
    world.agent(f"slow-{closed}", closed=closed).hook("Notification", {"session_id": "s"})
    wait_until(lambda: len(reported()) == before + 1, "the agent's side says what it did")


def canonical(**fields: object) -> bytes:
    return pack({"v": 1, "type": "tool:pre_execute", "tool": "bash", "input": {"command": "ls"}, **fields})


BOMBS = {
    "nested": b"\x91" * 1_000_000,
    "an array of 4 billion": b"\xdd\xff\xff\xff\xff",
    "a map of 4 billion": b"\xdf\xff\xff\xff\xff",
    "a text of 4 GB": b"\xdb\xff\xff\xff\xff",
    "a million nothings": b"\xdd\x00\x10\x00\x00" + b"\xc0" * 0x100000,
    "an extension type": b"\xc7\x01\x05x",
    "a time stamp": b"\xd6\xff\x00\x00\x00\x00",
    "infinity": canonical(data={"a": float("inf")}),
    "a key that is no text": b"\x82\xa1v\x01\x01\x02",
    "something behind it": canonical() + b"\x00",
    "nothing": b"",
    "a number": b"\x05",
    "a schema of nobody": canonical(v=0),
    "a type that is no text": canonical(type=5),
    "an input that is no map": canonical(input=[1]),
    "deep": canonical(data={"a": json.loads("[" * 40 + "]" * 40)}),
    "a payload that is cut short": encode_payload(b"{}" * 100)[:-1],
    "more than a message may have": encode_payload(b" " * (16 * 1024 * 1024)),
}


@pytest.mark.parametrize("each_shim", [chosen_shim.USUAL], indirect=True)  # no hook command takes part
def test_msgpack_bombs_are_answered_and_kept(world: Fleet) -> None:
    before = {letter.id for letter in world.dead()}
    with bystander(world), sync_client(world.url("shim"), seconds=2 * PATIENCE) as client:
        for name, body in BOMBS.items():
            reply = world.keys("reply", reply_token())
            entry = {
                "id": event_id(),
                "reply": reply,
                "budget": str(BUDGET_MS),
                "source": "generic",
                "event": "x",
                "body": body,
            }
            client.xadd(world.keys("requests"), dict(entry))
            raw = client.execute_command("BLMOVE", reply, reply, "LEFT", "LEFT", str(PATIENCE))
            assert raw is not None, name
            if raw.startswith(b"FH1 0 "):  # it began as an agent's own payload does
                assert b"payload could not be read" in raw, name
            else:
                assert decode_verdict(raw).fallback.startswith("payload could not be read: "), name
    assert len({letter.id for letter in world.dead()} - before) == len(BOMBS)


def test_every_kind_of_bad_hook_is_said_and_harms_nobody_else(world: Fleet, agent: Agent) -> None:
    calls = [(name, policy) for name in HOOKS for policy in ("deny", "allow")]

    def call(one: tuple[str, str]) -> HookAnswer:
        # More than a pipe holds, so a hook that does not read it makes itself felt.
        data = {
            "session_id": "s",
            "tool_name": "-".join(one),
            "tool_input": {"command": "ls"},
            "more": "x" * 200_000,
        }
        return agent.hook("PreToolUse", data)

    with bystander(world), ThreadPoolExecutor(ALONE) as pool:
        answers = list(pool.map(call, calls))

    for (name, policy), answer in zip(calls, answers, strict=True):
        what, told = HOOKS[name][1], said(answer)
        specific = told.get("hookSpecificOutput", {})
        if not what:
            assert "systemMessage" not in told, "it did what it may do"
            assert specific["additionalContext"] in {"forked", "closed"}
            continue
        who = f"hook '{name}-{policy}' (fleethook.yaml:1) {what}"
        assert who in told["systemMessage"], (name, told)
        (part,) = [one for one in _verdict(world, answer).parts if one.hook == f"{name}-{policy}"]
        assert part.fallback.startswith(who), name
        if policy == "deny":
            assert specific["permissionDecision"] == "deny"
            assert specific["permissionDecisionReason"].startswith(who)
        else:
            assert "permissionDecision" not in specific, "failing open decides nothing"
    assert _alive(LONG) == [], "nothing that a hook started outlives it"


def _verdict(world: Fleet, answer: HookAnswer) -> Verdict:
    verdict = world.event(traced(answer)).verdict
    assert verdict is not None
    return verdict


def _alive(word: str) -> list[str]:
    """The command lines on this machine that have this word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:  # it ended meanwhile
            continue
        if words[0] == "sleep" and word in words:
            found.append(" ".join(words))
    return found
