"""The spool on a real disk and the drainer against a real server: in order, each once, whatever dies."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bus import shim
from bus.ids import event_id
from bus.shim.answer_file import RedisServer
from bus.shim.spool import BATCH_RECORDS, Drained, SpoolStatus, append, drain, main, spool_status
from tests.shim_kit import Proxy, World, connect, running_server, wait_until
from tests.support.waiting import PATIENCE, at_most

pytestmark = [pytest.mark.live, pytest.mark.req("X-06")]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    path = tmp_path_factory.mktemp("r") / "s"
    with running_server(path) as _, connect(path) as client:
        yield path, client


@pytest.fixture
def world(house: tuple[Path, Any], tmp_path: Path) -> World:
    world = World(tmp_path, *house)
    world.install()
    return world


def fill(world: World, count: int, stream: str = "events") -> list[bytes]:
    """Keeps `count` entries and returns their ids."""
    ids = [event_id() for _ in range(count)]
    for name in ids:
        assert append(world.spool, stream, ["id", name, "source", "claude", "body", b"\xc4\x04*2\r\n"])
    return [name.encode() for name in ids]


def arrived(world: World, stream: str = "events") -> list[bytes]:
    return [fields[b"id"] for fields in world.entries(stream)]


def drainer(world: World) -> subprocess.Popen[bytes]:
    house = str(Path(shim.__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-m", "bus.shim.spool", str(world.file)], cwd=house, stderr=subprocess.PIPE
    )


def test_everything_arrives_in_order_with_its_fields_and_leaves_the_disk(world: World) -> None:
    events, requests = fill(world, 3 * BATCH_RECORDS + 1), fill(world, 2, "requests")
    assert spool_status(world.spool)[:3:2] == (len(events) + 2, 0)
    assert drain(str(world.file)) == Drained(len(events) + 2, 0)
    assert arrived(world) == events + requests, "a request that fell back is an event by now"
    assert arrived(world, "requests") == []
    assert world.entries("events")[0] == {
        b"id": events[0],
        b"source": b"claude",
        b"body": b"\xc4\x04*2\r\n",
        b"spooled": b"1",
    }
    assert spool_status(world.spool) == SpoolStatus()
    assert drain(str(world.file)) == Drained()


def test_what_a_drainer_killed_in_the_middle_repeats_is_marked_and_in_order(world: World) -> None:
    ids = fill(world, 2 * BATCH_RECORDS + 5)
    with Proxy(world.socket, swallow=lambda _number, _chunk: True) as proxy:
        # The first batch reaches the server, and the drainer never learns it.
        world.use(RedisServer(kind="tcp", address="127.0.0.1", port=proxy.port))
        with drainer(world) as process:
            wait_until(lambda: len(arrived(world)) == BATCH_RECORDS)
            process.kill()
    late = fill(world, 1)
    world.install()
    assert drain(str(world.file)) == Drained(len(ids) + 1, 0)
    assert arrived(world) == ids[:BATCH_RECORDS] + ids + late
    assert all(fields[b"spooled"] == b"1" for fields in world.entries("events")), "the workers drop what comes twice"


def test_what_redis_refuses_leaves_no_mark_and_arrives_when_it_may(world: World) -> None:
    ids = fill(world, 3)
    world.client.set(world.keys("events"), "not a stream")
    with drainer(world) as process:
        assert process.wait(PATIENCE) == 3
        assert process.stderr is not None
        assert b"redis refused: WRONGTYPE" in process.stderr.read()
    assert spool_status(world.spool).records == 3
    assert (world.spool.parent / "waiting.drain.lock").stat().st_mtime > time.time(), "no shim tries again at once"
    world.client.delete(world.keys("events"))
    assert drain(str(world.file)) == Drained(3, 0)
    assert arrived(world) == ids
    assert (world.spool.parent / "waiting.drain.lock").stat().st_mtime <= time.time()


def test_after_a_drain_that_failed_no_shim_starts_another_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forked(Exception):
        pass

    def tripwire() -> int:
        raise Forked

    fill(world, 1)
    monkeypatch.setattr("posix.fork", tripwire)
    plan = shim.AnswerPlan(str(world.file))
    with pytest.raises(Forked):
        shim.drain_later(plan.spool, plan.path)
    world.use(RedisServer(kind="unix", address="/nowhere/s"))
    assert main([str(world.file)]) == 3
    shim.drain_later(plan.spool, plan.path)
    lock = world.spool.parent / "waiting.drain.lock"
    os.utime(lock, (time.time() - 1,) * 2)
    with pytest.raises(Forked):
        shim.drain_later(plan.spool, plan.path)
    world.install()
    drain(str(world.file))
    shim.drain_later(plan.spool, plan.path)


def test_only_one_drainer_is_at_work(world: World) -> None:
    fill(world, 1)
    lock = world.spool.parent / "waiting.drain.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert drain(str(world.file)) is None
        assert main([str(world.file)]) == 0
        assert arrived(world) == []
    assert main([str(world.file)]) == 0
    assert len(arrived(world)) == 1


WRITER = """
import sys
from bus.ids import event_id
from bus.shim.spool import append
sys.stdin.read(1)
for _ in range(150):
    name = event_id()
    assert append(sys.argv[1], "events", ["id", name, "body", b"x" * 3000], wait_s=20)
    print(name)
