"""Hooks that only the event's own machine has: asked there within the budget, and never silently left out (X-02)."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets import host_hooks
from bus.hooksets.host_hooks import HostRecorder
from bus.hooksets.in_force import Watcher
from bus.hooksets.known_hosts import forget_host, known_hosts
from bus.hooksets.projects import accept, withdraw_trust
from bus.host_requests import GROUP
from bus.verdicts import Policy, Verdict
from bus.wire import consumer as consumers
from bus.wire.connections import Connections, sync_client
from bus.wire.keys import Keys
from tests.shim_kit import World
from tests.support.delivering import Asked, dispatching, publish
from tests.support.running import bash, do, evaluating, lines, publish_hooks, put, verdict
from tests.support.servers import Server
from tests.support.waiting import BUDGET_MS, CONNECT, until
from workers.delivery.deliveries import deliveries
from workers.delivery.filters import Filter
from workers.host import HostWorker

LAPTOP = "laptop"

pytestmark = pytest.mark.req("X-02")


def hooks(*entries: dict[str, Any]) -> str:
    """A hook file, as JSON."""
    return json.dumps({"hooks": [{"on": "tool:pre_execute:bash", **entry} for entry in entries]})


def rule(name: str, pattern: str, decision: str = "deny") -> dict[str, Any]:
    """A rule over commands."""
    return {"id": name, "rule": {"command": [pattern], "decision": decision, "reason": f"{name} says so"}}


@asynccontextmanager
async def hosting(
    url: str, keys: Keys, user_file: Path | None = None, asked: Asked | None = None
) -> AsyncIterator[HostWorker]:
    """The worker of the laptop, ended as SIGTERM ends it."""
    connections = Connections(url, connect=CONNECT)
    watcher = Watcher(connections, keys, host=LAPTOP, user_file=user_file, trust_file=Path("/nonexistent"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLEETHOOK_HOST", LAPTOP)
        worker = HostWorker(url, keys, watcher, connections, asked or Asked())
    stop = asyncio.Event()
    await worker.prepare()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumers, "BEAT_SECONDS", 0.05)
        running = asyncio.create_task(worker.run(stop))
        try:
            yield worker
            assert not running.done(), "the host worker ended by itself"
        finally:
            stop.set()
            await running
            await connections.close()


async def ask(connections: Connections, keys: Keys, command: str = "ls", **more: Any) -> Verdict:
    """The verdict on a command of the laptop, asked of an evaluator elsewhere."""
    _, reply = await put(connections, keys, bash(command), host=LAPTOP, **more)
    return await verdict(connections, reply)


async def asked(connections: Connections, keys: Keys) -> bytes:
    """The id of the part that was handed to the laptop last (Redis 6.2 does not count them)."""
    reply = await do(connections, "XINFO", "STREAM", keys("requests", LAPTOP))
    return bytes(dict(zip(reply[::2], reply[1::2], strict=True))[b"last-generated-id"])


async def test_the_users_hooks_of_another_machine_answer_there(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    user = tmp_path / "fleethook.yaml"
    user.write_text(hooks(rule("mine", "make"), {"id": "talks", "command": f"echo ran >> {tmp_path}/ran"}))
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    async with evaluating(server.url, keys), hosting(server.url, keys, user):
        denied = await ask(connections, keys, "make all")
        assert (denied.decision, denied.reason.split(" (")[0]) == ("deny", "mine says so")
        assert denied.layers == ("fleet", "user")
        assert denied.version.startswith("fleet@1 user@")
        assert [part.hook for part in denied.parts] == ["mine"]
        assert list(denied.silent["fleet@1"]) == ["fleets"]
        passed = await ask(connections, keys, "ls")
        assert (passed.decision, passed.layers) == ("abstain", ("fleet", "user"))
        assert lines(tmp_path / "ran") == ["ran"]
        before = await asked(connections, keys)
        fleets = await ask(connections, keys, "rm x")
        assert fleets.decision == "deny"
        assert await asked(connections, keys) == before, "the fleet's deny ends the chain before the host is asked"


async def test_without_a_worker_there_only_the_fleets_layer_is_applied_and_the_verdict_says_so(
    server: Server, keys: Keys, connections: Connections
) -> None:
    there = {"id": "there", "command": "true", "place": "host", "on_failure": "deny"}
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    async with evaluating(server.url, keys):
        said = await ask(connections, keys)
        assert (said.decision, said.layers) == ("abstain", ("fleet",))
        await publish_hooks(connections, keys, hooks(rule("fleets", "rm"), there))
        await until(_denied(connections, keys), "a hook that has to run there fails by its own policy")
        said = await ask(connections, keys)
        assert "no `fleethook worker host` runs on 'laptop'" in said.reason
        assert said.parts[-1].fallback
        async with hosting(server.url, keys):
            await until(_passes(connections, keys), "with a worker there it runs")


def _denied(connections: Connections, keys: Keys) -> Any:
    async def denied() -> bool:
        return (await ask(connections, keys)).decision == "deny"

    return denied


def _passes(connections: Connections, keys: Keys) -> Any:
    async def passes() -> bool:
        said = await ask(connections, keys)
        return said.decision == "abstain" and [part.hook for part in said.parts] == ["there"]

    return passes


async def test_a_lower_layer_elsewhere_adds_strictness_and_takes_none_away(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    change = """cat > /dev/null; echo '{"updated_input": {"command": "rm -r build"}}'"""
    user = tmp_path / "fleethook.yaml"
    user.write_text(
        hooks(
            rule("lets", "sudo", "allow"),
            rule("no-wget", "wget"),
            {"id": "changes", "tool": "bash", "when": "event.input.command == 'clean'", "command": change},
        )
    )
    to_wget = """cat > /dev/null; echo '{"updated_input": {"command": "wget x"}}'"""
    await publish_hooks(
        connections,
        keys,
        hooks(
            rule("asks", "sudo", "ask"),
            rule("no-rm", "rm"),
            {"id": "rewrites", "when": "event.input.command == 'curl x'", "command": to_wget},
        ),
    )
    async with evaluating(server.url, keys), hosting(server.url, keys, user):
        assert (await ask(connections, keys, "sudo ls")).decision == "ask"
        said = await ask(connections, keys, "clean")
        assert (said.decision, said.updated_input) == ("deny", None), (
            "the fleet's rule sees what the user's hook made of it"
        )
        said = await ask(connections, keys, "curl x")
        assert said.reason.startswith("no-wget"), "the user's rule sees what the fleet's hook made of it"


@pytest.mark.parametrize(("policy", "decision"), [("allow", "abstain"), ("deny", "deny")])
async def test_a_host_that_is_silent_is_answered_for_within_the_budget(
    server: Server, keys: Keys, connections: Connections, policy: Policy, decision: str
) -> None:
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    await do(connections, "SET", keys("alive", f"host-{LAPTOP}"), "1", "PX", BUDGET_MS)
    async with evaluating(server.url, keys, policy=policy):
        said = await ask(connections, keys, budget=4_000)
        assert said.decision == decision
        assert said.parts[-1].hook == "host:laptop"
        assert "did not answer in time" in said.notes[-1]
        assert not said.fallback, "the fleet's own hooks did answer"


async def test_a_call_does_not_wait_for_a_host_whose_worker_ends(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    await do(connections, "SET", keys("alive", f"host-{LAPTOP}"), "1", "PX", BUDGET_MS)
    async with evaluating(server.url, keys):
        _, reply = await put(connections, keys, bash(), host=LAPTOP, budget=10 * BUDGET_MS)

        async def is_asked() -> bool:
            return bool(await do(connections, "XLEN", keys("requests", LAPTOP)))

        await until(is_asked, "the host is asked")
        await do(connections, "DEL", keys("alive", f"host-{LAPTOP}"))
        assert (await verdict(connections, reply)).decision == "abstain", "nothing is known of hooks there"


async def test_what_was_handed_out_before_is_not_run_again(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    user = tmp_path / "fleethook.yaml"
    user.write_text(hooks({"id": "once", "command": f"echo ran >> {tmp_path}/ran"}))
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    await do(connections, "XGROUP", "CREATE", keys("requests", LAPTOP), GROUP, "0", "MKSTREAM")
    await do(connections, "SET", keys("alive", f"host-{LAPTOP}"), "1", "PX", BUDGET_MS)
    async with evaluating(server.url, keys, policy="deny"):
        _, reply = await put(connections, keys, bash(), host=LAPTOP)

        async def taken() -> bool:
            got = await do(connections, "XREADGROUP", "GROUP", GROUP, "dead", "STREAMS", keys("requests", LAPTOP), ">")
            return bool(got)

        await until(taken, "a worker takes it and dies")
        async with hosting(server.url, keys, user):
            said = await verdict(connections, reply)
    assert said.decision == "deny"
    assert "not run again" in said.reason
    assert not (tmp_path / "ran").exists()


@pytest.mark.req("P-11")
async def test_background_hooks_of_another_machines_files_become_deliveries_there(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    user = tmp_path / "fleethook.yaml"
    user.write_text(json.dumps({"hooks": [{"id": "logs", "on": "turn:end", "command": "true", "blocking": False}]}))
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    asked = Asked()
    async with hosting(server.url, keys, user, asked), dispatching(server.url, keys):
        name = await publish(connections, keys, Event(type="turn:end", source="generic", host=LAPTOP), host=LAPTOP)

        async def there() -> bool:
            return [one.hook for one in await deliveries(connections, keys, Filter(event=name))] == ["logs"]

        await until(there, "the laptop dispatches its own")
        assert await do(connections, "XLEN", keys("deliveries", LAPTOP)) == 1

        async def gone() -> bool:
            return bool(await do(connections, "XLEN", keys("events", LAPTOP)) == 0)

        await until(gone, "what is dispatched goes")
        await until(lambda: _times(asked, 2), "carriers of this host are asked for, until the delivery is carried")
        assert set(asked.jobs) == {"carry here"}
        stats = await do(connections, "HGETALL", keys("stats"))
        assert dict(zip(stats[::2], stats[1::2], strict=True))[b"events"] == b"1"


async def _times(asked: Asked, number: int) -> bool:
    return len(asked.jobs) >= number


async def recorded(connections: Connections, keys: Keys) -> list[str]:
    """The hosts that are known to have hooks of their own."""
    return [one.host for one in await known_hosts(connections, keys)]


@pytest.mark.req("X-10")
async def test_a_host_whose_worker_is_away_falls_to_its_own_hooks_policies_until_it_has_none(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    user = tmp_path / "fleethook.yaml"
    closed = {"id": "mine", "on": "tool:pre_execute:bash", "command": "true", "on_failure": "deny"}
    writes = {**closed, "id": "writes", "on": "tool:pre_execute:write"}
    deploys = {**closed, "id": "deploys", "when": "event.input.command.startsWith('deploy')"}
    user.write_text(json.dumps({"hooks": [closed, writes]}))
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    async with evaluating(server.url, keys):
        assert (await ask(connections, keys)).decision == "abstain", "a host that never had hooks has none"
        async with hosting(server.url, keys, user):
            assert (await ask(connections, keys)).decision == "abstain"

        async def denied() -> bool:
            return (await ask(connections, keys)).decision == "deny"

        await until(denied, "without its worker its hook's policy answers")
        said = await ask(connections, keys)
        assert "no `fleethook worker host` runs on 'laptop'" in said.reason
        assert [(part.hook, part.layer, bool(part.fallback)) for part in said.parts] == [("mine", "user", True)]
        assert any("failure policy is deny" in note for note in said.notes)
        assert (await ask(connections, keys, "rm x")).parts[0].hook == "fleets", "the fleet's own deny comes first"
        assert [(one.host, one.hooks, one.policies, one.alive) for one in await known_hosts(connections, keys)] == [
            ("laptop", 2, ("deny",), False)
        ]
        user.write_text(json.dumps({"hooks": [deploys]}))
        async with hosting(server.url, keys, user):
            await until(_records(connections, keys, 1), "what it has now is recorded")

        async def passes() -> bool:
            return (await ask(connections, keys)).decision == "abstain"

        await until(passes, "only what fits the event falls to its policy")
        assert (await ask(connections, keys, "deploy now")).decision == "deny"
        user.unlink()
        async with hosting(server.url, keys, user):
            await until(_records(connections, keys, 0), "a host that has none any more is not recorded")

        async def deploys_pass() -> bool:
            return (await ask(connections, keys, "deploy now")).decision == "abstain"

        await until(deploys_pass, "nothing is left that could fail")


def _records(connections: Connections, keys: Keys, hooks_of_it: int) -> Any:
    async def done() -> bool:
        return sum(one.hooks for one in await known_hosts(connections, keys)) == hooks_of_it

    return done


@pytest.mark.req("X-10")
async def test_the_record_of_an_emptied_server_comes_back_and_a_forgotten_host_is_gone(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_hooks, "_AGAIN_SECONDS", 0.05)
    user = tmp_path / "fleethook.yaml"
    user.write_text(hooks(rule("mine", "make")))
    async with hosting(server.url, keys, user):
        assert await recorded(connections, keys) == [LAPTOP]
        await do(connections, "DEL", keys("hosts"), keys("host", LAPTOP))
        await until(_records(connections, keys, 1), "it is written again")
    assert await forget_host(connections, keys, LAPTOP)
    assert not await forget_host(connections, keys, LAPTOP)
    assert await recorded(connections, keys) == []


@pytest.mark.req("X-10")
async def test_a_trusted_projects_hooks_fall_to_their_policies_in_its_folder_only(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    project = tmp_path / "app"
    (project / "src").mkdir(parents=True)
    (project / "fleethook.yaml").write_text(
        json.dumps({"hooks": [{"id": "theirs", "on": "tool:*", "command": "true", "on_failure": "ask"}]})
    )
    store = tmp_path / "state" / "trust.json"
    accept(project / "fleethook.yaml", store, tmp_path / "last-good")
    watcher = Watcher(
        connections, keys, host=LAPTOP, user_file=None, trust_file=store, last_good=tmp_path / "last-good"
    )
    await HostRecorder(connections, keys, watcher).keep()
    async with evaluating(server.url, keys):
        for folder, decision in ((project / "src", "ask"), (project, "ask"), (tmp_path / "apple", "abstain")):
            _, reply = await put(connections, keys, bash(cwd=str(folder)), host=LAPTOP)
            assert (await verdict(connections, reply)).decision == decision, folder
        withdraw_trust(project / "fleethook.yaml", store, tmp_path / "last-good")
        await HostRecorder(connections, keys, watcher).keep()
        assert await recorded(connections, keys) == []


@pytest.mark.req("X-10")
async def test_an_away_hosts_project_is_known_by_the_folder_that_its_hook_command_found(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a symbolic link it is the same project; a repository of its own within it is another, as on the host itself."""
    app, inner, link = tmp_path / "real" / "app", tmp_path / "real" / "app" / "vendor" / "lib", tmp_path / "link"
    for folder in (app / ".git", app / "src", inner / ".git", inner / "src"):
        folder.mkdir(parents=True)
    link.symlink_to(tmp_path / "real")
    (app / "fleethook.yaml").write_text(
        json.dumps({"hooks": [{"id": "theirs", "on": "tool:*", "command": "true", "on_failure": "deny"}]})
    )
    store = tmp_path / "state" / "trust.json"
    accept(app / "fleethook.yaml", store, tmp_path / "last-good")
    with sync_client(server.url) as client:
        world = World(tmp_path, server.socket, client, keys)
        world.install()
        watcher = Watcher(connections, keys, host="host-1", user_file=None, trust_file=store)
        await HostRecorder(connections, keys, watcher).keep()

        def denies(ran: Path, named: Path) -> bool:
            payload = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "cwd": str(named)}
            done = subprocess.run(
                world.command(), input=json.dumps(payload).encode(), cwd=ran, capture_output=True, check=True
            )
            return b'"deny"' in done.stdout

        async with evaluating(server.url, keys):
            for ran, named, expected in (
                (app, app / "src", True),
                (link / "app" / "src", link / "app" / "src", True),
                (app, link / "app" / "src", True),
                (inner, inner / "src", False),
                (link / "app" / "vendor" / "lib", link / "app" / "vendor" / "lib" / "src", False),
                (tmp_path, app, True),  # an agent whose hook commands run elsewhere
                (tmp_path, tmp_path / "real", False),
            ):
                said = await asyncio.to_thread(denies, ran, named)
                assert said is expected, (ran, named)
            monkeypatch.setenv("FLEETHOOK_HOST", "host-1")
            async with Bus(server.url, namespace=keys.prefix.split(":")[1], connect=CONNECT) as bus:
                monkeypatch.delenv("FLEETHOOK_HOST")
                for named, decision in ((link / "app" / "src", "deny"), (link / "app" / "vendor" / "lib", "abstain")):
                    assert (await bus.request(bash(cwd=str(named)))).decision == decision, named
