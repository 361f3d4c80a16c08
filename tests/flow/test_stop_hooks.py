"""Hooks that each want something done before an agent stops: the agent is told all of it, at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fleet import HOST, fleet

pytestmark = [pytest.mark.flow, pytest.mark.req("I-03", "B-02")]


def stops(*texts: str) -> str:
    """A hook file of Claude Code's that holds up a stop."""
    handlers = [{"type": "command", "command": f"echo '{text}' >&2; exit 2"} for text in texts]
    return json.dumps({"hooks": {"Stop": [{"hooks": handlers}]}})


def native(name: str) -> str:
    """A hook of ours that holds up a stop."""
    command = f"""echo '{{"decision": "deny", "reason": "{name}"}}'"""
    return json.dumps({"id": name.replace(" ", "-"), "on": "agent:stop", "command": command})


@pytest.mark.parametrize("workers", [("evaluator",), ("evaluator", "host")], ids=["here", "on its own host"])
def test_the_reasons_of_all_formats_and_layers_reach_the_model(tmp_path: Path, workers: tuple[str, ...]) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "hooks.json").write_text(stops("of the project"))
    (project / "fleethook.yaml").write_text(
        f"hooks: [{native('project native')}]\nimport: [{{path: hooks.json, dialect: claude}}]\n"
    )
    (tmp_path / "mine.json").write_text(stops("first of mine", "second of mine"))
    with fleet(tmp_path, hooks=f"hooks: [{native('fleet native')}]") as world:
        (world.places.config / "fleethook.yaml").write_text(
            f"hooks: [{native('user native')}]\nimport: [{{path: {tmp_path}/mine.json, dialect: claude}}]\n"
        )
        trust = [sys.executable, "-m", "workers", "hooks", "trust", "--yes"]
        subprocess.run(trust, cwd=project, env=world.environment, check=True, capture_output=True)
        elsewhere = {"FLEETHOOK_HOST": "elsewhere"} if len(workers) > 1 else {}
        world.start("evaluator", **elsewhere)
        if elsewhere:
            world.start("host", FLEETHOOK_HOST=HOST)
        payload = {"hook_event_name": "Stop", "session_id": "s", "cwd": str(project), "stop_hook_active": False}
        told = json.loads(world.agent().hook("Stop", payload).stdout)
    assert told["decision"] == "block"
    wanted = ["fleet native", "user native", "first of mine", "second of mine", "project native", "of the project"]
    reason = told["reason"].partition("[fleethook")[0]
    assert [line.strip().rstrip(".") for line in reason.splitlines() if line.strip()] == wanted
