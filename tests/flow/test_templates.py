"""Every template, installed by its command, under a fleet: with git, ruff, mypy, a receiver, a notification program, SQLite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli_kit import fleethook_in
from tests.support.beside import beside
from tests.support.fleet import HOST, Agent, Fleet, fleet
from tests.support.receivers import Receiver, receiving
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

TEMPLATES = ("audit-log", "code-guardian", "desktop-notification", "git-auto-commit", "memory", "slack")
GOES_ON = "  - {id: goes-on, on: agent:stop, when: event.data.again == true, rule: {reason: Go on.}}\n"
SESSIONS = 6
PUBLIC = "https://fleet.example"
KEY = "ghp_" + "aB3dE6gH9j" * 3 + "kLmNoP"


class Place(NamedTuple):
    """A fleet with every template installed, an agent, and what the templates reach."""

    world: Fleet
    agent: Agent
    repository: Path
    told: Path
    """The arguments that the notification program got, each with a line of its own."""
    receiver: Receiver

    def hook(self, native: str, **payload: Any) -> dict[str, Any]:
        """What the agent gets back for an event in the repository."""
        whole = {"session_id": "s1", "cwd": str(self.repository), "hook_event_name": native, **payload}
        got = self.agent.hook(native, whole)
        assert got.exit_code == 0, got.stderr
        answer: dict[str, Any] = json.loads(got.stdout or b"{}")
        return answer

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.repository, capture_output=True, text=True, check=True)
        return done.stdout.strip()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("templates")
    programs, told, repository = folder / "programs", folder / "told", folder / "a  repo'sitory"
    programs.mkdir()
    program = programs / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" END >> "{told}"\n')
    program.chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    with beside(receiving) as receiver, fleet(folder) as world:
        config = world.places.config
        config.mkdir(parents=True, exist_ok=True)
        file = config / "fleethook.yaml"
        file.write_text(f"network: {{allow: ['127.0.0.1:{receiver.port}']}}\n")
        for name in TEMPLATES:
            more = ["--url", receiver.url("/slack")] if name == "slack" else []
            environment = {**world.environment, "FLEETHOOK_TEST_CONFIRMS": "1"}
            done = fleethook_in(environment, folder, "hooks", "templates", "install", name, "--yes", *more)
            assert done.code == 0, done.err
        (world.home / ".gitconfig").write_text("[user]\n name = A\n email = a@example.com\n")
        repository.mkdir()
        (repository / "old.py").write_text("OLD = 1\n")
        for command in ("init -q -b main", "add .", "-c user.name=A -c user.email=a@b commit -qm first"):
            subprocess.run(["git", *command.split()], cwd=repository, check=True)
        text = file.read_text().replace("checks: [ruff]", "checks: [ruff, mypy]")
        file.write_text(text.replace("hooks:\n", f"hooks:\n{GOES_ON}", 1))
        world.start("evaluator", "dispatcher", "carrier", PATH=path, FLEETHOOK_PUBLIC_URL=PUBLIC)
        yield Place(world, world.agent(), repository, told, receiver)


@pytest.mark.req("G-21", "G-14")
def test_code_guardian_mends_refuses_and_reports(place: Place) -> None:
    def write(content: str, name: str = "new ünïcode $(touch owned).py") -> dict[str, Any]:
        given = {"file_path": str(place.repository / name), "content": content}
        answer = place.hook("PreToolUse", tool_name="Write", tool_input=given)
        found: dict[str, Any] = answer.get("hookSpecificOutput", {})
        return found

    assert "permissionDecision" not in write("VALUE: int = 1\n")
    mended = write("import os\n\nVALUE: int = 1\n")
    assert mended["updatedInput"]["content"].strip() == "VALUE: int = 1", "ruff takes out the unused import"
    refused = write("print(undefined_name)\n")
    assert (refused["permissionDecision"], "F821" in refused["permissionDecisionReason"]) == ("deny", True)
    refused = write("def f(:\n")
    assert refused["permissionDecision"] == "deny", "it is no Python"
    refused = write('VALUE: int = "text"\n')
    assert "error: Incompatible types" in refused["permissionDecisionReason"], "mypy was asked"
    assert not (place.repository / "owned").exists(), "a file's name is no command"
    assert "permissionDecision" not in write("print(undefined_name)\n", "notes.txt")

    edited = place.repository / "old.py"
    edited.write_text("import os\n\nOLD = undefined_name\n")
    edit = {"file_path": str(edited), "old_string": "1", "new_string": "undefined_name"}
    told = place.hook("PostToolUse", tool_name="Edit", tool_input=edit, tool_response={"success": True})
    assert "F821" in told["hookSpecificOutput"]["additionalContext"]
    assert "import os" not in edited.read_text(), "what ruff can mend was mended in the file"


@pytest.mark.req("F-14")
def test_what_an_agent_writes_is_committed_logged_and_told(place: Place) -> None:
    name = "--a 'hostile' $(touch owned)\tñ.txt"
    path = place.repository / name
    path.write_text("new")
    given = {"file_path": str(path), "content": "new"}
    place.hook("PostToolUse", tool_name="Write", tool_input=given, tool_response={"success": True})
    wait_until(lambda: place.git("log", "-1", "--format=%s").startswith("claude: write --a"), "it is committed")
    shown = place.git("-c", "core.quotePath=false", "show", "--name-only", "--format=", "-z").strip("\0")
    assert shown == name

    assert place.hook("Stop", again=True)["decision"] == "block"
    text = "$(touch owned) `touch owned` \"; touch owned; ' \\ ünï"
    place.hook("Notification", message=text, notification_type="permission_prompt")
    wait_until(lambda: place.told.exists() and "END" in place.told.read_text(), "the desktop is told")
    assert place.told.read_text().splitlines()[:4] == ["-a", "Fleethook", "--", "claude"]
    assert str(place.repository) in place.told.read_text()
    assert "has finished" not in place.told.read_text(), "an agent whose stop was refused goes on"
    place.hook("Stop", again=False)
    wait_until(lambda: "has finished" in place.told.read_text(), "the desktop is told that it has finished")
    assert not (place.repository / "owned").exists(), "what an event holds is no command"

    wait_until(lambda: any(got.path == "/slack" for got in place.receiver.got), "Slack is told")
    body = next(got.json for got in place.receiver.got if got.path == "/slack")
    assert {"text", "blocks"} <= set(body), body

    log = place.world.home / ".local/state/fleethook/audit.jsonl"
    wait_until(lambda: log.exists() and name in _written(log), "the audit log has the call")


def _written(log: Path) -> list[str]:
    """The names of the files that agents wrote, as the audit log has them; half a line is not there yet."""
    whole = [line for line in log.read_text().split("\n")[:-1] if line]
    return [Path(str(json.loads(line).get("input", {}).get("path", ""))).name for line in whole]


@pytest.mark.req("G-22", "F-14")
def test_slack_is_told_what_was_refused_by_which_rule_and_why(place: Place) -> None:
    """Whatever the agent wrote: no secret, no mention and no link of its making; then a failed tool, and the session's end."""
    path = f"{place.repository}/<!channel> <https://evil.example|safe> & {KEY}.py"
    given = {"file_path": path, "content": "print(undefined_name)\n"}
    place.hook("PreToolUse", session_id="told", tool_name="Write", tool_input=given)
    error = f"<@U1> token {KEY} was refused"
    place.hook("PostToolUseFailure", session_id="told", tool_name="Bash", tool_input={"command": "x"}, error=error)
    place.hook("SessionEnd", session_id="told", reason="logout")

    def told() -> dict[str, Any]:
        bodies = [got.json for got in place.receiver.got if got.path == "/slack" and b"Session: told" in got.body]
        return {body["blocks"][0]["text"]["text"]: body for body in bodies}

    wanted = {"write denied", "bash failed", "A session ended"}
    wait_until(lambda: set(told()) == wanted, "Slack is told of all three")
    denied = told()["write denied"]
    _, why, what, facts, actions, context = denied["blocks"]
    assert "F821" in why["text"]["text"], "why, in the hook's words"
    assert "&lt;!channel&gt; &lt;https://evil.example|safe&gt; &amp; " in what["text"]["text"]
    assert [one["text"] for one in facts["fields"]] == [
        "Session: told",
        "Agent: claude",
        "Tool: write",
        f"Host: {HOST}",
        f"Directory: {' '.join(str(place.repository).split())}",
        "Decision: deny",
        "Hook: code-guardian_check_before_write",
    ]
    (button,) = actions["elements"]
    assert button["url"].startswith(f"{PUBLIC}/#/events/")
    event = button["url"].rpartition("/")[2]
    assert context["elements"][0]["text"].startswith(f"fleethook events show {event} ")
    shown = json.loads(fleethook_in(place.world.environment, place.repository, "events", "show", event, "--json").out)
    assert (shown["id"], shown["session"]) == (event, "told"), "the link and the command lead to the event"
    assert "was refused" in told()["bash failed"]["blocks"][1]["text"]["text"]
    for body in told().values():
        raw = json.dumps(body)
        assert KEY not in raw
        assert not {"<", ">"} & set(raw), "Slack finds no mention or link in it"
        assert (body["mrkdwn"], body["parse"], body["link_names"]) == (False, "none", False)
        assert len(raw) < 10_000


