"""`hooks check` on valid hooks that are likely to go wrong: each finding with its place, no hook out of force (B16)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bus.hooksets.hookfile import load_hook_file
from tests.cli_kit import fleethook
from workers.admin.hook_findings import findings

pytestmark = pytest.mark.req("F-11", "X-10")


GONE = "fleethook.yaml:1:41: the command names {}, which does not exist"


def found(folder: Path, text: str) -> list[str]:
    """What is found in a project's file, each without the folder."""
    file = folder / "fleethook.yaml"
    file.write_text(text)
    read = load_hook_file(file, "project")
    assert read.problems == ()
    return [str(one).replace(f"{folder}/", "") for one in findings(read, str(folder))]


def script(path: Path, first: str, mode: int = 0o755) -> None:
    path.write_text(f"{first}\ntrue\n")
    path.chmod(mode)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("./gone.sh", "fleethook.yaml:1:41: the command names ./gone.sh, which does not exist"),
        ("sh gone.sh", GONE.format("gone.sh")),
        ("python3 gone.py", GONE.format("gone.py")),
        ("python3 -u gone.py --x", GONE.format("gone.py")),
        ("node gone.js", GONE.format("gone.js")),
        ("node sub/found", ""),
        ("bash -euo pipefail gone.sh", GONE.format("gone.sh")),
        ("env X=1 ./gone", GONE.format("./gone")),
        ("timeout 5 ./gone", GONE.format("./gone")),
        ("timeout 5 ./plain.sh", "fleethook.yaml:1:41: the command runs ./plain.sh, which is not executable"),
        ("exec ./gone", GONE.format("./gone")),
        ("cd sub && ./gone", GONE.format("./gone")),
        ("cd sub && ./deep.sh", ""),
        ("nice -n 5 ./gone", GONE.format("./gone")),
        ("uv run gone.py", GONE.format("gone.py")),
        ("if ! ./gone; then exit 2; fi", GONE.format("./gone")),
        ("if true; then ./gone; fi", ""),
        ("source ~/gone.sh 2>/dev/null; true", ""),
        ('"./my gone.sh" x', GONE.format("./my gone.sh")),
        ('"./my script.sh" x', ""),
        ("$CLAUDE_PROJECT_DIR/gone", GONE.format("$CLAUDE_PROJECT_DIR/gone")),
        ('"${CLAUDE_PROJECT_DIR:-.}"/good.sh', ""),
        ('python3 "$CLAUDE_PROJECT_DIR"/gone.py', GONE.format("$CLAUDE_PROJECT_DIR/gone.py")),
        ("bash ~/gone.sh", GONE.format("~/gone.sh")),
        ("$(git rev-parse --show-toplevel)/gone.sh", GONE.format("$CLAUDE_PROJECT_DIR/gone.sh")),
        ("run-parts gone", GONE.format("gone")),
        ("echo start; ./gone", GONE.format("./gone")),
        ("timeout 5 no-such-program x", "fleethook.yaml:1:41: the program no-such-program is not found on PATH"),
        ("[ -x ./gone ] && ./gone", ""),
        ("make gone && ./gone", ""),
        ("echo exit 0 > gone.sh; sh gone.sh", ""),
        ("ssh host ./gone", ""),
        ("docker exec box ./gone", ""),
        ("check() { ls; }; check", ""),
        ("PATH=./bin:$PATH gone", ""),
        ("npx gone ./gone", ""),
        ("python3 -m pytest ./gone", ""),
        ("python3 -c 'import gone'", ""),
        ("$TOOLS/gone.sh", ""),
        ("./hook-*.sh", ""),
        ("cat ./gone", ""),
        ("sh ./gone.sh --x", "fleethook.yaml:1:41: the command names ./gone.sh, which does not exist"),
        ("./plain.sh", "fleethook.yaml:1:41: the command runs ./plain.sh, which is not executable"),
        ("sh ./plain.sh", ""),
        ("./good.sh && ls", ""),
        ("./env.sh", "fleethook.yaml:1:41: the interpreter of ./env.sh, no-such-interpreter, does not exist"),
        ("./path.sh", "fleethook.yaml:1:41: the interpreter of ./path.sh, /no/such/interpreter, does not exist"),
        ("no-such-program --x", "fleethook.yaml:1:41: the program no-such-program is not found on PATH"),
        ("A=1 no-such-program", "fleethook.yaml:1:41: the program no-such-program is not found on PATH"),
        ("ls -la | no-such-program", "fleethook.yaml:1:41: the program no-such-program is not found on PATH"),
        ("if true; then ls; fi", ""),
        ("'$TOOL' x", ""),
        ("$HOME/none-of-this x", "fleethook.yaml:1:41: the command names ~/none-of-this, which does not exist"),
        ("exit 0", ""),
        ("bash -c './gone.sh x'", "fleethook.yaml:1:41: the command names ./gone.sh, which does not exist"),
        ("sh -ec 'no-such-program'", "fleethook.yaml:1:41: the program no-such-program is not found on PATH"),
        ("sh -c 'exit 0'", ""),
        ("./crlf.sh", "fleethook.yaml:1:41: the first line of ./crlf.sh ends with a carriage return"),
        ("[ -f x ] || exit 2", ""),
    ],
)
def test_programs_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, says: str) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    for program in ("docker", "ssh", "npx", "uv"):  # not every machine has them
        script(machine / program, "#!/bin/sh")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{machine}")
    script(tmp_path / "good.sh", "#!/bin/sh")
    script(tmp_path / "plain.sh", "#!/bin/sh", 0o644)
    script(tmp_path / "env.sh", "#!/usr/bin/env no-such-interpreter")
    script(tmp_path / "path.sh", "#!/no/such/interpreter -x")
    script(tmp_path / "crlf.sh", "#!/bin/sh\r")
    (tmp_path / "sub").mkdir()
    script(tmp_path / "sub/deep.sh", "#!/bin/sh")
    script(tmp_path / "sub/found.js", "", 0o644)
    script(tmp_path / "my script.sh", "#!/bin/sh")
    quoted = command.replace("'", "''")
    result = found(tmp_path, f"hooks: [{{on: tool:pre_execute, command: '{quoted}'}}]\n")
    assert len(result) == bool(says)
    assert all(one.startswith(says) for one in result)


