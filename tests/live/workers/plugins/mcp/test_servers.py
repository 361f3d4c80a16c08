"""MCP servers of plugins as real processes: started when used, stopped when idle, started again, and never believed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import Watcher
from bus.hooksets.layers import Layered
from bus.http.address_policy import policy
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.plugin_server import accepted, server_plugin
from tests.support.waiting import PATIENCE, until
from workers.plugins.mcp import servers as module
from workers.plugins.mcp import stdio_connection
from workers.plugins.mcp.accepted_servers import offered_servers
from workers.plugins.mcp.messages import ServerDown, ServerRefuses
from workers.plugins.mcp.servers import Offers, PluginServers, offers_here

pytestmark = pytest.mark.req("I-10", "G-18")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


class World:
    """A user's hook file whose servers can be used; `text` may be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.text, self.allow = folder, "", ()

    def plugin(self, servers: dict[str, dict[str, Any]], files: dict[str, str] | None = None, **more: object) -> Path:
        place = server_plugin(self.folder / "a plugin 日本", servers)
        for name, text in (files or {}).items():
            (place / name).write_text(text)
            (place / name).chmod(0o755)
        self.text = accepted(place, **more)
        return place

    async def offers(self) -> Offers:
        file = parse_hook_file(self.text, "user", file=str(self.folder / "fleethook.yaml"))
        assert not file.problems
        return Offers(offered_servers([Layered("user", "1", file)]), policy(self.allow))

    @asynccontextmanager
    async def servers(self, **how: Any) -> AsyncIterator[PluginServers]:
        made = PluginServers(self.offers, **how)
        try:
            yield made
        finally:
            await made.close()

    def starts(self) -> list[str]:
        """The ids of the processes that were started with STARTS."""
        file = self.folder / "starts"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def text(servers: PluginServers, name: str, **arguments: Any) -> str:
    answer = await servers.call(name, arguments)
    return str(answer["content"][0]["text"])


async def test_a_server_starts_with_its_first_use_and_gets_the_least_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "passed")
    monkeypatch.setenv("OTHER", "kept back")
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "redis://secret")
    env = {"STARTS": str(world.folder / "starts"), "GOT": "${MINE}", "DEF": "${NONE:-x y}", "FLEETHOOK_X": "1"}
    root = world.plugin({"s": {"env": env}}, env_pass=["MINE"])
    async with world.servers(project="/project") as servers:
        assert world.starts() == []
        tools = {tool.name: tool for tool in await servers.tools()}
        assert "kit__s__say" in tools
        assert tools["kit__s__say"].tool.description == "does [2J'say'"
        assert await text(servers, "kit__s__say", text="größe") == "größe]0;title"
        seen = json.loads(await text(servers, "kit__s__env"))
        assert (seen["GOT"], seen["DEF"], seen["MINE"], seen["cwd"]) == ("passed", "x y", "passed", str(root))
        assert (seen["CLAUDE_PLUGIN_ROOT"], seen["CLAUDE_PROJECT_DIR"]) == (str(root), "/project")
        assert Path(seen["CLAUDE_PLUGIN_DATA"]).is_dir()
        assert not [name for name in seen if name.startswith("FLEETHOOK_") or name == "OTHER"]
        assert len(world.starts()) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(world.starts()[0]), 0)


async def test_a_dead_server_is_started_again_with_a_growing_pause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.plugin({"s": {"env": {"STARTS": str(world.folder / "starts")}}})
    monkeypatch.setattr(module, "STEADY_SECONDS", 1e9)
    async with world.servers() as servers:
        first = int(await text(servers, "kit__s__pid"))
        os.kill(first, signal.SIGKILL)
        assert int(await _answered(servers, "kit__s__pid")) != first
        with pytest.raises(ServerDown, match=r"the MCP server 's' of the plugin 'kit': .*3"):
            await servers.call("kit__s__die", {})
        with pytest.raises(ServerDown, match=r"it failed 2 times .*; the next try is in"):
            await servers.call("kit__s__pid", {})
        assert await _answered(servers, "kit__s__pid")
        assert len(world.starts()) == 3


async def _answered(servers: PluginServers, name: str) -> str:
    """The text of a call, once the server is there again."""
    found: list[str] = []

    async def answers() -> bool:
        try:
            found.append(await text(servers, name))
        except ServerDown:
            return False
        return True

    await until(answers, f"{name} answers")
    return found[0]


async def test_an_idle_server_is_stopped_and_its_tools_stay_known(world: World) -> None:
    world.plugin({"s": {"env": {"STARTS": str(world.folder / "starts")}}})
    async with world.servers(idle=0.05) as servers:
        await servers.tools()

        async def is_gone() -> bool:
            (slot,) = servers._slots.values()
            return slot.connection is None

        await until(is_gone, "the server is stopped")
        assert "kit__s__say" in {tool.name for tool in await servers.tools()}
        assert len(world.starts()) == 1
        assert await _answered(servers, "kit__s__pid") == world.starts()[1]


