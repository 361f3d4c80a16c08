"""Held calls: the time from a person's tap, a POST to the gateway, until the hook command has ended and the tool can start."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bus.errors import FleethookError
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import host_name
from bus.shim.answer_file import AnswerFile, EventLine, compile_shim, gateway_from_url, hook_command, write_answer_file
from bus.system.directories import directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.approvals.questions import waiting_questions
from workers.bench.gateway import running_gateway
from workers.bench.request import process
from workers.bench.rounds import Figure, Sizes, figure
from workers.bench.server import bench_connections
from workers.bench.spawning import PAYLOAD
from workers.gateway.tokens import create_token, revoke_token

BAR_MS: Final = 500.0
_HOOKS: Final = """
hooks:
  - {id: held, on: tool:pre_execute, hold: {timeout: 60}, rule: {decision: ask, reason: a person decides}}
"""
_PATIENCE: Final = 10.0


async def held_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """The 95th percentile over `rounds` times `processes` held calls, one after the other."""
    keys, connections = Keys("bench"), bench_connections(url)
    await apply(connections, keys, parse_hook_file(_HOOKS, "fleet"))
    secret, _ = await create_token(connections, keys, "bench-person", ["operate"], by="fleethook bench")
    async with running_gateway(url) as port, process(url, "-m", "workers.cli", "worker", "evaluator"):
        with tempfile.TemporaryDirectory() as folder:
            command = _hook_command(keys, Path(folder))
            took = [await _tap(connections, keys, command, port, secret) for _ in range(rounds * sizes.processes)]
    await revoke_token(connections, keys, "bench-person")
    await connections.close()
    slow = sorted(took)[int(len(took) * 0.95)]
    name, baseline = "held call, from the tap to the end of the hook command, p95", "the bar of 500 ms"
    return [figure(name, baseline, "ms", [slow], [BAR_MS], bar=1.0, note=f"of {len(took)} calls")]


async def _tap(connections: Connections, keys: Keys, command: tuple[str, ...], port: int, secret: str) -> float:
    """The milliseconds of one call."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220 - before the time counts
    sent = asyncio.create_task(asyncio.to_thread(child.communicate, PAYLOAD))
    until = time.monotonic() + _PATIENCE
    while not (waiting := await waiting_questions(connections, keys)):
        if time.monotonic() > until:
            child.kill()
            raise FleethookError("the call was not held")
        await asyncio.sleep(0.005)
    start = time.perf_counter()
    await asyncio.to_thread(_approve, port, secret, waiting[0].id)
    out, _ = await sent
    took = (time.perf_counter() - start) * 1e3
    if json.loads(out)["hookSpecificOutput"]["permissionDecision"] != "allow":
        raise FleethookError(f"the approved call was not allowed: {out[:200]!r}")
    return took


def _approve(port: int, secret: str, question: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    try:
        path = f"/v1/approvals/{question}/approve"
        connection.request("POST", path, b"{}", {"Authorization": f"Bearer {secret}"})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise FleethookError(f"the gateway answered {response.status} to an approval")
    finally:
        connection.close()


def _hook_command(keys: Keys, folder: Path) -> tuple[str, ...]:
    compile_shim()
    answers = folder / "claude.answers"
    contents = AnswerFile(
        agent="claude",
        server=gateway_from_url(f"unix://{directories().gateway_socket}", ""),
        prefix=keys.prefix,
        host=host_name(),
        spool=str(folder / "spool"),
        events=(EventLine(name="PreToolUse", deadline_ms=10_000, patience_ms=60_000),),
    )
    write_answer_file(answers, contents)
    return tuple(hook_command(sys.executable, "claude", "PreToolUse", answers))
