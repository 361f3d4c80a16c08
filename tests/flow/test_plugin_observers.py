"""Plugins observe every event with what came of it: announced events, held calls as they were decided, calls under a stop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from tests.support.fleet import HOST, fleet
from tests.support.held import HOOKS, Held
from tests.support.plugins import enabled, plugin
from tests.support.waiting import wait_until
from workers.fleet_control.stops import lift_stops, place_stop

pytestmark = [pytest.mark.flow, pytest.mark.req("G-11", "G-12")]

OBSERVES = """
@hook_handler(HookEventType.BEFORE_TOOL, priority=60)
def saw(self, event, core_response):
    self.note(event.data["tool_input"]["command"], core_response.decision if core_response else None)

@hook_handler(HookEventType.SESSION_START)
def began(self, event):
    self.note("session_start", event.session_id)

@hook_handler(HookEventType.NOTIFICATION, priority=10)
def announced(self, event):
    self.note("notification", event.data["message"])

def note(self, what, came):
    with open(LOG, "a") as file:
        file.write(f"{what}: {came}\\n")
"""


def test_they_see_announced_events_decided_questions_and_stopped_calls(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def seen() -> list[str]:
        return sorted(log.read_text(encoding="utf-8").splitlines()) if log.exists() else []

    with fleet(tmp_path, hooks=HOOKS) as world:
        config = world.places.config
        config.mkdir(parents=True, exist_ok=True)
        enabled(config, {"tested": plugin(OBSERVES, head=f"LOG = {str(log)!r}")})
        world.start("evaluator", "dispatcher")

        async def publish(*events: Event) -> None:
            async with world.bus() as bus:
                for event in events:
                    await bus.publish(event)

        here: dict[str, Any] = {"host": HOST, "source": "claude", "session": "s"}
        asyncio.run(
            publish(
                Event(type="session:start", **here),
                Event(type="notification", data={"message": "two"}, **here),
            )
        )
        wait_until(lambda: seen() == ["notification: two", "session_start: s"], "announced events were observed")
        log.unlink()

        held = Held(world)
        calls = [held.call("deploy 1"), held.call("deploy 2")]
        for number, verb in ((1, "approve"), (2, "deny")):
            held.answer(held.question(f"deploy {number}"), verb)  # type: ignore[arg-type]
        assert [call.result().decision for call in calls] == ["allow", "deny"]
        wait_until(lambda: seen() == ["deploy 1: allow", "deploy 2: deny"], "each was seen once, as it was decided")
        log.unlink()

        world.ask(lambda connections: place_stop(connections, world.keys, by="ana", reason="a fire drill"))
        denied = held.call("ls").result()
        assert (denied.decision, bool(denied.stop)) == ("deny", True)
        wait_until(lambda: seen() == ["ls: deny"], "a call under a stop was observed")
        world.ask(lambda connections: lift_stops(connections, world.keys, by="ana"))
