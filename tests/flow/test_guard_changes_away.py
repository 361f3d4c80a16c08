"""Guards that were weakened while nobody looked: no worker ran, or the server was away (issue 10, A7 and B1)."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooksets.guard_changes import read_changes
from bus.hooksets.last_good import read_kept
from tests.cli_kit import fleethook_in
from tests.support.fleet import Fleet, fleet
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-09", "X-10")]

BOTH = "version: 1\nguards: {destructive-commands: true, fleethook-itself: true}\n"
WEAKER = "version: 1\nguards: {destructive-commands: true}\n"
NONE = "version: 1\nguards: {destructive-commands: false}\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path) as one:
        user_file(one).write_text(BOTH)
        yield one


def user_file(world: Fleet) -> Path:
    return world.places.config / "fleethook.yaml"


def command(world: Fleet, *words: str) -> str:
    """What a command prints that a person runs on that machine."""
    done = fleethook_in({**world.environment, "FLEETHOOK_TEST_CONFIRMS": "1"}, world.folder, *words)
    assert done.code in {0, 1}, done.err  # `status` says 1 where not all kinds of workers run
    return done.out


def told(world: Fleet) -> list[Event]:
    """The `guard:changed` of the stream, oldest first."""
    return [seen.event for seen in reversed(world.events()) if seen.event.type == "guard:changed"]


def listed(world: Fleet) -> list[dict[str, Any]]:
    """What `status` shows of them, newest first."""
    found: list[dict[str, Any]] = json.loads(command(world, "status", "--json"))["weakened"]
    return found


def end(world: Fleet) -> None:
    for one in world.workers:
        one.process.terminate()
        one.process.wait(PATIENCE)


def test_a_file_that_was_weakened_while_no_worker_ran_is_announced_once(world: Fleet) -> None:
    """Not once per worker, and also where a command has looked at the file meanwhile."""
    seen = world.places.last_good / "reported"
    world.start("evaluator")
    wait_until(lambda: read_kept(seen, user_file(world)) is not None, "the evaluator knows what is in force")
    end(world)
    user_file(world).write_text(WEAKER)
    assert "destructive-commands" in command(world, "hooks", "list")
    world.start("evaluator", "evaluator")
    wait_until(lambda: told(world), "the change is announced")
    (event,) = told(world)
    assert (event.data["how"], event.data["where"]) == ("file", str(user_file(world)))
    assert {loss["guard"].partition("_")[0] for loss in event.data["losses"]} == {"fleethook-itself"}
    assert {loss["how"] for loss in event.data["losses"]} == {"removed"}

    user_file(world).unlink()  # what both notice: whoever had more to say of the first change has said it
    wait_until(lambda: len(told(world)) > 1, "that the file is gone is announced")
    first, second = told(world)
    assert {loss["guard"].partition("_")[0] for loss in second.data["losses"]} == {"destructive-commands"}
    assert first.id == event.id
    assert [one["how"] for one in listed(world)] == ["file", "file"]


def test_a_change_that_was_spooled_is_in_the_list_of_status(world: Fleet) -> None:
    """It says who made it, stands there once, and no worker that notices the file announces it beside it."""
    world.start("evaluator")
    wait_until(lambda: read_kept(world.places.last_good / "reported", user_file(world)) is not None, "it is known")
    end(world)
    world.server.kill()
    command(world, "guards", "disable", "fleethook-itself", "--yes")
    world.server.start()
    world.start("dispatcher", "evaluator")
    wait_until(
        lambda: (
            [one.by for one in world.ask(lambda connections: read_changes(connections, world.keys))]
            == [getpass.getuser()]
        ),
        "the list says who it was",
    )
    (change,) = listed(world)
    assert (change["how"], change["where"]) == ("fleethook guards disable", str(user_file(world)))
    assert {how for _, how in change["losses"]} == {"removed"}


def test_a_change_that_a_worker_announced_before_the_spool_was_drained_is_one_event(world: Fleet) -> None:
    """The command's event goes, and `status` has the user's name from it."""
    world.start("evaluator")
    wait_until(lambda: read_kept(world.places.last_good / "reported", user_file(world)) is not None, "it is known")
    end(world)
    world.server.kill()
    command(world, "guards", "disable", "fleethook-itself", "--yes")
    world.server.start()
    world.start("evaluator")
    wait_until(lambda: "file" in {event.data["how"] for event in told(world)}, "the worker announces it")
    world.start("dispatcher")
    wait_until(
        lambda: [change.get("by") for change in listed(world)] == [getpass.getuser()], "the list says who it was"
    )
    wait_until(lambda: len(told(world)) == 1, "one event tells of it")
    (event,) = told(world)
    assert event.data["how"] == "file"