@pytest.mark.parametrize(
    ("on", "when", "says"),
    [
        (
            "tool:pre_execute:bash",
            "event.input.comand == 'x'",
            'bash has no event.input.comand; did you mean "command"?',
        ),
        ("tool:pre_execute:bash", "event.input['comand'] == 'x'", "bash has no event.input.comand"),
        (
            "tool:pre_execute:bash",
            "has(event.input.path)",
            "bash has no event.input.path; ",
        ),
        ("tool:pre_execute:bash", "event.input.command.contains('event.input.nothing')", ""),
        ("tool:pre_execute:bash", "event.input.description == ''", ""),
        ("tool:*:write", "event.input.file_path.endsWith('x') || event.input.content == ''", ""),
        ("tool:*:write, tool:*:bash", "event.input.command == ''", ""),
        ("session:start", "event.tool == 'bash'", "events of the type session:start have no tool, so event.tool is"),
        ("session:*", "'command' in event.input", "events of the type session:start have no input, so event.input"),
        ("session:*, tool:*", "event.tool == 'bash'", ""),
        ("tool:pre_execute", "verdict.decision == 'deny'", "a blocking hook runs before the verdict"),
        ("tool:*:write, tool:*:bash", "event.input.url == ''", "bash and write have no event.input.url"),
        ("tool:pre_execute", "event.input.whatever == ''", ""),
        ("tool:*:mcp__*", "event.input.whatever == ''", ""),
        ("session:start", "event.input.command == ''", "events of the type session:start have no input"),
        ("user:prompt_submit", "event.data.prompt == ''", ""),
        ("tool:pre_execute", "event.agent == 'claude'", "no event has event.agent"),
        (
            "tool:pre_execute",
            "event.sorce == 'claude'",
            'no event has event.sorce, so this condition fails; did you mean "source"?',
        ),
        (
            "tool:post_execute",
            "verdict.decison == 'deny'",
            "no event has verdict.decison, so this condition fails; did you mean",
        ),
        ("acme:deploy", "event.input.anything == ''", ""),
    ],
)
def test_fields_that_no_event_of_its_patterns_has(tmp_path: Path, on: str, when: str, says: str) -> None:
    quoted = when.replace("'", "''")
    result = found(tmp_path, f"hooks:\n  - on: '{on}'\n    when: '{quoted}'\n    rule: {{reason: x}}\n")
    assert len(result) == bool(says)
    assert all(one.startswith(f"fleethook.yaml:3:11: {says}") for one in result)


def test_an_endpoints_condition_and_a_tool_matcher_count_too(tmp_path: Path) -> None:
    (text,) = found(
        tmp_path,
        "endpoints: [{url: 'https://h.example/', events: tool:*, tool: Read, when: event.input.comand == ''}]\n",
    )
    assert text.startswith("fleethook.yaml:1:75: read has no event.input.comand; its fields are event.input.path")


def test_hooks_check_says_them_and_the_file_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    file = tmp_path / "fleethook.yaml"
    file.write_text("hooks: [{on: tool:pre_execute, command: ./gone.sh}]\n")
    said = fleethook("hooks", "check")
    assert (said.code, f"{file}:1:41: the command names ./gone.sh" in said.out) == (0, True), said
    assert "valid, with 1 finding" in said.out
    report = fleethook("hooks", "check", "--json").json
    assert (report["ok"], report["findings"][0]["line"], report["findings"][0]["column"]) == (True, 1, 41)
    file.write_text("hooks: [{on: 'tool:pre_execute:[', command: ls}]\n")
    said = fleethook("hooks", "check")
    assert (
        said.code,
        f"{file}:1:14: event pattern 'tool:pre_execute:[' has a bracket that is not closed" in said.out,
    ) == (4, True)
    file.write_text("hooks: [{on: 'tool:pre_execute:[!]', command: ls}]\n")
    assert fleethook("hooks", "check").code == 4


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".pigo/config.json", '{"plugins": [{"name": "p", "hooks": {"tool_start": [{"command": "COMMAND"}]}}]}'),
        (".forge/hooks.json", '{"hooks": [{"event": "tool:pre_execute", "command": "COMMAND"}]}'),
        (
            ".claude/settings.json",
            '{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "COMMAND"}]}]}}',
        ),
        (
            ".ion/plugins/p/hooks/hooks.json",
            '{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "COMMAND"}]}]}}',
        ),
    ],
)
def test_files_of_other_systems_are_checked_by_themselves_and_where_they_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """A script by a relative path, which is looked for in the project, and one that is missed wherever the hook runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    script(tmp_path / "good.sh", "#!/bin/sh")
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    (tmp_path / "fleethook.yaml").write_text(f"import: [{name}]\n")
    for command, says in (
        ("./gone.sh", "the command names ./gone.sh, which does not exist"),
        ("/gone/x.sh", "the command names /gone/x.sh, which does not exist"),
        ("./good.sh", ""),
    ):
        file.write_text(text.replace("COMMAND", command))
        for words in ((), (name,)):
            said = fleethook("hooks", "check", *words)
            assert said.code == 0, said
            assert (said.out.count("does not exist"), says in said.out) == (bool(says), True), said
