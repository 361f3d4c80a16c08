"""Hooks of Claude format that go to the background: their agent goes on at once, and hears later what they had to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, fleet
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("I-04")]


class Session:
    """One session of an agent on a fleet with one hook of Claude's, at Stop, which waits for the file `go`."""

    def __init__(self, world: Fleet, folder: Path, handler: dict[str, Any]) -> None:
        settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", **handler}]}]}}
        (folder / "hooks.json").write_text(json.dumps(settings))
        (world.places.config / "fleethook.yaml").write_text(
            f"import: [{{path: {folder}/hooks.json, dialect: claude}}]\n"
        )
        self._agent, self._folder = world.agent(), folder

    def call(self, event: str, **more: Any) -> str:
        payload = {"hook_event_name": event, "session_id": "s", "cwd": str(self._folder), **more}
        return self._agent.hook(event, payload).stdout.decode()

    def prompt(self) -> str:
        return self.call("UserPromptSubmit", prompt="hello")


def waiting(folder: Path, first: str, last: str) -> str:
    return f"{first} touch {folder}/begun; until [ -e {folder}/go ]; do sleep 0.02; done; {last}"


FREED = "echo '{\"async\": true}';"


@pytest.mark.parametrize(
    ("handler", "first", "last"),
    [
        ({}, FREED, "echo 'the build is red'"),
        ({"async": True}, "", "echo 'the build is red'"),
        ({"async": True}, FREED, """echo '{"systemMessage": "the build is red"}'"""),
        ({"asyncRewake": True}, "", "echo 'the build is red' >&2; exit 2"),
    ],
    ids=["freed", "async", "async and freed", "asyncRewake"],
)
def test_it_frees_its_agent_and_is_heard_at_the_next_event_that_can_carry_it(
    tmp_path: Path, handler: dict[str, Any], first: str, last: str
) -> None:
    with fleet(tmp_path) as world:
        session = Session(world, tmp_path, {**handler, "command": waiting(tmp_path, first, last)})
        world.start("evaluator", *(("dispatcher", "carrier") if handler else ()))
        session.call("Stop")  # it comes back while the hook waits for us
        wait_until((tmp_path / "begun").exists, "the hook runs")
        assert "the build is red" not in session.prompt()
        (tmp_path / "go").touch()
        heard = ""

        def hears() -> bool:
            nonlocal heard
            heard = session.prompt()
            return "the build is red" in heard

        wait_until(hears, "it is heard")
        assert "async" not in heard
        assert "the build is red" not in session.prompt(), "once"
        assert not world.dead()


def test_a_worker_that_stops_waits_for_a_freed_hook_and_keeps_what_it_says(tmp_path: Path) -> None:
    with fleet(tmp_path) as world:
        session = Session(world, tmp_path, {"command": waiting(tmp_path, FREED, "echo 'the build is red'")})
        (evaluator,) = world.start("evaluator")
        session.call("Stop")
        wait_until((tmp_path / "begun").exists, "the hook runs")
        evaluator.process.terminate()
        wait_until(lambda: evaluator.said("1 hooks in the background"), "it waits")
        (tmp_path / "go").touch()
        assert evaluator.process.wait(PATIENCE) == 0
        world.start("evaluator")
        wait_until(lambda: "the build is red" in session.prompt(), "it is heard")
