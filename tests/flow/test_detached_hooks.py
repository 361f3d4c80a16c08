"""A hook whose first line is `{"async": true}`: its agent goes on at once, and hears later what it had to say, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import fleet
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("I-04")]


def test_it_frees_its_agent_and_is_heard_at_the_next_event_that_can_carry_it(tmp_path: Path) -> None:
    command = f"echo '{{\"async\": true}}'; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo 'the build is red'"
    settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
    (tmp_path / "hooks.json").write_text(json.dumps(settings))
    with fleet(tmp_path) as world:
        (world.places.config / "fleethook.yaml").write_text(
            f"import: [{{path: {tmp_path}/hooks.json, dialect: claude}}]\n"
        )
        world.start("evaluator")
        agent = world.agent()

        def call(event: str, **more: Any) -> str:
            payload = {"hook_event_name": event, "session_id": "s", "cwd": str(tmp_path), **more}
            return agent.hook(event, payload).stdout.decode()

        call("Stop")  # it comes back while the hook waits for us
        assert "the build is red" not in call("UserPromptSubmit", prompt="hello")
        (tmp_path / "go").touch()
        wait_until(lambda: "the build is red" in call("UserPromptSubmit", prompt="on"), "it is heard")
        assert "the build is red" not in call("UserPromptSubmit", prompt="again"), "once"
