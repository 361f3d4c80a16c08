"""What weakens a guard is an event: from the commands, from a worker that notices it, and from the spool of a dead server."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.guard_changes import Loss, read_changes, weakened
from bus.hooksets.guards import DEFAULT_PACKS
from bus.hooksets.hookfile import HookFile, parse_hook_file
from bus.hooksets.in_force import HookSet, Layered, Watcher
from bus.hooksets.projects import accept, withdraw_trust
from bus.hooksets.published import apply, load_version
from bus.wire.codec import decode_body
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run
from tests.support.servers import Server
from workers.cli.up import STARTER
from workers.runtime.file_notices import FileNotices

BOTH = "version: 1\nguards: {destructive-commands: true, fleethook-itself: true}\n"
RULE = (
    'hooks: [{id: mine, on: "tool:pre_execute", tool: bash, '
    "%srule: {decision: %s, reason: r, commands: [{program: [%s]}]}}]\n"
)


def guards(text: str) -> dict[str, Hook]:
    file: HookFile = parse_hook_file(f"version: 1\n{text}", "fleet", file="x.yaml")
    assert not file.problems
    return HookSet([Layered("fleet", "1", file)]).hooks


async def events(connections: Connections, keys: Keys) -> list[dict[str, Any]]:
    """The data of each `guard:changed` on the stream, in order."""
    with connections.lease() as connection:
        (entries,) = await connection.exchange([("XRANGE", keys("events"), "-", "+")])
    found = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in entries]
    bodies = [decode_body(one[b"body"]) for one in found if one[b"event"] == b"guard:changed"]
    return [body.data for body in bodies if isinstance(body, Event)]


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("after", "how"),
    [
        ("", "removed"),
        (RULE % ("enabled: false, ", "deny", "rm"), "removed"),
        (RULE % ("", "ask", "rm"), "deny became ask"),
        (RULE % ("observe: true, ", "deny", "rm"), "only observes"),
        (RULE % ("", "deny", "mv"), "changed"),
        (RULE % ("when: event.host == 'x', ", "deny", "rm"), "changed"),
        (RULE % ("description: words, priority: 3, ", "deny", "rm"), ""),
    ],
)
def test_what_a_guard_can_lose(after: str, how: str) -> None:
    found = weakened(guards(RULE % ("", "deny", "rm")), guards(after))
    assert found == ((Loss("mine", how),) if how else ())


@pytest.mark.req("X-09")
def test_a_stricter_or_another_guard_is_no_loss() -> None:
    mine = guards(RULE % ("", "ask", "rm"))
    assert weakened(mine, guards(RULE % ("", "deny", "rm"))) == ()
    assert weakened(mine, mine | guards("guards: {fleethook-itself: true}")) == ()
    packs = guards("guards: {destructive-commands: true}")
    assert len(weakened(packs, {})) == len(packs)
    assert {one.how for one in weakened(packs, guards("guards: {destructive-commands: {observe: true}}"))} == {
        "only observes"
    }


@pytest.mark.req("X-09")
async def test_a_worker_notices_what_a_file_and_a_published_set_lose(
    connections: Connections, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process on its own; the event is there once, and comes again where the file is weakened again."""
    monkeypatch.setattr("bus.hooksets.in_force.POLL_SECONDS", 0.0)
    file = tmp_path / "fleethook.yaml"
    file.write_text(BOTH)
    watchers = [
        Watcher(connections, keys, host="test-host", user_file=file, trust_file=tmp_path / "trust.json")
        for _ in range(2)
    ]
    event = Event(type="tool:pre_execute", tool="bash", host="test-host", input={"command": "ls"})
    first = await apply(connections, keys, parse_hook_file(BOTH, "fleet", file="x.yaml"))

    async def look() -> None:
        for watcher in watchers:
            await watcher.refresh(force=True)
            watcher._recent.clear()
            watcher.for_event(event)
            await FileNotices(connections, keys).publish_guard_changes(watcher.guards)
            assert watcher.guards.weakened == []

    await look()
    assert await events(connections, keys) == []
    weaker = "version: 1\nguards: {destructive-commands: true}\n"
    for text in (weaker, BOTH, weaker):
        file.write_text(text)
        await look()
    told = await events(connections, keys)
    assert [one["where"] for one in told] == [str(file), str(file)]
    assert all(one["how"] == "file" and one["losses"][0]["how"] == "removed" for one in told)
    assert {loss["guard"].partition("_")[0] for loss in told[0]["losses"]} == {"fleethook-itself"}
    second = await apply(connections, keys, parse_hook_file("version: 1\n", "fleet", file="x.yaml"))
    await look()
    last = (await events(connections, keys))[-1]
    assert (last["how"], last["where"]) == ("published", f"version {second}")
    assert second == first + 1
    assert [one.where for one in await read_changes(connections, keys)] == [f"version {second}", str(file), str(file)]


