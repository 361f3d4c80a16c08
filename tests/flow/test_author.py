"""An author's way with real processes: a new hook, its tests, trust, a live deny, and what the hook got."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, fleet
from tests.support.keyboard import type_command
from tests.support.waiting import wait_until
from workers.records.id_prefixes import whole_event_id

pytestmark = [pytest.mark.flow, pytest.mark.req("F-11", "I-09")]

COMMAND = "echo no-deploy"
"""What a new hook denies until its author changes it."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Fleet]:
    """A machine whose user has a guard."""
    with fleet(tmp_path) as one:
        one.places.config.mkdir(parents=True, exist_ok=True)
        (one.places.config / "fleethook.yaml").write_text("guards: {destructive-commands: true}\n")
        one.start("evaluator", "host")
        yield one


@pytest.fixture
def project(world: Fleet) -> Path:
    """A repository of the person whose machine it is."""
    folder = world.folder / "shop"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


class Person:
    """What a person types in the project, and what is on the screen."""

    def __init__(self, world: Fleet, folder: Path) -> None:
        self._folder = folder
        self._environment = {**world.environment, "FLEETHOOK_REDIS_URL": world.url("admin")}

    def types(self, *words: str, script: Sequence[tuple[str, str]] = (), columns: int = 100) -> tuple[int, str]:
        return type_command(*words, folder=self._folder, environment=self._environment, script=script, columns=columns)


def asked(world: Fleet, project: Path, command: str) -> dict[str, Any]:
    """What Claude Code gets from its installed hook before it runs a command in the project; empty for no opinion."""
    payload = {
        "session_id": "s-1",
        "cwd": str(project),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": f"toolu_{secrets.token_hex(8)}",  # the same call again gets the same verdict again
    }
    answer = world.agent().hook("PreToolUse", payload)
    assert answer.exit_code == 0, answer.stderr
    return dict(json.loads(answer.stdout or b"{}"))


def test_from_a_new_hook_to_a_live_deny_and_what_it_got(world: Fleet, project: Path) -> None:
    """Issue 11, "For authors": `hooks new`, `hooks test`, `hooks trust`, an agent's call, `hooks show-input`."""
    person = Person(world, project)
    questions = [
        ("Name of the hook", "no-deploy\n"),
        ("Kind (rule, command, python, http) [rule]", "comand\n"),
        ("Kind (rule, command, python, http) [rule]", "command\n"),
        ("Event [tool:pre_execute:bash]", "\n"),
        ("Write this into", "y\n"),
    ]
    code, screen = person.types("hooks", "new", script=questions)
    assert code == 0, screen
    assert "fleethook hooks trust  lets the project's hooks run on this machine" in screen
    script = project / "hooks" / "no-deploy.sh"
    script.write_text(script.read_text().replace("event=$(cat)", 'event=$(tee "$0.stdin"); env > "$0.env"'))

    code, screen = person.types("hooks", "test", columns=80)
    assert (code, "2 passed" in screen) == (0, True), screen
    assert asked(world, project, COMMAND) == {}, "what nobody has trusted does not run"
    code, screen = person.types("hooks", "trust", script=[("[y/N]: ", "y\n")])
    assert (code, "is trusted: 1 hook from now on" in screen) == (0, True), screen

    wait_until(lambda: asked(world, project, COMMAND), "the workers have seen the trust")
    decided = asked(world, project, COMMAND)["hookSpecificOutput"]
    assert decided["permissionDecision"] == "deny"
    assert "Say here why" in decided["permissionDecisionReason"]
    assert asked(world, project, "git status") == {}

    (short,) = re.findall(r"fleethook trace (\w+)", decided["permissionDecisionReason"])[:1]
    event = world.ask(lambda connections: whole_event_id(connections, world.keys, short))
    asked(world, project, COMMAND)  # the script's files are of a later call than the event that is shown
    later = world.events()[0].id
    assert later != event
    code, shown = person.types("hooks", "show-input", later[6:16], "--stdin-only")
    assert code == 0, shown
    assert shown.encode() == (project / "hooks" / "no-deploy.sh.stdin").read_bytes(), "the exact bytes"
    code, shown = person.types("hooks", "show-input", later, "--json")
    (given,) = json.loads(shown)["inputs"]
    got = dict(line.split("=", 1) for line in Path(f"{script}.env").read_text().splitlines() if "=" in line)
    own = {name: value for name, value in given["environment"].items() if name not in given["inherited"]}
    assert own
    assert {name: got.get(name) for name in own} == own, "the exact variables of the hook and the event"
    assert given["ran"]["decision"] == "deny"
    assert Path(given["directory"]) == project


def test_no_is_an_answer_to_a_new_hook(world: Fleet, project: Path) -> None:
    """The diff is shown before anything is written, and Ctrl-C at a question leaves no file."""
    person = Person(world, project)
    code, screen = person.types("hooks", "new", "tidy", "--kind", "rule", script=[("Event [", "\n"), ("[y/N]", "n\n")])
    assert code == 0
    assert "\x1b[32m+  - id: tidy" in screen
    assert screen.endswith("nothing was changed\n")
    code, _ = person.types("hooks", "new", "tidy", script=[("Kind (", "\x04")])
    assert code == 130
    assert [path.name for path in project.iterdir()] == [".git"]
