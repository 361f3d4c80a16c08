"""What the doctor sees of a server: how it keeps its data, who is alive on it, what an agent's credentials may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.config.settings import Settings
from bus.shim.answer_file import server_from_url, write_answer_file
from bus.system.directories import directories
from bus.wire.acl import DEFAULT_OFF
from bus.wire.connections import Connections, sync_client
from bus.wire.keys import Keys
from tests.support.servers import Server
from workers.admin.agent_setup import Installed, answers_for
from workers.admin.doctor import canary, server
from workers.admin.doctor.agents import agent_checks
from workers.admin.doctor.append_only_user import append_only_user_check
from workers.admin.doctor.default_user import default_user_check
from workers.admin.doctor.rights import rights_checks
from workers.admin.doctor.server import server_checks
from workers.records.status import status
from workers.runtime.stream_repair import Repairs

SETTINGS = Settings(chores=0)
POOR = "reset on >p ~* &* +@all"
"""Every right; what is taken away stands behind it."""


@pytest.fixture(scope="module")
def poor() -> Iterator[Server]:
    """A server that keeps nothing and throws away what it likes."""
    one = Server()
    one.start()
    with sync_client(one.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    yield one
    one.stop()


async def statuses(url: str, keys: Keys) -> dict[str, str]:
    """The checks of a server by id."""
    connections = Connections(url, connect=1.0)
    try:
        return {one.id: one.status for one in await server_checks(connections, connections, keys, SETTINGS)}
    finally:
        await connections.close()


def user(server: Server, name: str, *rules: str) -> str:
    """The server's URL for a user with these rights."""
    with sync_client(server.url) as client:
        client.execute_command("ACL", "SETUSER", name, *POOR.split(), *rules)
    return server.url.replace("unix://", f"unix://{name}:p@")


@pytest.mark.req("G-20")
async def test_a_server_that_loses_data_and_nobody_at_work(poor: Server) -> None:
    """Whatever should be there and is not, is found; nobody is missed where nobody was wanted."""
    assert await statuses(poor.url, Keys("t-doctor")) == {
        "server": "ok",
        "appendonly": "warn",
        "maxmemory-policy": "fail",
        "memory": "ok",
        "default-user": "ok",
        "append-only-user": "ok",
        "streams": "ok",
        "evaluator": "fail",
        "dispatcher": "fail",
        "host": "warn",
        "carrier": "fail",
        "chores": "warn",
        "hooks": "ok",
    }


async def test_what_cannot_be_seen_is_neither_well_nor_ill(poor: Server) -> None:
    blind = await statuses(user(poor, "blind", "-config", "-info", "-smembers"), Keys("t-doctor"))
    unknown = {name for name, status in blind.items() if status == "unknown"}
    assert unknown == {"server", "appendonly", "maxmemory-policy", "memory", "carrier", "chores"}
    away = await statuses("unix:///nowhere/s", Keys("t-doctor"))
    assert away.pop("server") == "fail"
    assert set(away.values()) == {"unknown"}


@pytest.mark.req("B-07")
@pytest.mark.parametrize(
    ("line", "rights", "status"),
    [
        ("user default reset off", (), "warn"),  # as `fleethook acl` printed it
        (
            "user default reset off",
            ("-@admin", "-@dangerous", "+config|get"),
            "warn",
        ),  # our admin may not ask for users
        (DEFAULT_OFF, ("-@admin", "-@dangerous", "+config|get"), "ok"),
        (DEFAULT_OFF, (), "ok"),
        ("user default reset off ~x:* +@all", (), "warn"),
        ("user default reset off", ("-@admin", "-@dangerous"), "unknown"),
    ],
)
async def test_a_default_user_that_cannot_load_the_append_only_file_is_found(
    line: str, rights: tuple[str, ...], status: str
) -> None:
    """The message has the file, what is lost, and the line to write."""
    one = Server(acl=f"{line}\nuser fleethook-admin {' '.join((POOR, *rights))}\n")
    one.start()
    connections = Connections(one.url.replace("unix://", "unix://fleethook-admin:p@"), connect=1.0)
    try:
        found = await append_only_user_check(connections)
    finally:
        await connections.close()
        one.stop()
    assert found.status == status, found.what
    if status == "warn":
        assert str(one.folder / "users.acl") in found.what
        assert DEFAULT_OFF in found.fix


@pytest.mark.req("B-07", "X-09")
@pytest.mark.parametrize(
    ("listens", "default", "by_name", "status"),
    [
        (False, "", False, "ok"),  # a developer's own server behind a unix socket
        (False, "", True, "fail"),  # the roles are there, and everybody can walk round them
        (True, "", False, "warn"),
        (True, "", True, "fail"),
        (True, "reset off", True, "ok"),
        (True, "reset on nopass +ping", True, "ok"),
        (True, "resetpass >secret", False, "warn"),  # we log in with it, and the roles are there: it is still enough
        (True, "resetpass >secret", True, "warn"),
        (True, "resetpass >secret -@all", True, "ok"),
    ],
)
async def test_an_open_default_user_is_found(listens: bool, default: str, by_name: bool, status: str) -> None:
    one = Server(listens=listens)
    one.start()
    keys = Keys("t-default")
    try:
        url = user(one, "fleethook-admin") if by_name or ">secret" in default else one.url
        if default:
            with sync_client(url) as client:
                client.execute_command("ACL", "SETUSER", "default", *default.split())
        if ">secret" in default and not by_name:
            url = one.url.replace("unix://", "unix://:secret@")
        connections = Connections(url, connect=1.0)
        found = await default_user_check(connections, keys)
        await connections.close()
        assert (found.status, bool(found.fix)) == (status, status != "ok"), found.what
        if not listens or default:
            return
        tcp = Connections(f"redis://{'fleethook-admin:p@' if by_name else ''}127.0.0.1:{one.port}/0", connect=1.0)
        assert (await default_user_check(tcp, keys)).status == status
        await tcp.close()
    finally:
        one.stop()


