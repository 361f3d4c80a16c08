"""`hooks show-input`: what a command really got, byte for byte (issue 11, "For authors")."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bus.ids import host_name
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, workers
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("X-10", "F-11")

SECRET = "ghp_" + "A1b2C3d4" * 5


@pytest.fixture
def project(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder on an empty fleet."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.chdir(folder)
    return folder


def publish(folder: Path, *hooks: str) -> None:
    """Put these hooks in force for the whole fleet."""
    (folder / "set.yaml").write_text("hooks:\n" + "".join(f"  - {{{hook}}}\n" for hook in hooks))
    result = fleethook("hooks", "apply", "set.yaml", "--yes")
    assert result.code == 0, result.err


def ask(folder: Path, command: str, host: str = "") -> str:
    """Ask about a command line; returns the event's id."""
    event = {
        "type": "tool:pre_execute",
        "tool": "bash",
        "input": {"command": command},
        "cwd": str(folder),
        "host": host or host_name(),
    }
    verdict = fleethook("request", stdin=json.dumps(event)).json
    assert not verdict.get("fallback"), verdict
    return str(verdict["event"])


def test_it_is_what_the_command_got(project: Path, server: Server, keys: Keys, tmp_path: Path) -> None:
    keep = f"cat > {project}/got; env -0 > {project}/env; exit 2"
    part = project / "part"
    publish(
        project,
        f"id: later, on: tool:pre_execute, blocking: false, command: 'cat > {part} && mv {part} {project}/later'",
        f"id: keep, on: tool:pre_execute:bash, command: '{keep}', env: {{MODE: strict, API_TOKEN: {SECRET}}}",
    )
    with workers(server.url, keys, tmp_path / "home"):
        name = ask(project, f"echo {SECRET}")
        wait_until((project / "later").exists, "the hook in the background has run")
    got = (project / "got").read_bytes()
    assert SECRET.encode() in got
    raw = subprocess.run(
        [sys.executable, "-m", "workers.cli", "hooks", "show-input", name[:14], "--hook", "keep", "--stdin-only"],
        capture_output=True,
        check=True,
    )
    assert raw.stdout == got, "a pipe gets the bytes, a secret included"
    later = fleethook("hooks", "show-input", name, "--hook", "later", "--stdin-only")
    assert later.out == (project / "later").read_text()

    given: Any = fleethook("hooks", "show-input", name, "--json").json["inputs"][0]
    real = dict(pair.split("=", 1) for pair in (project / "env").read_text().split("\0") if pair)
    own = {key: value for key, value in given["environment"].items() if key not in given["inherited"]}
    assert own.pop("API_TOKEN") == "[redacted]"
    assert own == {key: real[key] for key in own}
    assert set(real) - {"PWD", "OLDPWD", "SHLVL", "_"} == {*given["environment"], *given["new_each_time"]}
    assert (given["ran"]["decision"], given["ran"]["exit_code"], given["ran"]["same_version"]) == ("deny", 2, True)
    assert (given["directory"], given["redacted"], given["stdin_bytes"]) == (str(project), True, len(got))
    assert SECRET not in json.dumps(given)

    shown = fleethook("hooks", "show-input", name).out
    assert SECRET not in shown
    assert f"hooks show-input {name} --hook keep --stdin-only | sh -c 'cat >" in shown
    (by_hand,) = [line for line in shown.splitlines() if "--hook keep --stdin-only" in line]
    (project / "got").unlink()
    typed = by_hand.replace("fleethook", f"{sys.executable} -m workers.cli", 1) + "; echo code $?"
    again = subprocess.run(["/bin/sh", "-c", typed], capture_output=True, text=True, check=True)
    assert (again.stdout, (project / "got").read_bytes()) == ("code 2\n", got), again.stderr
    assert "  MODE=strict\n" in shown
    assert "the worker's may differ" in shown
    assert "FLEETHOOK_RUN is new each time" in shown


def test_several_hooks_are_told_apart(project: Path, server: Server, keys: Keys, tmp_path: Path) -> None:
    publish(
        project,
        "id: one, on: tool:pre_execute, command: 'true'",
        f"id: two, on: tool:pre_execute, blocking: false, command: 'cat > {project}/got'",
        "id: never, on: session:start, command: 'true'",
        "id: rule, on: tool:pre_execute, rule: {decision: ask}",
    )
    with workers(server.url, keys, tmp_path / "home", "evaluator"):
        name = ask(project, "ls")
    both = fleethook("hooks", "show-input", name, "--json").json["inputs"]
    assert [(one["hook"], one["ran"] is None) for one in both] == [("one", False), ("two", True)]
    refused = fleethook("hooks", "show-input", name, "--stdin-only")
    assert (refused.code, refused.out) == (2, "")
    assert "the event fits one, two: name one by --hook" in refused.err
    assert "or not at all" in fleethook("hooks", "show-input", name, "--hook", "two").out
    wrong = fleethook("hooks", "show-input", name, "--hook", "never")
    assert (wrong.code, "one, two do" in wrong.err) == (1, True)

    publish(project, "id: other, on: session:start, command: 'true'")
    gone = fleethook("hooks", "show-input", name)
    assert (gone.code, "one ran, and is not in force any more" in gone.err) == (1, True)
    publish(project, "id: one, on: tool:pre_execute, command: 'false'")
    assert "file has changed since then" in fleethook("hooks", "show-input", name).out
    assert fleethook("hooks", "show-input", "e" + "0" * 32).code == 1


def test_what_cannot_be_known_of_another_host_is_said(
    project: Path, server: Server, keys: Keys, tmp_path: Path
) -> None:
    publish(project, "id: one, on: tool:pre_execute, command: 'true'")
    user = tmp_path / "home/config"
    user.mkdir(parents=True, mode=0o700, exist_ok=True)
    (user / "fleethook.yaml").write_text("hooks: [{id: mine, on: tool:pre_execute, command: 'true'}]")
    with workers(server.url, keys, tmp_path / "home", "evaluator"):
        name = ask(project, "ls", host="elsewhere")
    found = fleethook("hooks", "show-input", name, "--json").json
    assert [one["hook"] for one in found["inputs"]] == ["one"], "the user's hooks are this host's"
    assert "it happened on elsewhere" in found["notes"][0]
