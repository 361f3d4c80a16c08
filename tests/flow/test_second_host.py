"""The background hooks of a second host's own files, which run on that host alone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from bus.events import Event
from bus.ids import event_id
from bus.system.directories import directories
from tests.flow.fleet_control.conftest import command_beside
from tests.support.delivering import publish
from tests.support.fleet import fleet
from tests.support.waiting import wait_until

FAR = "far"


@pytest.mark.req("P-11", "X-02")
def test_they_run_there_by_a_carrier_of_that_host_and_status_says_when_none_runs(tmp_path: Path) -> None:
    """A job for any host's carrier was asked for, and only for the hosts of the active dispatcher: they waited for ever."""
    home, ran = tmp_path / "far", tmp_path / "ran"
    places = directories({"FLEETHOOK_HOME": str(home)})
    places.config.mkdir(parents=True, exist_ok=True)
    hook = {"id": "logs", "on": "turn:end", "command": f"echo $FLEETHOOK_HOST >> {ran}", "blocking": False}
    (places.config / "fleethook.yaml").write_text(json.dumps({"hooks": [hook]}))
    there = {"FLEETHOOK_HOME": str(home), "HOME": str(home), "FLEETHOOK_HOST": FAR}
    with fleet(tmp_path / "fleet", "evaluator", "dispatcher", "carrier", hooks="hooks: []") as world:
        status = partial(command_beside(world, tmp_path), "status", "--json")

        def waits() -> bool:
            return any(f"1 delivery waits for a carrier on '{FAR}'" in text for text in status().json["problems"])

        world.start("host", **there)
        event = Event(type="turn:end", source="codex", session="s1", host=FAR, id=event_id())
        world.ask(partial(publish, keys=world.keys, event=event, host=FAR))
        wait_until(waits, "status says that it waits there")
        assert not ran.exists()
        world.start("carrier", **there)
        wait_until(ran.exists, "it ran there")
        wait_until(lambda: not waits(), "status no longer says so")
    assert len(ran.read_text().splitlines()) == 1