@pytest.mark.req("X-09")
async def test_a_worker_notices_without_an_event_of_that_folder(
    connections: Connections, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process sees the same state of the file; one that looked later said the same loss again as another."""
    monkeypatch.setattr("bus.hooksets.in_force.POLL_SECONDS", 0.0)
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    file, store, kept = tmp_path / "repo" / "fleethook.yaml", tmp_path / "trust.json", tmp_path / "kept"
    file.write_text(f"version: 1\n{RULE % ('', 'deny', 'rm')}")
    accept(file, store, kept)
    watcher = Watcher(connections, keys, host="test-host", user_file=None, trust_file=store, last_good=kept)
    watcher.for_event(Event(type="tool:pre_execute", tool="bash", host="test-host", cwd=str(file.parent)))
    assert watcher.rejected() == ()
    assert watcher.guards.weakened == []
    withdraw_trust(file, store, kept)
    watcher.rejected()
    assert [(one.where, one.losses) for one in watcher.guards.weakened] == [(str(file), (Loss("mine", "removed"),))]


@pytest.fixture
def person(server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's file with both packs on, and the server of the run."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "home" / "config" / "fleethook.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{BOTH}endpoints:\n  - id: audit\n    url: https://example.com/hook\n    events: ['*']\n")
    return file


@pytest.mark.req("X-09")
def test_commands_say_who_did_what_by_what(person: Path, server: Server, keys: Keys) -> None:
    """`guards disable`, `webhooks remove`, `hooks apply` and `rollback`; `status` shows the last ones."""
    assert fleethook("guards", "disable", "fleethook-itself", "--yes").code == 0
    assert fleethook("webhooks", "remove", "audit", "--yes").code == 0
    strict, weak = person.with_name("strict.yaml"), person.with_name("weak.yaml")
    strict.write_text(BOTH)
    weak.write_text("version: 1\nguards: {fleethook-itself: true}\n")
    for file in (weak, strict, weak):
        assert fleethook("hooks", "apply", str(file), "--yes").code == 0
    assert fleethook("hooks", "rollback", "2", "--yes").code == 0, "stricter again: nothing to say"
    assert fleethook("hooks", "rollback", "1", "--yes").code == 0
    told = run(server.url, lambda connections: events(connections, keys))
    assert [(one["how"], one["where"]) for one in told] == [
        ("fleethook guards disable", str(person)),
        ("webhooks remove", str(person)),
        ("hooks apply", "version 3"),
        ("hooks rollback", "version 5"),
    ]
    assert {(one["by"], one["agent"]) for one in told} == {(getpass.getuser(), "claude")}
    assert told[1]["losses"] == [{"guard": "audit", "how": "removed"}]
    shown = fleethook("status")
    assert "hooks rollback (version 5) by " in shown.out
    assert json.loads(fleethook("status", "--json").out)["weakened"][0]["how"] == "hooks rollback"


@pytest.mark.req("X-09", "X-06")
def test_without_a_server_the_event_waits_in_the_spool(
    person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", f"unix://{tmp_path}/nobody.sock")
    done = fleethook("guards", "disable", "fleethook-itself", "--yes")
    assert (done.code, "announced later" in done.err) == (0, True), done.err
    (spool,) = (tmp_path / "home" / "state" / "spool").glob("program.*")
    spooled = spool.read_bytes()
    assert b"guard:changed" in spooled
    assert b"fleethook guards disable" in spooled


@pytest.mark.req("X-09")
def test_a_lower_layer_cannot_switch_a_higher_ones_pack_off() -> None:
    """Neither the user's file the fleet's, nor a project's the user's; nor by rules of the same names, or an allow."""
    on = parse_hook_file("version: 1\nguards: {fleethook-itself: true}\n", "fleet", file="x.yaml")
    lowered = "version: 1\nguards: {fleethook-itself: %s}\n" + RULE.replace("mine", "fleethook-itself_own-verbs")
    for settings in ("false", "{observe: true}", "{disable: [own-verbs]}", "{decision: ask}"):
        text = lowered % (settings, "", "allow", "fleethook")
        user, project = (parse_hook_file(text, layer, file="x.yaml") for layer in ("user", "project"))
        for layers in (
            [Layered("fleet", "1", on), Layered("user", "2", user), Layered("project", "3", project)],
            [Layered("user", "1", on), Layered("project", "3", project)],
        ):
            alone = HookSet(layers[:1]).hooks
            assert {name: hook for name, hook in HookSet(layers).hooks.items() if name in alone} == alone


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "words",
    [
        "hooks apply weak.yaml --yes",
        "hooks trust --yes",
        "hooks untrust",
        "hooks trust --remove",
        "guards disable fleethook-itself --yes",
        "guards disable fleethook-itself --layer fleet --yes",
        "webhooks remove audit --yes",
        "webhooks set audit enabled=false --yes",
        "webhooks disable audit --yes",
        "webhooks pause audit",
        "hooks rollback --yes",
        "uninstall claude --yes",
        "down",
    ],
)
def test_each_verb_that_weakens_refuses_below_an_agent(
    words: str, person: Path, server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wall stands before the act of each: exit code 1, and nothing has changed or was announced."""
    person.write_text(f"{BOTH}endpoints:\n  - id: audit\n    url: https://example.com/hook\n    events: ['turn:end']\n")
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "fleethook.yaml").write_text(BOTH)
    (project / "weak.yaml").write_text("version: 1\n")
    (tmp_path / ".claude").mkdir()
    monkeypatch.chdir(project)
    if "un" in words or "--remove" in words:
        assert fleethook("hooks", "trust", "--yes").code == 0
        assert fleethook("install", "claude", "--yes").code == 0
    for _ in range(2):
        run(server.url, lambda connections: apply(connections, keys, parse_hook_file(BOTH, "fleet", file="x.yaml")))
    monkeypatch.delenv("FLEETHOOK_TEST_CONFIRMS")

    def files() -> dict[Path, bytes]:
        found = (path for path in tmp_path.rglob("*") if path.is_file() and "last-good" not in path.parts)
        return {path: path.read_bytes() for path in found}

    before = files()
    refused = fleethook(*words.split())
    assert refused.code == 1, (refused.out, refused.err)
    assert "can weaken this machine's guards, and an agent runs it (claude: CLAUDECODE is set)" in refused.err
    assert files() == before
    assert run(server.url, lambda connections: events(connections, keys)) == []


