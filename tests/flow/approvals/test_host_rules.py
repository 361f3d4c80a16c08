"""The rules of the agent's own host are evaluated again at a yes, and its other hooks are not run again (X-02, X-03)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.system.directories import directories
from tests.support.fleet import Fleet
from tests.support.held import Held
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-02", "X-03")]

FAR = "far-host"


def test_a_rule_of_another_host_overtakes_a_yes(world: Fleet, tmp_path: Path) -> None:
    held = Held(world)
    home, runs = tmp_path / "far", tmp_path / "runs"
    file = directories({"FLEETHOOK_HOME": str(home)}).config / "fleethook.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    counting = f"hooks:\n  - {{id: count, on: tool:pre_execute, command: 'echo $FLEETHOOK_EVENT_ID >> {runs}'}}\n"
    file.write_text(counting)
    (worker,) = world.start("host", FLEETHOOK_HOST=FAR, FLEETHOOK_HOME=str(home), HOME=str(home))
    denied, allowed = held.call("deploy far-barred", host=FAR), held.call("deploy far-fine", host=FAR)
    first, second = held.question("deploy far-barred"), held.question("deploy far-fine")
    barred = "  - {id: no, on: tool:pre_execute, rule: {decision: deny, command: [far-barred], reason: Not here}}\n"
    file.write_text(counting + barred)
    wait_until(
        lambda: held.call("ls far-barred", host=FAR).result(PATIENCE).decision == "deny", "the host has the rule"
    )
    held.answer(first, "approve")
    held.answer(second, "approve")
    verdict = denied.result(PATIENCE)
    assert (verdict.decision, verdict.approval.state) == ("deny", "overtaken")  # type: ignore[union-attr]  # it was held
    assert "by now a rule denies the call. Not here" in verdict.reason
    assert verdict.parts[-1].layer == "user"
    assert allowed.result(PATIENCE).decision == "allow"
    ran = runs.read_text().splitlines()
    assert (ran.count(first.id), ran.count(second.id)) == (1, 1), "commands are not run again"
    assert worker.runs()
