"""The hook command and a server that is away for a moment, stands still, or has moved: no guarded call passes."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.shim.answer_file import RedisServer
from bus.shim.spool import spool_status
from tests.shim_kit import DENY, FALLBACK, QUIET, World, always, connect, running_server, wait_until
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.live, pytest.mark.req("X-06", "X-09"), pytest.mark.usefixtures("each_shim")]


def begin(world: World, event: str = "PreToolUse") -> subprocess.Popen[bytes]:
    """A hook call under way; its stdin has ended."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(world.command(event), stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    process.stdin.write(b"{}")
    process.stdin.close()
    process.stdin = None
    return process


def mark(world: World) -> Path:
    return world.spool.with_name(world.spool.name + ".away")


@contextmanager
def door(target: Path, refusals: int, words: bytes, late: float = 0.0) -> Iterator[int]:
    """A TCP port that says `words` to the first connections, and passes the next one on, `late`; yields its number."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(refusals):
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(words)
                client.recv(65536)
        client, _ = listener.accept()
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(target))
            threading.Event().wait(late)

            def back() -> None:
                while data := server.recv(65536):
                    client.sendall(data)

            thread = threading.Thread(target=back)
            thread.start()
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)
            thread.join()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join()
        listener.close()


def come_back(there: Path, path: Path) -> None:
    """Let a server that runs at `there` be the one at `path`, in one step, once a call has looked and found nothing.

    A call tries for 2 s, and the start of a server may take longer on a busy machine.
    """
    names = [path.with_name(name) for name in ("gone", "back")]
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(names[0]))
        gone.listen()
        gone.settimeout(PATIENCE)
        names[0].replace(path)
        look, _ = gone.accept()
        path.unlink()
        look.close()
    names[1].symlink_to(there)
    names[1].replace(path)


def test_a_server_that_is_back_in_time_lets_no_call_pass(tmp_path: Path) -> None:
    path, there = tmp_path / "s", tmp_path / "there"
    with running_server(there), connect(there) as client:
        world = World(tmp_path, path, client)
        world.install(deadline_ms=60_000)
        with world.evaluator(always(DENY)) as seen, begin(world) as asking:
            come_back(there, path)
            out, err = asking.communicate(timeout=PATIENCE)
            assert (asking.returncode, out, err) == DENY[:3]
            assert world.hook() == DENY, "and the next one neither"
        assert len({request[b"id"] for request in seen}) == 2
        assert not mark(world).exists()
        assert not world.spool.exists()


@pytest.mark.parametrize(
    "word",
    [
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy",
        "ERR The stream has exhausted the last possible ID, unable to add more items",
        "NOREPLICAS Not enough good replicas to write.",
        "CLUSTERDOWN The cluster is down",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "ERR max number of clients reached",
    ],
)
def test_a_server_that_still_reads_its_data_is_asked_again(tmp_path: Path, word: str) -> None:
    path = tmp_path / "s"
    refusal = f"-{word}\r\n".encode() * 3
    with running_server(path), connect(path) as client, door(path, 3, refusal) as port:
        world = World(tmp_path, path, client)
        world.install(RedisServer(kind="tcp", address="127.0.0.1", port=port), deadline_ms=60_000)
        with world.evaluator(always(DENY)) as seen:
            assert world.hook() == DENY
        assert len(seen) == 1


def test_a_server_killed_while_it_is_asked_is_asked_again_when_it_is_back(tmp_path: Path) -> None:
    path, there = tmp_path / "s", tmp_path / "there"
    with running_server(there), connect(there) as later, connect(path) as client:
        world = World(tmp_path, path, client)
        world.install(deadline_ms=60_000)
        with running_server(path) as server, world.evaluator(always(DENY), later):
            world.alive()
            with begin(world) as asking:
                wait_until(lambda: world.entries("requests"))
                server.kill()
                server.wait()
                come_back(there, path)
                out, err = asking.communicate(timeout=PATIENCE)
            assert (asking.returncode, out, err) == DENY[:3], "it had forgotten the request, and has it again"


def test_a_frozen_server_costs_the_deadline_once_and_a_moment_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running_server(path) as server, connect(path) as client:
        world = World(tmp_path, path, client)
        world.install(deadline_ms=1_500)
        server.send_signal(signal.SIGSTOP)
        try:
            assert world.hook() == FALLBACK
            assert stat.S_IMODE(mark(world).stat().st_mode) == 0o600
            world.install(deadline_ms=120_000)
            start = time.monotonic()
            assert world.hook() == FALLBACK
            assert world.hook(event="PostToolUse") == QUIET
            assert time.monotonic() - start < 60, "far from the deadline of either"
            assert mark(world).exists()
            assert spool_status(world.spool).records == 3
        finally:
            server.send_signal(signal.SIGCONT)
        with world.evaluator(always(DENY)):  # a busy machine may take longer than the moment that the mark leaves
            wait_until(lambda: world.hook() == DENY)
        assert not mark(world).exists(), "it answers again, so the whole deadline counts again"


def test_a_server_that_is_farther_away_than_a_mark_allows_is_found_again(tmp_path: Path) -> None:
    """Every call of its host passed for ever after one outage: none waited long enough to see that the server was back."""
    there = tmp_path / "s"
    with running_server(there), connect(there) as client, door(there, 2, b"", late=0.4) as port:
        world = World(tmp_path, there, client)
        world.install(RedisServer(kind="tcp", address="127.0.0.1", port=port), deadline_ms=60_000)
        mark(world).parent.mkdir(parents=True, exist_ok=True)
        mark(world).touch()
        with world.evaluator(always(DENY)):
            for _ in range(2):
                mark(world).touch()
                assert world.hook() == FALLBACK, "only a moment is left to the server"
            os.utime(mark(world), (time.time() - 11,) * 2)
            assert world.hook() == DENY, "one call has the full time again"
        assert not mark(world).exists()


def test_a_server_that_stays_away_marks_only_for_those_who_wait(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with connect(path) as client:
        world = World(tmp_path, path, client)
        world.install(deadline_ms=1_000)
        assert world.hook(event="PostToolUse") == QUIET
        assert not mark(world).exists(), "it was tried only once"
        assert world.hook() == FALLBACK
        assert mark(world).exists()


def test_a_slow_answer_or_no_evaluator_is_no_outage(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running_server(path), connect(path) as client:
        world = World(tmp_path, path, client)
        world.install(deadline_ms=600)
        world.has_fleet()
        assert world.hook() == FALLBACK
        world.alive()
        assert world.hook() == FALLBACK
        assert [fields[b"fallback"] for fields in world.recorded()] == [b"no evaluator", b"no answer in time"]
        assert not mark(world).exists()


def test_a_server_that_moved_is_found_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running_server(path), connect(path) as client, door(path, 0, b"") as port:
        world = World(tmp_path, path, client)
        # Nobody listens at the address that it had when it was installed.
        world.install(RedisServer(kind="tcp", address="127.0.0.2", port=port, name="localhost"), deadline_ms=60_000)
        with world.evaluator(always(DENY)) as seen:
            assert world.hook() == DENY
        assert len(seen) == 1
