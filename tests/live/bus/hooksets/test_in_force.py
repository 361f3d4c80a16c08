"""The hooks in force: published versions and this host's files, taken up by evaluators that run."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bus.errors import ConfigError
from bus.events import Event
from bus.hooksets import guards, in_force
from bus.hooksets.in_force import Watcher
from bus.hooksets.published import rollback
from bus.hooksets.trust import trust, untrust
from bus.matching.rules import Rule
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import (
    NO_RM,
    ask,
    bash,
    do,
    evaluating,
    publish_hooks,
    put,
    until_true,
    verdict,
)
from tests.support.servers import Server
from tests.support.waiting import at_most, until


async def test_no_event_chooses_how_much_is_remembered_of_its_folder(
    connections: Connections, keys: Keys, tmp_path: Path
) -> None:
    watcher = Watcher(connections, keys, host="here", user_file=None, trust_file=tmp_path / "trust")
    for number in range(20):
        watcher.for_event(Event(type="turn:end", host="here", cwd=f"/{number}" + "x" * 100_000))
    assert len(watcher._recent) == 1
    assert watcher._projects == {}
    watcher.for_event(Event(type="turn:end", host="here", cwd=str(tmp_path)))
    assert list(watcher._projects) == [str(tmp_path)]


@pytest.mark.req("X-09")
async def test_the_guards_of_the_users_file_are_compiled_at_the_start_and_on_a_thread(
    connections: Connections, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both packs take 0.4 s of a core; neither the loop's heartbeat nor the first request waits for them."""
    read_on: list[threading.Thread] = []

    def read_pack(path: Path, **more: bool) -> guards.Pack:
        read_on.append(threading.current_thread())
        return read(path, **more)

    read = guards.read_pack
    monkeypatch.setattr(guards, "read_pack", read_pack)
    guards.load_pack.cache_clear()
    file = tmp_path / "fleethook.yaml"
    file.write_text("guards: {destructive-commands: true, fleethook-itself: true}\n")
    compiled_on: list[threading.Thread] = []

    def check_rule(rule: Rule) -> None:
        compiled_on.append(threading.current_thread())

    monkeypatch.setattr(in_force, "check_rule", check_rule)
    trusted = tmp_path / "trust"
    watcher = Watcher(connections, keys, host="here", user_file=file, trust_file=trusted, judges=True)
    await watcher.refresh(force=True)
    assert len(read_on) == len(guards.DEFAULT_PACKS)
    assert len(compiled_on) == sum(len(guards.load_pack(name).rules) for name in guards.DEFAULT_PACKS)
    assert threading.main_thread() not in {*read_on, *compiled_on}
    event = Event(type="tool:pre_execute", host="here", tool="bash", cwd="/home/dev/app", input={"command": "rm -rf /"})
    assert "destructive-commands_recursive-delete" in {hook.id for hook in watcher.for_event(event).blocking(event)}
    assert len(read_on) == len(guards.DEFAULT_PACKS)
    del compiled_on[:]
    await Watcher(connections, keys, host="here", user_file=file, trust_file=trusted).refresh(force=True)
    assert not compiled_on, "a process that judges no event compiles no rule"


