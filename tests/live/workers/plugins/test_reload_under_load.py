"""Reloads while 500 requests a second need the plugin, by two evaluators: none of them fails or is answered by nobody."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from bus.client import Bus
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from tests.support.fleet import NAMESPACE, Fleet, fleet
from tests.support.plugins import plugin, tool_call
from tests.support.running import until_true
from tests.support.waiting import until
from workers.plugins.records import Reloaded, list_plugins, reload_plugin

PER_SECOND, SECONDS, RELOADS = 500, 8, 4

CHECK = """
def on_unload(self):
    open({log!r}, "a").write("unloaded\\n")

@hook_handler(HookEventType.BEFORE_TOOL, priority=10)
def check(self, event):
    return HookResponse(decision="deny", reason="version {version}")
"""


def write(folder: Path, log: Path, version: int) -> None:
    """The plugin with a reason that names its version."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "guard.py").write_text(plugin(CHECK.format(log=str(log), version=version), "guard"))


@pytest.mark.slow
@pytest.mark.req("G-15")
@pytest.mark.timeout(300)
def test_no_request_fails_while_plugins_are_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fleet(tmp_path, "evaluator", "evaluator") as made:
        monkeypatch.setenv("FLEETHOOK_HOME", str(made.home))
        folder, log = made.places.config / "plugins", tmp_path / "unloaded"
        write(folder, log, 0)
        made.publish_hooks("plugins: {guard: {on_failure: ask}}")
        verdicts, reloads = asyncio.run(_load(made, folder, log))
        made.end()
    assert [(len(done.done), done.waiting, done.problems) for done in reloads] == [(2, (), ())] * RELOADS
    assert len(verdicts) == PER_SECOND * SECONDS
    wrong = [
        verdict for verdict in verdicts if verdict.decision != "deny" or any(part.fallback for part in verdict.parts)
    ]
    assert wrong == []
    seen = Counter(verdict.reason for verdict in verdicts)
    assert set(seen) == {f"version {version}" for version in range(RELOADS + 1)}, seen
    assert log.read_text().count("unloaded") == 2 * (RELOADS + 1), (
        "each instance in each worker is unloaded, the last at the end"
    )


async def _load(made: Fleet, folder: Path, log: Path) -> tuple[list[Verdict], list[Reloaded]]:
    connections, bus = Connections(made.url("admin")), Bus(made.url("agent"), namespace=NAMESPACE)

    async def both_run() -> bool:
        states = await list_plugins(connections, made.keys)
        return len(states) == 2 and all(state.state == "running" for state in states)

    await until(both_run, "both workers run the plugin")
    requests: list[asyncio.Task[Verdict]] = []

    async def send() -> None:
        begin = asyncio.get_running_loop().time()
        for number in range(PER_SECOND * SECONDS):
            requests.append(
                asyncio.create_task(bus.request(tool_call(id="", session=f"s{number}", call=f"c{number}"), budget=60))
            )
            await asyncio.sleep(max(0.0, begin + number / PER_SECOND - asyncio.get_running_loop().time()))

    sending = asyncio.create_task(send())
    reloads = []
    for version in range(1, RELOADS + 1):
        wanted = version * PER_SECOND * SECONDS // (RELOADS + 1)
        await until_true(lambda wanted=wanted: len(requests) >= wanted, f"{wanted} requests are sent")  # type: ignore[misc]
        write(folder, log, version)
        reloads.append(await reload_plugin(connections, made.keys, "guard", seconds=60))
    await sending
    verdicts = await asyncio.gather(*requests)
    await bus.close()
    await connections.close()
    return list(verdicts), reloads