async def test_changed_disabled_and_unaccepted_plugins_offer_nothing(world: World) -> None:
    root = world.plugin({"s": {}})
    file = parse_hook_file(world.text, "project", file=str(world.folder / "fleethook.yaml"))
    assert offered_servers([Layered("project", "1", file)]) == [], "a project may not start programs here"
    async with world.servers() as servers:
        pid = int(await text(servers, "kit__s__pid"))
        (root / "server.py").write_text("print('evil')")
        with pytest.raises(ServerDown, match=r"changed since you accepted it; `fleethook plugins add '.*'` shows it"):
            await servers.call("kit__s__pid", {})
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert await servers.tools() == []
        world.plugin({"s": {}})
        assert await text(servers, "kit__s__say", text="again")
        world.plugin({"s": {}}, enabled=False)
        with pytest.raises(ServerDown, match="no plugin has a tool"):
            await servers.call("kit__s__pid", {})
        world.text = json.dumps({"version": 1, "import": [str(root)]})
        assert await servers.tools() == []


async def test_names_are_plain_and_never_clash(world: World) -> None:
    world.plugin({"s": {"how": "names"}, "s!": {}})
    async with world.servers() as servers:
        tools = await servers.tools()
        names = [tool.name for tool in tools]
        assert len(names) == len(set(names)) == 15
        assert all(
            len(name) <= 64 and name.isascii() and name.replace("-", "").replace("_", "").isalnum() for name in names
        )
        assert {"kit__s__a-b", "kit__s__q"} <= set(names)
        assert {tool.tool.name for tool in tools if tool.server == "s"} == {
            *("a b", "a-b", "x\x1b[31mred", "y" * 100, "y" * 99 + "z", "q")
        }
        said = next(tool.name for tool in tools if (tool.server, tool.tool.name) == ("s!", "say"))
        assert await text(servers, said, text="x") == "x]0;title"


async def test_what_a_server_answers_is_bounded(world: World) -> None:
    world.plugin({"s": {"how": "chatty"}})
    async with world.servers() as servers:
        pid = await text(servers, "kit__s__pid")
        for arguments, why in (
            ({"size": 1 << 20}, "its answer is too long"),
            ({"size": 5 << 20}, "it wrote a line of more than 4 MiB"),
        ):
            with pytest.raises((ServerRefuses, ServerDown), match=why):
                await servers.call("kit__s__long", arguments)
        assert await _answered(servers, "kit__s__pid") != pid
        results: list[Any] = [
            {"content": 5},
            {"content": [{"type": "evil"}]},
            {"content": [], "structuredContent": 3},
            7,
        ]
        for result in results:
            with pytest.raises(ServerRefuses, match="its answer"):
                await servers.call("kit__s__odd", {"result": result})
        with pytest.raises(ServerRefuses, match=r"it refuses: refused \[31m"):
            await servers.call("kit__s__refuse", {})
        answer = await servers.call("kit__s__odd", {"result": {"structuredContent": {"a": 1}, "isError": True}})
        assert answer == {"content": [], "structuredContent": {"a": 1}, "isError": True}


async def test_a_call_that_hangs_ends_and_a_server_that_is_stuck_is_killed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.plugin({"s": {}})
    monkeypatch.setattr(stdio_connection, "GRACE_SECONDS", PATIENCE)
    async with world.servers() as servers:
        pid = await text(servers, "kit__s__pid")
        monkeypatch.setattr(module, "CALL_SECONDS", 0.1)
        with pytest.raises(ServerDown, match=r"it did not answer within 0.1 s"):
            await servers.call("kit__s__hang", {})
        monkeypatch.setattr(module, "CALL_SECONDS", 60.0)
        assert await text(servers, "kit__s__pid") == pid, "the process answers, so it stays"
        monkeypatch.setattr(module, "CALL_SECONDS", 0.1)
        monkeypatch.setattr(stdio_connection, "GRACE_SECONDS", 0.1)
        with pytest.raises(ServerDown):
            await servers.call("kit__s__stuck", {})
        monkeypatch.setattr(module, "CALL_SECONDS", 60.0)
        assert await _answered(servers, "kit__s__pid") != pid


