"""What takes an evaluator long, a request of ten megabytes or a new hook set, does not hold up its loop and its heartbeat."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bus.events import Event
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.runners.rule import RuleRunner
from bus.shim.answer import unpack_answer
from bus.wire.codec import encode_payload
from bus.wire.connections import Connections, sync_client
from bus.wire.keys import Keys
from tests.support.running import answer, ask, command_hook, evaluating, publish_hooks, put, until_true
from tests.support.servers import Server

CONTENT = "\u00e4" * 5_000_000
"""Ten megabytes as an agent sends it, sixty as the ASCII that a hook gets."""


@asynccontextmanager
async def longest_step() -> AsyncIterator[list[float]]:
    """The most CPU seconds of this thread between two turns of its loop; how busy the machine is does not matter."""
    worst = [0.0]

    async def watch() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            worst[0] = max(worst[0], now - last)
            last = now

    task = asyncio.create_task(watch())
    try:
        yield worst
    finally:
        task.cancel()


def payload(content: object) -> bytes:
    """What Claude Code sends before it writes a file."""
    sent = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Write"}
    return json.dumps({**sent, "tool_input": {"file_path": "a", "content": content}}, ensure_ascii=False).encode()


def cpu_of(work: object) -> float:
    """CPU seconds that writing a value as JSON takes here and now."""
    start = time.thread_time()
    json.dumps(work)
    return time.thread_time() - start


@pytest.mark.req("B-02", "X-06")
async def test_ten_megabytes_reach_a_command_and_the_loop_is_never_held_up(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    await publish_hooks(connections, keys, command_hook(f"cat > {seen}; echo nope >&2; exit 2", on="tool:pre_execute"))
    body = encode_payload(payload(CONTENT))
    async with evaluating(server.url, keys):
        await ask(connections, keys)
        _, reply = await put(connections, keys, body, source="claude", event="PreToolUse")
        async with longest_step() as worst:
            raw = await answer(connections, reply)
    assert raw is not None
    assert b"nope" in unpack_answer(raw).stdout
    assert json.loads(seen.read_bytes())["input"]["content"] == CONTENT
    assert worst[0] < cpu_of([CONTENT, CONTENT]) / 2, "it is less than writing its JSON"


async def test_a_payload_of_many_lists_is_read_beside_the_loop(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, command_hook("exit 2", on="session:start"))
    body = encode_payload(payload([[number] * 8 for number in range(120_000)]))
    async with evaluating(server.url, keys):
        await ask(connections, keys)
        start = os.times().user
        _, reply = await put(connections, keys, body, source="claude", event="PreToolUse")
        async with longest_step() as worst:
            raw = await answer(connections, reply)
        whole = os.times().user - start
    assert raw is not None
    assert worst[0] < whole / 4


async def test_a_new_hook_set_whose_rules_load_slowly_costs_no_heartbeat(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a heartbeat for two seconds the evaluator would count as dead, and others would run its hooks again."""
    alive, run = list[bool](), RuleRunner.run

    with sync_client(server.url) as client:

        async def slow(self: RuleRunner, hook: Hook, event: Event, seconds: float) -> Outcome:
            if not event.id:  # the sample
                time.sleep(0.1)  # as loading a library holds the loop
                alive.append(bool(client.exists(keys("alive", "evaluator"))))
            return await run(self, hook, event, seconds)

        monkeypatch.setattr(RuleRunner, "run", slow)
        rule = {"decision": "deny", "reason": "no", "commands": [{"program": ["rm"]}]}
        rules = [{"id": f"r{number}", "on": "tool:pre_execute:bash", "rule": rule} for number in range(30)]
        async with evaluating(server.url, keys):
            await publish_hooks(connections, keys, json.dumps({"hooks": rules}))
            await until_true(lambda: len(alive) >= len(rules), "the rules are loaded")
            assert (await ask(connections, keys, "rm x")).decision == "deny"
    assert all(alive)
