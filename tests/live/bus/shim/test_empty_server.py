"""The hook command and a server that comes back without its data, at every moment of a call: no guarded call passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.shim.answer import HookAnswer, pack_answer
from bus.shim.answer_file import read_answer_file, write_answer_file
from tests.live.bus.shim.test_outage import begin, mark
from tests.shim_kit import DENY, FALLBACK, Fields, World, always, connect, running_server, wait_until
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.live, pytest.mark.req("X-06", "X-10"), pytest.mark.usefixtures("each_shim")]


@dataclass
class Servers:
    """A server that a call reaches, and an empty one that takes its place as soon as the first one is killed."""

    world: World
    empty: Any
    """A client of the empty one."""
    _kill: Any = field(repr=False)

    def replace(self) -> None:
        """kill -9 of the first server, and the empty one at its place before anyone can look."""
        there, place = self.world.folder / "empty", self.world.socket
        link = place.with_name("link")
        link.symlink_to(there)
        link.replace(place)
        self._kill()

    def asked(self) -> None:
        """Returns when the call has asked the empty server."""
        wait_until(lambda: calls_of(self.empty, "xadd"))


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    path, there = folder / "s", folder / "empty"
    with running_server(there), connect(there) as empty, running_server(path) as first, connect(path) as client:
        world = World(folder, path, client)
        world.install(deadline_ms=60_000)

        def kill() -> None:
            first.kill()
            first.wait()

        yield Servers(world, empty, kill)


def calls_of(client: Any, command: str) -> int:
    """How often a server was sent this command."""
    return int(client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


def end(asking: Any) -> HookAnswer:
    out, err = asking.communicate(timeout=PATIENCE)
    return HookAnswer(asking.returncode, out, err)


@pytest.mark.parametrize("back", ["at once", "later"])
def test_a_server_replaced_by_an_empty_one_while_a_call_waits(tmp_path: Path, back: str) -> None:
    with servers(tmp_path) as both:
        world = both.world
        world.alive()
        with begin(world) as asking:
            wait_until(lambda: world.entries("requests"))
            if back == "at once":
                with world.evaluator(always(DENY), both.empty) as seen:
                    both.replace()
                    assert end(asking) == DENY
            else:
                both.replace()
                both.asked()
                with world.evaluator(always(DENY), both.empty) as seen:
                    assert end(asking) == DENY
        assert len({request[b"id"] for request in seen}) == 1
        assert not mark(world).exists()
        assert not world.spool.exists()


def test_a_server_replaced_by_an_empty_one_while_a_slow_hook_runs(tmp_path: Path) -> None:
    """The evaluator needs a moment until it says again that the hook runs."""
    with servers(tmp_path) as both:
        world = both.world
        world.install(deadline_ms=1_500)
        known = read_answer_file(world.file)
        slow = [msgspec.structs.replace(line, patience_ms=120_000) for line in known.events]
        write_answer_file(world.file, msgspec.structs.replace(known, events=tuple(slow)))

        def note(client: Any, request: Fields) -> None:
            client.rpush(request[b"reply"] + b":wait", "1")

        def begin_again(request: Fields) -> bytes | None:
            wait_until(lambda: calls_of(both.empty, "blmove") > 2)  # it has looked for the note, which is not there
            note(both.empty, request)
            return pack_answer(DENY)

        world.alive()
        with begin(world) as asking:
            wait_until(lambda: world.entries("requests"))
            note(world.client, world.entries("requests")[0])
            wait_until(lambda: calls_of(world.client, "blmove") > 6)  # one second each two: its deadline is over
            with world.evaluator(begin_again, both.empty) as seen:
                both.replace()
                assert end(asking) == DENY
        assert len({request[b"id"] for request in seen}) == 1


def test_a_call_at_an_empty_server_waits_for_the_evaluators_to_come_back(tmp_path: Path) -> None:
    with servers(tmp_path) as both:
        world = both.world
        both.replace()
        with begin(world) as asking:
            both.asked()
            with world.evaluator(always(DENY), both.empty):
                assert end(asking) == DENY
        assert not mark(world).exists()


def test_a_server_without_a_fleet_costs_the_time_of_an_outage_once_and_keeps_every_event(tmp_path: Path) -> None:
    with servers(tmp_path) as both:
        world, client = both.world, both.world.client
        world.install(deadline_ms=2_000)
        assert world.hook() == FALLBACK
        assert mark(world).read_bytes() == b"0"
        once = calls_of(client, "xadd")
        assert once > 1, "it was asked again"
        assert world.hook() == FALLBACK
        assert mark(world).exists()
        assert [fields[b"fallback"] for fields in world.recorded()] == [b"no evaluator"] * 2
        assert all(b"body" in fields for fields in world.recorded()), "the server has none of the two"
        with world.evaluator(always(DENY)):
            wait_until(lambda: world.hook() == DENY)  # a busy machine may take longer than the mark leaves
        assert not mark(world).exists()


def test_evaluators_are_waited_for_after_an_outage_and_not_where_there_are_none(tmp_path: Path) -> None:
    """The mark says that there was an outage: it stays until an evaluator is there, or was waited for."""
    with servers(tmp_path) as both:
        world = both.world
        world.has_fleet()
        mark(world).parent.mkdir(parents=True)
        mark(world).touch()
        with begin(world) as asking:
            wait_until(lambda: world.entries("requests"))
            with world.evaluator(always(DENY)):
                assert end(asking) == DENY
        assert not mark(world).exists()
        mark(world).touch()
        before = calls_of(world.client, "exists")
        assert world.hook() == FALLBACK
        assert calls_of(world.client, "exists") > before + 1, "it was asked again"
        assert not mark(world).exists()
        before = calls_of(world.client, "exists")
        assert world.hook() == FALLBACK
        assert calls_of(world.client, "exists") == before + 1, "at once"
