"""What waited on a disk while the server was away: the workers of that machine send it on, in order, each once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bus.events import Event
from bus.shim.answer_file import program_spool, read_answer_file, write_answer_file
from bus.shim.spool import append, spool_status
from bus.system.directories import directories
from tests.support.fleet import Fleet, fleet
from tests.support.waiting import wait_until
from workers.admin.agent_setup import empty_spool, spool_without_agent

pytestmark = [pytest.mark.flow, pytest.mark.req("X-06")]

HOOKS = """
hooks:
  - {id: seen, on: "tool:pre_execute", blocking: false, command: "true"}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, hooks=HOOKS) as one:
        yield one


def fill(spool: Path, count: int, start: int = 0) -> list[str]:
    ids = [f"e{int(time.time() * 1000):012x}{number + start:020x}" for number in range(count)]
    for number, name in enumerate(ids):
        body = b"\xc4" + bytes([len(raw := json.dumps({"session_id": "spooled"}).encode())]) + raw
        fallback = ["fallback", "redis away"] if number % 2 else []
        fields = ["id", name, "source", "claude", "event", "PreToolUse" if number % 2 else "Notification"]
        assert append(spool, "events", [*fields, "host", "h", *fallback, "body", body])
    return ids


def test_the_workers_of_a_machine_drain_the_spool_of_every_agent_in_order(world: Fleet) -> None:
    claude = world.agent().places
    spools = {}
    for name in ("claude", "codex"):
        answers = read_answer_file(claude.answer_file("claude"))
        spools[name] = world.places.spool(name)
        write_answer_file(
            world.places.answer_file(name),
            type(answers)(agent=name, server=answers.server, prefix=answers.prefix, host="h", spool=str(spools[name])),
        )
    ids = {name: fill(path, 150, 1000 * number) for number, (name, path) in enumerate(spools.items())}
    spools["claude"].with_name("claude.away").touch()
    strange = world.places.spool("copilot")  # nobody knows whose server it is for
    fill(strange, 1, 5000)
    world.start("evaluator", "evaluator", "dispatcher", "host")
    for path in spools.values():
        wait_until(lambda path=path: not path.exists() and not spool_status(path).records, f"{path} is sent on")  # type: ignore[misc]  # bound at once
    wait_until(lambda: not spools["claude"].with_name("claude.away").exists(), "the mark is taken away")
    arrived = [seen.id for seen in reversed(world.events())]
    for sent in ids.values():
        assert [name for name in arrived if name in sent] == sent, "in the order of writing, each once"
    assert all(seen.fallback_reason == "redis away" for seen in world.events() if seen.event.type == "tool:pre_execute")
    assert spool_status(strange).records == 1


def test_a_program_that_spools_is_drained_by_itself_and_by_the_workers(world: Fleet) -> None:
    spool = world.folder / "mine"
    with world.bus(spool=spool).sync() as bus:
        world.server.kill()
        ids = [bus.publish(Event(type="turn:end", session="own")) for _ in range(3)]
        assert spool_status(spool).records == 3
        world.server.start()
        ids.append(bus.publish(Event(type="turn:end", session="own")))
        assert [seen.id for seen in reversed(world.events(session="own"))] == ids, "what came before goes before"
        assert not spool.exists()

    shared = program_spool(directories({"FLEETHOOK_HOME": str(world.home)}), world.url("agent"), world.keys.prefix)
    with world.bus(spool=shared).sync() as bus:
        world.server.kill()
        last = bus.publish(Event(type="turn:end", session="shared"))
        world.server.start()
    world.start("evaluator")
    wait_until(lambda: [seen.id for seen in world.events(session="shared")] == [last], "the evaluator has sent it on")


def test_what_an_uninstall_could_not_send_is_sent_by_the_workers_once_the_server_is_back(world: Fleet) -> None:
    places = world.agent().places
    answers = read_answer_file(places.answer_file("claude"))
    spool = world.places.spool("claude")
    answers = msgspec.structs.replace(answers, spool=str(spool))
    write_answer_file(world.places.answer_file("claude"), answers)
    ids = fill(spool, 3)
    spool.rename(spool.with_name("claude.draining"))
    ids += fill(spool, 3, 10)
    world.server.kill()
    assert empty_spool(world.places.answer_file("claude"), spool) == 6
    shared = spool_without_agent("claude", world.places)
    world.places.answer_file("claude").unlink()
    assert (shared != spool, spool_status(shared).records) == (True, 6)
    assert sorted(spool.parent.glob("claude*")) == []
    world.server.start()
    world.start("evaluator")
    wait_until(lambda: not shared.exists(), "it is sent on")
    assert [seen.id for seen in reversed(world.events(session="spooled"))] == ids
