"""`hooks test` on the tests of a file: real hooks, no server (issue 11, "For authors")."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli_kit import Result, fleethook

pytestmark = pytest.mark.req("X-07", "F-11")

HOOKS = """\
hooks:
  - {id: no-force, on: tool:pre_execute:bash, rule: {decision: deny, command: ['git push .*--force'], reason: by force}}
  - {id: style, on: tool:pre_execute:write, command: sh ./style.sh, timeout: 5}
  - {id: hang, on: tool:pre_execute:read, command: sleep 60, timeout: 0.2, on_failure: ask}
  - {id: shorten, on: tool:pre_execute:web_fetch, command: cat rewrite.json}
  - {id: hide, on: tool:post_execute, rule: {redact: true}}
tests:
"""
SECRET = "ghp_" + "A1b2C3d4" * 5
STYLE = 'if grep -q "print("; then echo "Use the logger." >&2; exit 2; fi\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with hooks of every kind and the scripts that they name; no server is anywhere."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "style.sh").write_text(STYLE)
    (folder / "rewrite.json").write_text(
        '{"decision": "allow", "updated_input": {"url": "https://b"}, "context": "cut"}'
    )
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", f"unix://{folder}/none.sock")
    monkeypatch.chdir(folder)
    return folder


def outcome(folder: Path, *tests: str, args: tuple[str, ...] = ()) -> Result:
    """How `hooks test` ends for a file with these tests."""
    (folder / "fleethook.yaml").write_text(HOOKS + "".join(f"  - {{{test}}}\n" for test in tests))
    return fleethook("hooks", "test", *args)


PASS = (
    "name: force is denied, command: git push --force, expect: deny, hook: no-force, reason: by force",
    "name: status is allowed, command: git status, expect: allow",
    "name: a rule that is silent has run, command: git status, expect: allow, hook: no-force",
    "name: print is denied, tool: Write, path: a.py, content: print(1), expect: deny, hook: style, reason: logger",
    "name: others are allowed, tool: write, path: a.py, content: x, expect: allow, hook: style",
    "name: a hang asks, tool: read, path: a, expect: stop, hook: hang, fails: true",
    "name: changed, event: {tool: web_fetch, input: {url: https://a}}, expect: allow, input: {url: https://b}, context: cut",
    f"name: hidden, event: {{type: tool:post_execute, tool: bash, output: 'TOKEN={SECRET}'}}, expect: allow, output: redacted",
)


def test_real_hooks_run_and_every_expectation_can_be_met(project: Path) -> None:
    result = outcome(project, *PASS)
    assert (result.code, result.err) == (0, ""), result.out
    assert result.out.count("✓") == len(PASS)
    assert f"fleethook.yaml: {len(PASS)} passed" in result.out


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("command: git push --force, expect: allow", "expected allow, but the hooks say deny by no-force: by force"),
        ("command: ls, expect: deny", "expected deny, but the hooks say allow (no hook objects)"),
        ("command: git push --force, expect: ask", "expected ask, but the hooks say deny by no-force"),
        ("command: git push --force, expect: deny, hook: style", "expected deny by style, but that hook did not run"),
        (
            "tool: write, path: a, expect: allow, hook: no-force",
            "expected allow by no-force, but that hook did not run",
        ),
        (
            "command: git push --force, expect: deny, reason: logger",
            "expected a reason with 'logger', but it is 'by force",
        ),
        ("command: ls, expect: allow, context: x", "expected context with 'x', but it is []"),
        ("command: ls, expect: allow, input: {command: id}", "expected the input command: 'id', but it is 'ls'"),
        ("command: ls, expect: allow, output: x", "expected output with 'x', but it is not rewritten"),
        (
            "tool: read, path: a, expect: ask",
            "timed out after 0.2 s (write `fails: true` where the test is about that)",
        ),
        ("command: ls, expect: allow, fails: true", "expected that a hook fails, but none did"),
    ],
)
def test_what_is_not_met_is_said_with_the_line_of_the_test(project: Path, test: str, says: str) -> None:
    result = outcome(project, "name: fine, command: ls, expect: allow", f"name: wrong, {test}")
    assert result.code == 1
    assert "✓ fine\n✗ wrong  fleethook.yaml:9\n" in result.out
    assert says in result.out
    assert "1 passed, 1 failed" in result.out


def test_a_hook_that_is_broken_does_not_pass_as_one_that_allows(project: Path) -> None:
    (project / "style.sh").unlink()
    result = outcome(project, "name: all is well, tool: write, path: a, content: x, expect: allow")
    assert result.code == 1
    assert "style.sh" in result.out
    (project / "style.sh").write_text("echo lost >&2; exit 7\n")
    result = fleethook("hooks", "test")
    assert (result.code, "lost" in result.out) == (1, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file has no tests; `fleethook hooks new`"),
        ("hooks: []\n", "the file has no tests"),
        ("tests: []\n", "the file has no tests"),
        ("hooks: [\n", "fleethook.yaml:2:1"),
        ("tests: [{name: a, comand: x, expect: deny}]", 'unknown key "comand"; did you mean "command"?'),
    ],
)
def test_a_broken_or_empty_file_is_no_block_and_no_success(project: Path, text: str, says: str) -> None:
    """Exit code 2 means a block to most agents, 1 means a failed test."""
    (project / "fleethook.yaml").write_text(text)
    result = fleethook("hooks", "test")
    assert (result.code, result.out) == (4, "")
    assert says in result.err


def test_tests_are_chosen_by_name_and_given_as_json(project: Path) -> None:
    result = outcome(project, *PASS, args=("-k", "FORCE", "--json"))
    assert [test["name"] for test in result.json["tests"]] == ["force is denied"]
    assert (result.json["ok"], result.json["passed"], result.json["failed"]) == (True, 1, 0)
    assert result.json["tests"][0]["came"].startswith("deny by no-force: by force")
    none = fleethook("hooks", "test", "-k", "nonesuch")
    assert (none.code, "the file has 8" in none.err) == (4, True)


def test_a_report_is_xml_whatever_a_test_is_called_and_has_no_secret(project: Path) -> None:
    (project / "style.sh").write_text(f"printf 'a\\001<b> & \"c\" token={SECRET}' >&2; exit 2\n")
    odd = "name: '<a> & \"b\"', tool: write, path: a, content: x, expect: allow"
    result = outcome(project, odd, "name: fine, command: ls, expect: allow", args=("--junit", "out/report.xml"))
    assert result.code == 1
    text = (project / "out/report.xml").read_text()
    assert SECRET not in text + result.out
    suite = ET.fromstring(text)[0]
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "errors")} == {
        "name": "fleethook.yaml",
        "tests": "2",
        "failures": "1",
        "errors": "0",
    }
    case, fine = suite
    assert (case.get("name"), case.get("line"), fine.get("name")) == ('<a> & "b"', "8", "fine")
    assert len(fine) == 0
    assert '<b> & "c"' in (case[0].text or "")


def test_options_of_one_event_and_of_tests_are_not_mixed(project: Path) -> None:
    for args in (("--set", "a=b"), ("--tool", "x"), ("--run",), ("tool:pre_execute", "-k", "x"), ("x", "--watch")):
        assert outcome(project, args=args).code == 2, args
    assert fleethook("hooks", "test", "--watch", "--file", "-").code == 2


def test_a_payload_says_of_which_agent_it_is(project: Path) -> None:
    outcome(project, PASS[0])
    for payload, agent in (
        ('{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}', "claude"),
        (
            '{"hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": {"command": "ls"}}',
            "gemini",
        ),
        ('{"type": "tool:pre_execute", "tool": "bash", "input": {"command": "ls"}}', "generic"),
    ):
        result = fleethook("hooks", "test", "--event", "-", "--file", "fleethook.yaml", "--json", stdin=payload)
        event = result.json["event"]
        assert (event.get("source", "generic"), event["type"], event["tool"]) == (agent, "tool:pre_execute", "bash")
        assert (agent in result.err) == (agent != "generic")


def test_the_tests_run_again_when_the_file_or_a_script_changes(project: Path) -> None:
    (project / "fleethook.yaml").write_text(
        HOOKS + "  - {name: one, tool: write, path: a, expect: allow, hook: style}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "workers.cli", "hooks", "test", "--watch"],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert "✓ one" in process.stdout.readline()
        assert "1 passed" in process.stdout.readline()
        assert "watching" in process.stderr.readline()
        _replace(project / "style.sh", "echo never >&2; exit 2\n")
        assert "style.sh has changed" in process.stderr.readline()
        assert "✗ one" in process.stdout.readline()
        assert "watching" in process.stderr.readline()
        _replace(project / "fleethook.yaml", "hooks: [\n")
        assert "fleethook.yaml has changed" in process.stderr.readline()
        assert "fleethook.yaml:2:1" in process.stderr.readline()
        assert "watching" in process.stderr.readline()
    finally:
        process.terminate()
        process.communicate()


def _replace(path: Path, text: str) -> None:
    """Change a file at once: one that is written in place can be read when it is still empty."""
    new = path.with_name("new")
    new.write_text(text)
    new.chmod(path.stat().st_mode)
    new.replace(path)


def test_a_file_is_named_without_an_option_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tests run as by `--file`; a file that is not there is said to be missing, and not taken for an event type."""
    outcome(project, *PASS[:2])
    monkeypatch.chdir(project.parent)
    for name in ("project/fleethook.yaml", "./project/fleethook.yaml", str(project / "fleethook.yaml")):
        done = fleethook("hooks", "test", name, "-k", "force")
        assert (done.code, done.out.splitlines()[0]) == (0, "✓ force is denied"), done
    for name in ("nosuch.yaml", "nosuch.yml", "nosuch.json", "./nosuch", f"{project}/nosuch"):
        done = fleethook("hooks", "test", name)
        assert done.code == 4
        assert f"{Path(name)}: cannot be read: No such file or directory" in done.err
        assert "event type" not in done.err
    twice = fleethook("hooks", "test", "a.yaml", "--file", "b.yaml")
    assert (twice.code, "a.yaml and --file b.yaml are both hook files: name one" in twice.err) == (2, True)
    assert fleethook("hooks", "test", "project/fleethook.yaml", "--tool", "bash").code == 2, "a file is no event"
    assert "no event type is called 'tool:pre'" in fleethook("hooks", "test", "tool:pre").err