@pytest.mark.req("B-04", "X-08")
async def test_a_new_version_is_in_force_within_a_second(
    server: Server, keys: Keys, connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    """Published, rolled back, broken: every verdict names the version that it was made with."""
    await publish_hooks(connections, keys, NO_RM)
    async with evaluating(server.url, keys), evaluating(server.url, keys):
        assert (await ask(connections, keys, "rm")).version == "fleet@1"
        start = time.monotonic()
        await publish_hooks(connections, keys, NO_RM.replace("no rm", "never"))
        await until(lambda: _version(connections, keys, "fleet@2"), "version 2 is in force")
        assert time.monotonic() - start < at_most(1.5), "half a second of it is slack"
        assert (await ask(connections, keys, "rm")).reason == "never"
        await rollback(connections, keys)
        await until(lambda: _version(connections, keys, "fleet@3"), "version 3 is in force")
        assert (await ask(connections, keys, "rm")).reason == "no rm"
        await do(
            connections,
            "SET",
            keys("hookset", "4"),
            '{"hooks": [{"id": "x", "on": ["tool:pre_exec"], "command": "x"}]}',
        )
        await do(connections, "SET", keys("hookset", "current"), "4")
        await until_true(lambda: "version 4 is not put in force" in caplog.text, "it says what is wrong")
        await until(lambda: _version(connections, keys, "fleet@3"), "version 3 stays in force")
        await do(connections, "SET", keys("hookset", "current"), "junk")
        await until_true(lambda: "holds no version number" in caplog.text, "it says what is wrong")
        await do(connections, "DEL", keys("hookset", "current"))
        await until_true(lambda: "is gone" in caplog.text, "a flush is said")
        assert (await ask(connections, keys, "rm")).reason == "no rm", "and takes no guard away"
        await do(connections, "DEL", keys("hookset", "log"))
        await publish_hooks(connections, keys, NO_RM.replace("no rm", "anew"))
        await until(lambda: _version(connections, keys, "fleet@1"), "numbers begin anew")
        assert (await ask(connections, keys, "rm")).reason == "anew"


@pytest.mark.req("B-04", "G-20")
async def test_files_of_this_host_join_the_fleets_hooks(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The user's file on its own host only; a project's file only where it is trusted as it is; a broken one changes
    nothing."""
    caplog.set_level(logging.ERROR)
    project, user, store = tmp_path / "project", tmp_path / "user.yaml", tmp_path / "state" / "trust.json"
    (project / ".git").mkdir(parents=True)
    file = project / "fleethook.yaml"

    def rule(name: str, reason: str) -> str:
        return f"hooks: [{{id: {name}, on: tool:pre_execute, rule: {{decision: ask, reason: {reason}}}}}]\n"

    async def reasons(**more: Any) -> list[str]:
        _, reply = await put(connections, keys, bash(cwd=str(project)), **more)
        return [part.reason for part in (await verdict(connections, reply)).parts]

    async def become(*wanted: str) -> None:
        async def so() -> bool:
            return await reasons() == list(wanted)

        await until(so, f"{wanted} are in force")

    async def waits(text: str) -> None:
        async def so() -> bool:
            _, reply = await put(connections, keys, bash(cwd=str(project)))
            found = await verdict(connections, reply)
            return any(text in one for one in found.waiting) and any(text in note for note in found.notes)

        await until(so, f"the verdict says that {text}")

    await publish_hooks(connections, keys, rule("same", "fleet"))
    user.write_text(rule("same", "user"))
    file.write_text(rule("same", "project"))
    async with evaluating(server.url, keys, user_file=user, trust_file=store):
        await become("fleet", "user")
        assert await reasons(host="elsewhere") == ["fleet"]
        trust(file, store)
        await become("fleet", "user", "project")
        file.write_text(rule("same", "hacked"))
        await waits("newer content waits for your trust")
        assert await reasons() == ["fleet", "user", "project"], "what was trusted stays in force"
        trust(file, store)
        await become("fleet", "user", "hacked")
        user.write_text(rule("same", "changed"))
        await become("fleet", "changed", "hacked")
        user.write_text("hooks: [")

        async def broken() -> bool:
            await become("fleet", "changed", "hacked")
            return "the last good content stays in force" in caplog.text

        await until(broken, "it says what is wrong")
        user.write_text(rule("same", "fleet"))
        await become("fleet", "hacked")
        user.unlink()
        file.unlink()
        await become("fleet", "hacked")
        await waits("the file is gone; its trusted rules stay in force until `fleethook hooks untrust`")
        untrust(file, store)
        await become("fleet")


@pytest.mark.req("B-04")
async def test_an_imported_file_is_in_force_within_a_second(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """As the file that imports it, which nobody touches."""
    user, shared = tmp_path / "fleethook.yaml", tmp_path / "shared.yaml"
    user.write_text("import: [shared.yaml]\n")
    text = "hooks: [{id: shared, on: tool:pre_execute, rule: {decision: ask, reason: REASON}}]\n"
    shared.write_text(text.replace("REASON", "first"))

    async def reason() -> str:
        return (await ask(connections, keys)).reason

    async with evaluating(server.url, keys, user_file=user):
        assert await reason() == "first"
        start = time.monotonic()
        shared.write_text(text.replace("REASON", "second"))

        async def seen() -> bool:
            return await reason() == "second"

        await until(seen, "the change is in force")
        assert time.monotonic() - start < at_most(1.5), "half a second of it is slack"


async def _version(connections: Connections, keys: Keys, version: str) -> bool:
    """Whether every one of several verdicts, which different evaluators give, is of this version."""
    return {(await ask(connections, keys)).version for _ in range(4)} == {version}


@pytest.mark.req("B-04", "X-06")
async def test_a_worker_that_starts_on_a_broken_set_takes_an_earlier_one_and_never_none(
    server: Server, keys: Keys, connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    """It has no older set of its own to keep, and without any it would let through what the fleet's hooks stop."""
    broken = '{"hooks": [{"id": "x", "on": ["tool:pre_exec"], "command": "x"}]}'
    await publish_hooks(connections, keys, NO_RM)
    for version in ("2", "3"):
        await do(connections, "SET", keys("hookset", version), broken)
    await do(connections, "SET", keys("hookset", "current"), "3")
    async with evaluating(server.url, keys):
        assert "version 3 is not put in force" in caplog.text
        verdict = await ask(connections, keys, "rm")
        assert (verdict.decision, verdict.version) == ("deny", "fleet@1")

    await do(connections, "SET", keys("hookset", "1"), broken)
    watcher = Watcher(connections, keys, host="h", user_file=None, trust_file=Path("/nonexistent"))
    with pytest.raises(ConfigError, match=r"version 3 .*no earlier version can be read either.*hooks apply"):
        await watcher.refresh(force=True)
    await publish_hooks(connections, keys, NO_RM)
    await watcher.refresh(force=True)
    assert watcher.fleet().version == "fleet@4"