async def test_bad_servers_do_not_keep_good_ones(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(stdio_connection, "_STOP_SECONDS", 0.05)
    world.plugin(
        {
            "fails": {"how": "fails"},
            "garbage": {"how": "garbage"},
            "line": {"how": "line"},
            "silent": {"how": "silent"},
            "gone": {"command": "/nonexistent/program"},
            "nul": {"command": "a\x00b"},
            "var": {"env": {"A": "${NOT_PASSED}"}},
            "ws": {"type": "ws", "url": "wss://x.example"},
            "out": {"cwd": "/etc"},
            "good": {},
            "near": {"command": "./run.sh"},
        },
        files={"run.sh": "#!/bin/sh\nexec python3 -S ./server.py\n"},
    )
    async with world.servers() as servers:

        async def knows() -> bool:
            return any(tool.server == "good" for tool in await servers.tools())

        await until(knows, "the good server's tools are known")
        assert {tool.server for tool in await servers.tools()} <= {"good", "near"}
        assert await text(servers, "kit__good__say", text="x") == "x]0;title"
        assert await text(servers, "kit__near__say", text="x") == "x]0;title"
        monkeypatch.setattr(module, "WAIT_SECONDS", PATIENCE)
        assert servers._slots["kit", "silent"].late
        async with asyncio.timeout(PATIENCE):
            await servers.tools()  # does not wait for the silent one again
        reasons = {
            "garbage": "lines that nobody asked for",
            "line": "a line of more than",
            "gone": "it cannot be started: there is no program",
            "nul": "it cannot be started: there is no program 'ab'",
            "var": "it needs the variable NOT_PASSED, which it does not get",
            "ws": "servers are offered over stdio and http only",
            "out": "its folder is not inside the plugin",
        }
        for name, why in reasons.items():

            async def says(name: str = name, why: str = why) -> bool:
                await servers.tools()
                return why in servers._slots["kit", name].why

            await until(says, f"{name} says why")


async def test_a_server_that_hangs_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from workers.plugins.mcp.stdio_connection import StdioConnection\n"
        "async def main():\n"
        "    server = StdioConnection(('sleep', '3600'), {'PATH': '/usr/bin:/bin'}, '/', print)\n"
        "    await server.start()\n"
        "    print(server.pid, flush=True)\n"
        "    await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )
    starter = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert starter.stdout is not None
    pid = int(await starter.stdout.readline())
    starter.kill()
    await starter.wait()

    async def is_gone() -> bool:
        try:  # it may be a zombie, if nothing here reaps it
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    await until(is_gone, "the server has ended")


@pytest.mark.req("G-16")
async def test_a_workflows_call_names_its_server_and_gives_up_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"command": "sh", "args": ["-c", 'read x; exec python3 -S "$0"', "${CLAUDE_PLUGIN_ROOT}/server.py"]}
    starts = {"env": {"STARTS": str(world.folder / "starts")}}
    world.plugin({"s": starts, "slow": slow, "hang": {}})
    other = server_plugin(world.folder / "other", {"s": {}}, name="other")
    both = json.loads(world.text)
    both["import"] += json.loads(accepted(other))["import"]
    world.text = json.dumps(both)
    async with world.servers() as servers:

        async def said(server: str, seconds: float = PATIENCE) -> object:
            return (await servers.call_tool(server, "say", {"text": "x"}, seconds))["content"][0]["text"]

        assert [await said(name) for name in ("kit/s", "plugin:kit:s", "other:s")] == ["x]0;title"] * 3
        with pytest.raises(ServerDown, match=r"several plugins have an MCP server 's'; write one of: kit/s, other/s"):
            await said("s")
        with pytest.raises(ServerDown, match=r"no plugin that was added here has an MCP server 'none' .*plugins add"):
            await said("none")
        with pytest.raises(ServerDown, match=r"the MCP server 'slow' of the plugin 'kit' did not answer within 0.05 s"):
            await said("slow", 0.05)  # it swallows the greeting, and never answers
        assert (starting := servers._slots["kit", "slow"].starting) is not None
        assert not starting.done(), "the start goes on for the next caller"
        with pytest.raises(ServerDown, match=r"did not answer within"):
            await servers.call_tool("hang", "hang", {}, 0.1)
        assert await said("hang") == "x]0;title", "a call that was given up harms no other"
        os.kill(int(world.starts()[-1]), signal.SIGKILL)

        async def answers() -> bool:
            try:
                return await said("kit/s") == "x]0;title"
            except ServerDown:
                return False

        await until(answers, "the server was started again")
        assert len(world.starts()) == 2


async def test_twenty_calls_at_a_time_get_their_own_answers(world: World) -> None:
    world.plugin({"s": {}})
    async with world.servers() as servers:
        found = await asyncio.gather(*(text(servers, "kit__s__say", text=str(number)) for number in range(20)))
        assert found == [f"{number}]0;title" for number in range(20)]


@pytest.mark.req("I-10")
async def test_a_running_process_sees_what_is_accepted_now(
    world: World, connections: Connections, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers accepted anew, switched off and passed variables change no hook, and are seen all the same."""
    monkeypatch.setattr("bus.hooksets.in_force.POLL_SECONDS", 0.0)
    file = world.folder / "fleethook.yaml"
    watcher = Watcher(connections, keys, host="here", user_file=file, trust_file=world.folder / "trust")
    offers = offers_here(watcher)
    root = world.plugin({"s": {}})
    file.write_text(world.text)
    (first,) = (await offers()).servers
    (root / "server.py").write_text("print('newer')")
    file.write_text(accepted(root, env_pass=["TOKEN"]))
    (second,) = (await offers()).servers
    assert second.accepted != first.accepted
    assert second.env_pass == ("TOKEN",)
    file.write_text(accepted(root, enabled=False))
    assert (await offers()).servers == []