@pytest.mark.req("I-11", "I-05")
def test_the_memory_gives_back_what_sessions_noted(place: Place) -> None:
    def context(native: str, **more: Any) -> str:
        return str(place.hook(native, **more).get("hookSpecificOutput", {}).get("additionalContext", ""))

    assert "Noted" in context("UserPromptSubmit", prompt="remember: the deploy needs the VPN, sagt Jürgen 🚀")
    assert "noted before" in context("UserPromptSubmit", prompt="remember: the deploy needs the VPN, sagt Jürgen 🚀")
    assert "the deploy needs the VPN, sagt Jürgen 🚀" in context("UserPromptSubmit", prompt="How does DEPLOY work?")
    assert context("UserPromptSubmit", prompt="Something else entirely") == ""

    def track(number: int) -> None:
        given = {"file_path": str(place.repository / f"track ed {number}.md"), "old_string": "a", "new_string": "b"}
        more = {"session_id": f"many-{number % 2}", "tool_name": "Edit", "tool_input": given}
        place.hook("PostToolUse", **more, tool_response={"success": True})

    with ThreadPoolExecutor(SESSIONS) as pool:
        list(pool.map(track, range(SESSIONS)))
    place.hook("PreCompact", session_id="many-1", trigger="auto", custom_instructions="")
    told = context("SessionStart", session_id="new", source="compact")
    assert "session many-1" in told, told
    assert "The branch was main." in told
    assert {f"track ed {number}.md" in told for number in range(SESSIONS)} == {True}, told
    assert "Jürgen" in told