@pytest.mark.req("X-09")
def test_an_install_that_weakens_what_is_installed_needs_a_person(
    person: Path, server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 10, A7: without --fail-closed over entries that fail closed, with fewer gates, or for another server."""
    (tmp_path / ".claude").mkdir()
    settings = tmp_path / ".claude" / "settings.json"
    answers = tmp_path / "home" / "data" / "agents" / "claude"
    monkeypatch.delenv("FLEETHOOK_TEST_CONFIRMS")
    assert fleethook("install", "claude", "--fail-closed", "--yes").code == 0, "it only adds"
    assert fleethook("install", "claude", "--fail-closed", "--yes").code == 0
    before = (settings.read_bytes(), answers.read_bytes())
    weaker = {
        (): ("PreToolUse", "no longer denies if it fails"),
        ("--fail-closed", "--events", "Stop"): ("PreToolUse", "removed"),
        ("--scope", "project"): ("PreToolUse", "no longer denies if it fails"),
    }
    for words, (event, how) in weaker.items():
        dry = fleethook("install", "claude", *words, "--dry-run", "--json")
        assert dry.json["agents"][0]["weakens"][event] == how, words
        refused = fleethook("install", "claude", *words, "--yes")
        assert refused.code == 1, words
        assert "an agent runs it (claude: CLAUDECODE is set)" in refused.err
    monkeypatch.setenv("FLEETHOOK_SHIM_URL", "redis://127.0.0.1:1/0")
    assert fleethook("install", "claude", "--fail-closed", "--yes").code == 1, "another server answers otherwise"
    monkeypatch.delenv("FLEETHOOK_SHIM_URL")
    assert (settings.read_bytes(), answers.read_bytes()) == before
    assert not (tmp_path / ".claude" / "settings.local.json").exists()
    assert run(server.url, lambda connections: events(connections, keys)) == []

    monkeypatch.setenv("FLEETHOOK_TEST_CONFIRMS", "1")
    done = fleethook("install", "claude", "--yes")
    assert (done.code, "PreToolUse no longer denies if it fails" in done.err) == (0, True), done.err
    (told,) = run(server.url, lambda connections: events(connections, keys))
    assert (told["how"], told["by"], told["agent"]) == ("install claude", getpass.getuser(), "claude")
    assert {"guard": "claude PreToolUse", "how": "no longer denies if it fails"} in told["losses"]


@pytest.mark.req("X-09", "X-07")
def test_one_command_publishes_the_default_packs(person: Path, server: Server, keys: Keys) -> None:
    """Also below an agent, since it only adds; a second time there is nothing to publish."""
    assert fleethook("hooks", "apply", str(person), "--yes").code == 0
    assert fleethook("guards", "disable", "fleethook-itself", "--layer", "fleet", "--yes").code == 0
    done = fleethook("guards", "publish", "--yes", "--json")
    assert (done.code, done.json["version"], done.json["packs"]) == (0, 3, list(DEFAULT_PACKS)), done.err
    published = run(server.url, lambda connections: load_version(connections, keys, 3))
    assert {name for name, settings in published.guards.items() if settings.enabled} == set(DEFAULT_PACKS)
    assert [one.id for one in published.endpoints] == ["audit"]
    assert fleethook("guards", "publish", "--yes", "--json").json["written"] is False
    assert all(f"  {pack}: true" in STARTER for pack in DEFAULT_PACKS)
