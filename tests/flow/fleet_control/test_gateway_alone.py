"""A gateway denies by the stops that it has read, where no evaluator answers (X-12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.fleet_control.conftest import command_beside
from tests.flow.fleet_control.test_stop import call
from tests.support.fleet import fleet
from tests.support.gateway import start_gateway
from tests.support.waiting import wait_until
from workers.fleet_control.stops import lift_stops, place_stop

pytestmark = [pytest.mark.flow, pytest.mark.req("X-12")]


def test_it_denies_what_the_stop_fits_in_the_form_of_each_caller(tmp_path: Path) -> None:
    where, reason = "event.session == 's2'", "nobody else can say so"
    with fleet(tmp_path) as world:
        gateway = start_gateway(world)
        with gateway.unix() as client:
            path = "/v1/hooks/claude/PreToolUse"
            assert "permissionDecision" not in client.post(path, json=call(session_id="s2")).text
            world.ask(lambda connections: place_stop(connections, world.keys, by="ana", where=where, reason=reason))
            wait_until(lambda: reason in client.post(path, json=call(session_id="s2")).text, "it has read the stop")
            denied = client.post(path, json=call(session_id="s2"))
            assert denied.json()["hookSpecificOutput"]["permissionDecision"] == "deny"
            assert "no evaluator" in denied.headers["Fleethook-Fallback"]
            assert "permissionDecision" not in client.post(path, json=call()).text
            assert reason in client.post(path, content=b"{").text, "what cannot be read counts as a fit"
            assert reason not in client.post("/v1/hooks/claude/Stop", json={"session_id": "s2"}).text
            event = {"type": "tool:pre_execute", "tool": "bash", "session": "s2"}
            assert client.post("/v1/requests", json=event).json()["decision"] == "deny"
            assert client.post("/v1/requests", json=event | {"session": "s1"}).json()["fallback"]
            said = command_beside(world, tmp_path)("stop", "--where", "event.session == 's3'")
            assert "denied as soon as an evaluator runs" in said.err, said.err
            assert "No evaluator runs" in said.err
            world.ask(lambda connections: lift_stops(connections, world.keys, by="ana"))
            wait_until(lambda: reason not in client.post(path, json=call(session_id="s2")).text, "it was lifted")