"""


def test_eight_processes_append_while_a_drainer_takes_the_file_away(world: World) -> None:
    house = str(Path(shim.__file__).parents[2])
    drained, ids = 0, list[bytes]()
    with ExitStack() as stack:
        writers = []
        for _ in range(8):
            words = [sys.executable, "-c", WRITER, str(world.spool)]
            writer = subprocess.Popen(words, cwd=house, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(writer)
            stack.callback(writer.kill)
            writers.append(writer)
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.close()
        while any(writer.poll() is None for writer in writers):
            done = drain(str(world.file))
            assert done is not None
            assert done.skipped == 0
            drained += done.sent
        for writer in writers:
            assert writer.stdout is not None
            ids += writer.stdout.read().split()
            assert writer.wait() == 0
    last = drain(str(world.file))
    assert last is not None
    assert len(ids) == drained + last.sent == 1200
    assert sorted(arrived(world)) == sorted(ids)
    order = {name: at for at, name in enumerate(arrived(world))}
    for start in range(0, 1200, 150):
        places = [order[name] for name in ids[start : start + 150]]
        assert places == sorted(places), "each writer's events stay in their order"


@pytest.mark.parametrize("cut", [1, 40, 3000])
def test_a_record_that_a_crash_cut_off_is_skipped_and_counted_and_costs_no_other(world: World, cut: int) -> None:
    first = fill(world, 2)
    size = world.spool.stat().st_size
    append(world.spool, "events", ["id", event_id(), "body", b"y" * 4000])
    os.truncate(world.spool, size + cut)
    assert spool_status(world.spool).records == 2
    assert drain(str(world.file)) == Drained(2, 1)
    assert spool_status(world.spool) == SpoolStatus(damaged=1), "it did fit"
    fill(world, 1)
    size = world.spool.stat().st_size
    append(world.spool, "events", ["id", event_id(), "body", b"y" * 4000])
    os.truncate(world.spool, size + cut)
    fill(world, 2)
    assert drain(str(world.file)) == Drained(3, 1)
    assert arrived(world)[:2] == first
    assert len(arrived(world)) == 5


@pytest.mark.parametrize(
    "junk", [b"*3\r\n$6\r\nevents\r\n$2\r\nid\r\n$4\r\na b!\r\n", b"*1\r\n$8\r\nFLUSHALL\r\n", b"\0" * 99]
)
def test_what_is_no_record_is_never_sent(world: World, junk: bytes) -> None:
    fill(world, 1)
    with world.spool.open("ab") as file:
        file.write(junk)
    ids = fill(world, 1)
    assert drain(str(world.file)) == Drained(2, 1)
    assert arrived(world)[-1:] == ids


def test_a_full_spool_drops_what_is_new_and_counts_it(world: World) -> None:
    ids = fill(world, 1)
    kept = world.spool.read_bytes()
    os.truncate(world.spool, shim.SPOOL_LIMIT)
    for _ in range(12):
        assert not append(world.spool, "events", ["id", event_id(), "body", b""])
    world.use(RedisServer(kind="unix", address="/nowhere/s"))
    assert world.hook(event="PostToolUse").exit_code == 0
    assert world.spool.stat().st_size == shim.SPOOL_LIMIT
    assert (world.spool.parent / "waiting.dropped").read_text() == "13\n"
    world.spool.write_bytes(kept)
    status = spool_status(world.spool)
    assert status == SpoolStatus(1, len(kept), 13, int(ids[0][1:13], 16))


FULL_DISK = """
import errno, os, sys
from bus.shim.spool import append, spool_status
spool, records = sys.argv[1] + "/waiting", 0
while append(spool, "events", ["id", f"e{records}", "body", b"x" * 3000]):
    records += 1
assert records, "there was room"
try:
    with open(sys.argv[1] + "/filler", "wb", 0) as file:
        while True:
            file.write(b"x" * 512)
except OSError as error:
    assert error.errno == errno.ENOSPC
for _ in range(4):
    assert not append(spool, "events", ["id", "more", "body", b"x" * 3000])
status = spool_status(spool)
assert (status.records, status.dropped) == (records, 5), status
assert os.path.getsize(spool + ".dropped.full"), os.listdir(sys.argv[1])
"""


def test_a_disk_that_is_really_full_keeps_what_it_has_and_the_count_of_what_it_could_not(tmp_path: Path) -> None:
    words = ["unshare", "--map-root-user", "--mount", "/bin/sh", "-c"]
    mount = 'mount -t tmpfs -o size=64k none "$1"'
    try:
        ours = subprocess.run([*words, mount, "sh", tmp_path], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        ours = False
    if not ours:
        pytest.skip("this system does not allow a mount in a namespace of its own, so there is no small disk to fill")
    run = f'{mount} && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        [*words, run, "sh", tmp_path, sys.executable, FULL_DISK],
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_lock_that_is_never_free_costs_the_time_given_and_counts_as_dropped(world: World) -> None:
    fill(world, 1)
    with world.spool.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        start = time.monotonic()
        assert not append(world.spool, "events", ["id", event_id(), "body", b""], wait_s=0.2)
        assert 0.2 <= time.monotonic() - start < at_most(5)
    assert spool_status(world.spool)[:3:2] == (1, 1)


def test_a_symbolic_link_in_its_place_is_not_followed(world: World, tmp_path: Path) -> None:
    world.spool.parent.mkdir()
    world.spool.symlink_to(tmp_path / "elsewhere")
    assert not append(world.spool, "events", ["id", event_id(), "body", b""])
    assert not (tmp_path / "elsewhere").exists()


def test_without_an_answer_file_the_drainer_says_so(world: World) -> None:
    world.file.unlink()
    assert main([str(world.file)]) == 3
    assert main([]) == 3