@pytest.mark.req("X-09")
async def test_a_stream_that_was_repaired_is_said(poor: Server) -> None:
    keys, connections = Keys("t-repaired"), Connections(poor.url, connect=1.0)
    with sync_client(poor.url) as client:
        client.execute_command("XADD", keys("events"), f"{2**64 - 1}-{2**64 - 1}", "id", "x")
    assert await Repairs(connections, keys, "tester").repair_if_due()
    (found,) = [one for one in await server_checks(connections, connections, keys, SETTINGS) if one.id == "streams"]
    told = await status(connections, connections, keys, SETTINGS, directories())
    await connections.close()
    assert found.status == "warn"
    assert "events had a last id from the future" in found.what
    assert [one.text for one in told.repairs] == [found.what]


@pytest.mark.parametrize("text", ["no json", "[1]", '{"version": 1, "hooks": 7}'])
async def test_a_published_set_that_nobody_can_read_is_said_with_the_way_out(poor: Server, text: str) -> None:
    keys, connections = Keys("t-doctor-set"), Connections(poor.url, connect=1.0)
    with sync_client(poor.url) as client:
        client.mset({keys("hookset", "current"): "4", keys("hookset", "4"): text})
    (found,) = [one for one in await server_checks(connections, connections, keys, SETTINGS) if one.id == "hooks"]
    await connections.close()
    assert found.status == "fail"
    assert "hook set" in found.what
    assert found.fix == "fleethook hooks rollback"


@pytest.mark.parametrize(
    ("brand", "version", "status"),
    [
        ("redis", "6.0.16", "fail"),
        ("redis", "6.2.14", "ok"),
        ("valkey", "7.2.0", "ok"),
        ("valkey", "7.1.9", "fail"),
        ("redis", "10.0", "ok"),
        ("", "7.0", "ok"),
        ("redis", "", "unknown"),
    ],
)
def test_the_oldest_server_that_will_do(brand: str, version: str, status: str) -> None:
    assert server._version_check(brand, version, "redis://h", 1.0).status == status


@pytest.mark.req("B-07")
async def test_the_rights_of_an_agents_hook_commands_are_tried(poor: Server) -> None:
    """Too few of them is a fault, too many a warning, and only the role `shim` has neither."""
    places = directories()
    assert await rights_checks("claude", places) == []
    path = places.answer_file("claude")
    path.parent.mkdir(parents=True, exist_ok=True)
    made, _ = answers_for("claude", Settings(), places, closed=False, environ={"FLEETHOOK_SHIM_URL": poor.url})
    write_answer_file(path, made)
    (wide,) = await rights_checks("claude", places)
    assert (wide.status, wide.what) == (
        "warn",
        "claude: its hook commands may also run scripts, read hook sets, read events, read counters",
    )
    for url, says in (
        (user(poor, "mute", "-xadd"), "may not add requests, add events"),
        (poor.url.replace("unix://", "unix://nobody:x@"), "redis refused the credentials"),
        ("unix:///nowhere/s", "redis cannot be reached"),
    ):
        answers, _ = answers_for("claude", Settings(), places, closed=False, environ={"FLEETHOOK_SHIM_URL": url})
        assert answers.server == server_from_url(url)
        write_answer_file(path, answers)
        (found,) = await rights_checks("claude", places)
        assert found.status == "fail"
        assert says in found.what
    (hidden,) = await rights_checks("claude", places, away="unix://admin:x@/nowhere/s?db=3")
    assert (hidden.status, hidden.cause) == ("unknown", "server"), "the server's own check says that already"
    (other,) = await rights_checks("claude", places, away="unix:///elsewhere/s")
    assert (other.status, other.cause) == ("fail", "")


async def test_no_canary_flies_where_nothing_asks_before_a_tool(tmp_path: Path) -> None:
    places, connections = directories(), Connections("unix:///nowhere/s", connect=0.2)
    assert await canary.expected(connections, Keys("main"), Settings(), places, tmp_path) is None
    await connections.close()
    assert canary.guard_check(None).status == "unknown"
    stop = Installed(agent="claude", scope="user", path="/s.json", commands={"Stop": "true"})
    (found,) = canary.live_checks(stop, places, None, tmp_path)
    assert (found.status, found.fix) == ("warn", "fleethook install claude --scope user")


@pytest.mark.parametrize(
    ("script", "status", "says"),
    [
        ("echo '2.1.0 (Claude Code)'; echo more", "ok", "Claude Code 2.1.0 at "),
        ("exit 3", "unknown", "does not say"),
        ("", "unknown", "does not say"),
        (None, "unknown", "not on PATH"),
    ],
)
def test_the_agents_own_program_says_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, status: str, says: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    if script is not None:
        program = tmp_path / "claude"
        program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        program.chmod(0o700)
    found = {one.id: one for one in agent_checks("claude", Settings(), directories(), tmp_path)}["claude-program"]
    assert (found.status, says in found.what) == (status, True)
