"""Whatever an agent does to its hook command: it ends in time, loses nothing else and says what happened."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus import shim
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import RedisServer, compile_shim
from bus.shim.spool import spool_status
from bus.wire.codec import decode_body
from tests.shim_kit import DENY, FALLBACK, QUIET, World, always, connect, running_server
from tests.support.waiting import PATIENCE, at_most

pytestmark = [pytest.mark.chaos, pytest.mark.req("X-06"), pytest.mark.usefixtures("each_shim")]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    compile_shim()
    path = tmp_path_factory.mktemp("r") / "s"
    with running_server(path) as _, connect(path) as client:
        yield path, client


@pytest.fixture
def world(house: tuple[Path, Any], tmp_path: Path) -> World:
    world = World(tmp_path, *house)
    world.install()
    return world


PAYLOADS = {
    "empty": b"",
    "truncated": b'{"tool_name":"Bash","tool_input":{"comma',
    "not UTF-8": b'{"a":"\xff\xfe\xc3"}',
    "lone surrogate": b'{"a":"\\ud83d"}',
    "zeros": b"\0" * 255,
    "a byte more than one length byte says": b"x" * 256,
    "a byte more than two say": b"x" * 65_536,
    "commands": b"\r\n*1\r\n$8\r\nFLUSHALL\r\n",
    "10 MB": b'{"a":"' + b"\xff" * 10_000_000,
    "the largest": b"x" * shim.MAX_STDIN,
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_every_payload_goes_through_as_it_is(world: World, name: str) -> None:
    with world.evaluator(always(DENY)) as seen:
        assert world.hook(PAYLOADS[name]) == DENY
    assert decode_body(seen[0][b"body"]) == PAYLOADS[name]
    assert world.hook(PAYLOADS[name], "PostToolUse") == QUIET
    assert decode_body(world.entries("events")[0][b"body"]) == PAYLOADS[name]


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_a_payload_over_the_limit_is_answered_by_policy_and_put_on_record_without_it(world: World, event: str) -> None:
    got = world.hook(b"x" * (shim.MAX_STDIN + 1), event)
    assert got == (FALLBACK if event == "PreToolUse" else QUIET)
    (report,) = world.entries("events")
    assert report[b"fallback"] == b"payload too large"
    assert report[b"event"] == event.encode()
    assert b"body" not in report
    assert world.entries("requests") == []


@pytest.mark.parametrize("there", [True, False])
def test_a_stdin_that_never_ends_costs_no_more_than_the_deadline(world: World, there: bool) -> None:
    world.install(deadline_ms=500)
    if not there:
        world.use(RedisServer(kind="unix", address="/nowhere/s"))
    start = time.monotonic()
    with _hook(world, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"a":')
        process.stdin.flush()
        assert process.wait(PATIENCE) == 2
        assert 0.3 < time.monotonic() - start < at_most(4)
        assert _outputs(process) == FALLBACK[1:3]
    if there:
        (report,) = world.entries("events")
        assert report[b"fallback"] == b"stdin did not end"
    assert spool_status(world.spool).records == (0 if there else 1)


def test_a_stdin_that_pours_without_end_is_cut_off(world: World) -> None:
    with open("/dev/zero", "rb") as zero, _hook(world, stdin=zero) as process:
        assert process.wait(PATIENCE) == 2
        assert _outputs(process) == FALLBACK[1:3]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_not_taken_by_the_connection(world: World, closed: str) -> None:
    # Were one of them the connection, the answer would be sent to Redis as commands.
    answer = HookAnswer(3, b"FLUSHALL\r\n", b"FLUSHALL\r\n")
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", *world.command()]
    with world.evaluator(always(answer)) as seen:
        done = subprocess.run(words, input=b"{}", capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == 3
        assert done.stdout == (b"" if ">&- " in f"{closed} " and closed != "2>&-" else b"FLUSHALL\r\n")
        assert done.stderr == (b"" if "2>&-" in closed else b"FLUSHALL\r\n")
        assert decode_body(seen[0][b"body"]) == (b"" if "<&-" in closed else b"{}")
        assert world.client.exists(world.keys("requests"))


def test_a_stdin_that_cannot_be_read_is_said(world: World, tmp_path: Path) -> None:
    write_only = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT)
    try:
        with _hook(world, stdin=write_only) as process:
            assert process.wait(PATIENCE) == 2
            _outputs(process)
    finally:
        os.close(write_only)
    (report,) = world.entries("events")
    assert report[b"fallback"] == b"stdin cannot be read"


def test_a_reader_that_is_gone_does_not_change_the_exit_code(world: World) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with (
            world.evaluator(always(HookAnswer(2, b"x" * 200_000, b"why"))),
            _hook(world, stdin=subprocess.DEVNULL, stdout=writer) as process,
        ):
            assert process.wait(PATIENCE) == 2
            assert process.stderr is not None
            assert process.stderr.read() == b"why"
    finally:
        os.close(writer)


def test_a_reader_that_does_not_read_costs_no_more_than_the_deadline(world: World) -> None:
    world.install(deadline_ms=700, fallback=HookAnswer(2, b"x" * 200_000, b""))
    start = time.monotonic()
    with _hook(world, stdin=subprocess.DEVNULL) as process:
        assert process.wait(PATIENCE) == 2
        assert time.monotonic() - start < at_most(4)
        out, _ = _outputs(process)
    assert 0 < len(out) < 200_000
    assert spool_status(world.spool).records == 1, "what there was no time to say is kept"


@pytest.mark.parametrize(
    ("parent", "kept"),
    [
        ("e" + "0" * 32, True),
        ("a.b-c_D9", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a b", False),
        ("a\r\nb", False),
        ("ü", False),
        ("$(id)", False),
    ],
)
def test_only_what_looks_like_an_id_counts_as_a_parent(world: World, parent: str, kept: bool) -> None:
    world.hook(b"{}", "PostToolUse", env={"FLEETHOOK_PARENT": parent})
    assert world.entries("events")[0].get(b"parent") == (parent.encode() if kept else None)


def test_names_are_sent_as_the_bytes_that_they_are(world: World) -> None:
    content = world.file.read_bytes()
    world.file.write_bytes(content + b"event\t\xff\r \tpublish\t9000\t0\t\t\tallow\n")
    words = [os.fsencode(word) for word in world.command("EVENT")]
    words[words.index(b"EVENT")], words[words.index(b"claude")] = b"\xff\r ", b"\xfe\nid"
    assert subprocess.run(words, input=b"", timeout=PATIENCE, check=False).returncode == 0
    (event,) = world.entries("events")
    assert (event[b"source"], event[b"event"]) == (b"\xfe\nid", b"\xff\r ")


@pytest.mark.parametrize("words", [[], ["claude"], ["claude", "PreToolUse"], ["claude", "PreToolUse", ""]])
def test_a_command_that_lacks_words_does_nothing(world: World, words: list[str]) -> None:
    command = [*world.command()[:-3], *words]
    done = subprocess.run(command, input=b"{}", capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_answers_there_and_is_no_redis_is_redis_away(world: World, tmp_path: Path) -> None:
    import socket
    import threading

    door = socket.create_server(("127.0.0.1", 0))

    def talk() -> None:
        for _ in range(2):
            client, _ = door.accept()
            with client:
                client.recv(100_000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n:x\r\n$99999999999999999999\r\n")

    thread = threading.Thread(target=talk)
    thread.start()
    world.use(RedisServer(kind="tcp", address="127.0.0.1", port=door.getsockname()[1]))
    assert world.hook() == FALLBACK
    assert world.hook(event="PostToolUse") == QUIET
    thread.join(PATIENCE)
    door.close()
    assert spool_status(world.spool).records == 2


def _hook(world: World, *, stdin: Any, stdout: Any = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(world.command(), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)


def _outputs(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.read(), process.stderr.read()
