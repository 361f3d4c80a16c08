"""Plugins in the verdicts of a real evaluator: their order, their layer, trust, reload, and what is free without them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from bus.hooksets.in_force import Watcher
from bus.hooksets.projects import accept
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.plugins import DENIES, enabled, plugin, tool_call
from tests.support.running import HOST, ask, evaluating, until_true
from tests.support.servers import Server
from tests.support.waiting import PATIENCE, until
from workers.gateway.gobby.loaded_plugins import counted, loaded_plugins
from workers.plugins.records import list_plugins, reload_plugin
from workers.plugins.when_enabled import PluginsWhenEnabled

RULES = """
hooks:
  - {id: early, on: 'tool:pre_execute', priority: 5, when: 'event.input.command.contains("early")', rule: {reason: early}}
  - {id: late, on: 'tool:pre_execute', priority: 20, rule: {decision: ask, reason: late}}
"""

OBSERVES = """
def on_unload(self):
    open(LOG, "a").write("unloaded\\n")

@hook_handler(HookEventType.BEFORE_TOOL, priority=90)
def saw(self, event, core_response):
    open(LOG, "a").write(f"{core_response.decision}\\n")
    return HookResponse(decision="deny", reason="too late")
"""


@pytest.mark.req("G-11", "G-12", "G-13", "G-15", "G-18")
async def test_plugins_decide_in_order_observe_and_are_reloaded(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    source = plugin(DENIES + OBSERVES, head=f"LOG = {str(log)!r}")
    file = enabled(tmp_path, {"tested": source}, RULES)
    async with evaluating(server.url, keys, user_file=file):
        refused = await ask(connections, keys, "forbidden early")
        assert [part.hook for part in refused.parts] == ["early"], "a deny before it ends the chain"
        refused = await ask(connections, keys, "forbidden")
        assert (refused.decision, refused.reason) == ("deny", "the plugin says no")
        assert [part.hook for part in refused.parts] == ["tested_check"]
        asked = await ask(connections, keys, "ls")
        assert (asked.decision, asked.reason) == ("ask", "late"), "what observes cannot change the verdict"
        await until_true(lambda: log.exists() and log.read_text() == "deny\ndeny\nask\n", "all three were observed")

        await until(lambda: _known(connections, keys), "the plugin is reported")
        (state,) = await list_plugins(connections, keys)
        assert (state.name, state.state, state.version, state.layer) == ("tested", "running", "1.0.0", "user")
        (told,) = await loaded_plugins(connections, keys)
        assert (told["name"], told["version"], told["actions"]) == ("tested", "1.0.0", [])
        assert [one["priority"] for one in told["handlers"]] == [10, 90]
        numbers = {"handlers": 2, "actions": 0}
        assert counted(told) == {"name": "tested", "version": "1.0.0", **numbers}
        (tmp_path / "tested.py").write_text(source.replace("the plugin says no", "a newer no"))
        done = await reload_plugin(connections, keys, "tested")
        assert (len(done.done), done.waiting, done.problems) == (1, (), ())
        assert (await ask(connections, keys, "forbidden")).reason == "a newer no"
        file.write_text(RULES)
        await until_true(
            lambda: log.read_text().count("unloaded") == 2, "a plugin that is not enabled any more is unloaded"
        )
        assert (await ask(connections, keys, "forbidden")).decision == "ask"


@pytest.mark.req("G-15", "G-14")
async def test_a_plugin_that_takes_long_to_import_keeps_no_other_reload_waiting(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    go, quick, slow = tmp_path / "go", plugin(DENIES), plugin(DENIES, "slow")
    file = enabled(tmp_path, {"tested": quick, "slow": slow})
    async with evaluating(server.url, keys, user_file=file):
        await ask(connections, keys, "ls")
        await until(lambda: _known(connections, keys), "the plugins are reported")
        waits = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\n"
        (tmp_path / "slow.py").write_text(waits + slow.replace("the plugin says no", "the slow one says no"))
        first = asyncio.create_task(reload_plugin(connections, keys, "slow", PATIENCE))

        async def imports() -> bool:
            return any(state.state == "reloading" for state in await list_plugins(connections, keys))

        await until(imports, "the slow one is being imported")
        done = await reload_plugin(connections, keys, "tested", PATIENCE)
        assert (len(done.done), done.waiting, first.done()) == (1, (), False)
        assert (await ask(connections, keys, "forbidden")).reason == "the plugin says no", "the old process serves"
        go.touch()
        assert (await first).waiting == ()


async def _known(connections: Connections, keys: Keys) -> bool:
    return bool(await list_plugins(connections, keys))


@pytest.mark.req("G-13")
async def test_a_projects_plugin_runs_only_as_it_was_trusted(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    project, trust, kept = tmp_path / "project", tmp_path / "trust.json", tmp_path / "kept"
    folder = project / ".gobby" / "plugins"
    folder.mkdir(parents=True)
    (folder / "guard.py").write_text(plugin(DENIES, "guard"))
    file = project / "fleethook.yaml"
    file.write_text("plugins: {guard: {on_failure: deny}}\n")

    async def reason() -> str:
        return (await ask(connections, keys, "forbidden", cwd=str(project), host="test-host")).reason

    async with evaluating(server.url, keys, trust_file=trust, last_good=kept):
        assert await reason() == ""
        accept(file, trust, kept)
        await until(reason, "the trusted plugin runs")
        assert await reason() == "the plugin says no"
        (folder / "guard.py").write_text(plugin(DENIES.replace("the plugin says no", "changed"), "guard"))
        await asyncio.to_thread((project / "touched").touch)
        assert await reason() == "the plugin says no", "what was trusted goes on"
    async with evaluating(server.url, keys, trust_file=trust, last_good=kept):
        assert "changed since you trusted it" in await reason()
        accept(file, trust, kept)

        async def is_changed() -> bool:
            return await reason() == "changed"

        await until(is_changed, "the newly trusted content runs")


def test_without_a_plugin_nothing_of_them_is_imported() -> None:
    """An evaluator and a host worker that have no plugin do not pay for them."""
    program = "import sys, workers.evaluator, workers.host; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "workers.plugins.when_enabled" in loaded
    assert not loaded & {"workers.plugins.host", "workers.plugins.process", "bus.plugins"}


@pytest.mark.req("G-11")
async def test_a_worker_that_is_not_the_one_to_run_plugins_starts_them_with_the_first_event_only(
    keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """The host worker beside the evaluators of its own `up`: a second instance would count apart from the first."""
    file = enabled(tmp_path, {"tested": plugin(DENIES)})
    watcher = Watcher(connections, keys, host=HOST, user_file=file, trust_file=tmp_path / "trust")
    await watcher.refresh(force=True)
    plugins = PluginsWhenEnabled(connections, keys, watcher, "host-1", at_once=False)
    try:
        await plugins.maintain()
        assert not plugins.is_started
        event = tool_call("forbidden", host=HOST)
        (hook,) = watcher.for_event(event).blocking(event)
        assert (await plugins.run(hook, event, 30)).decision == "deny"
        assert plugins.is_started
    finally:
        await plugins.close()
