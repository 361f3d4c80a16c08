"""`install` and `uninstall` for whatever agents are here, on the command line, in the test's own process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_kit import fleethook

pytestmark = pytest.mark.req("B-08", "G-20")


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person in a project, with Codex and Gemini at home and nothing on PATH."""
    home = tmp_path / "person"
    for folder in ("project", "bin", ".codex", ".gemini"):
        (home / folder).mkdir(parents=True)
    (home / ".gemini/settings.json").write_text('{"ui": {}} // mine\n', "utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.chdir(home / "project")
    return home


def files(person: Path) -> dict[str, str]:
    return {str(path.relative_to(person)): path.read_text() for path in sorted(person.rglob("*")) if path.is_file()}


def test_every_agent_that_is_here_is_installed_and_taken_back(person: Path, tmp_path: Path) -> None:
    """Found, shown, written once, and undone to the byte; what only the person can do is said."""
    before = files(person)
    dry = fleethook("install", "--dry-run", "--diff")
    assert (dry.code, files(person)) == (0, before)
    assert [line.split() for line in dry.out.splitlines()[:3]] == [
        ["AGENT", "EVENTS", "FILE", "CHANGE", "THEN", "YOU"],
        ["+", "Codex", "CLI", "12", "added", "~/.codex/hooks.json", "new", "file", "step", "2"],
        ["~", "Gemini", "CLI", "7", "added", "~/.gemini/settings.json", "changed", "step", "3"],
    ]
    assert "Found: Codex CLI, Gemini CLI" in dry.err
    assert [line for line in dry.out.splitlines() if line.startswith("+++ ")] == [
        f"+++ {person}/.codex/hooks.json",
        f"+++ {person}/.gemini/settings.json",
    ]
    done = fleethook("install", "--yes")
    assert done.code == 0, done.err
    assert "+++ " not in done.out
    steps = [line for line in done.err.splitlines() if line.startswith("  ")]
    assert [line[:5] for line in steps] == [f"  {number}. " for number in range(1, 6)]
    assert steps[1].startswith("  2. Codex CLI runs only hooks that you trust")
    assert done.err.endswith(f"{steps[-1]}\n"), "what only the person can do is last"
    assert "it asks when it starts in one" in done.err
    assert "has not been shown to Gemini CLI yet" in done.err
    gemini = (person / ".gemini/settings.json").read_text()
    assert gemini.endswith("} // mine\n")
    again = fleethook("install", "--yes", "--json")
    assert [(one["agent"], one["diff"], one["applied"]) for one in again.json["agents"]] == [
        ("codex", "", False),
        ("gemini", "", False),
    ]
    assert "gemini is installed already" in fleethook("install", "gemini", "--yes").err

    dry = fleethook("uninstall", "--dry-run")
    assert [line.split()[:5] for line in dry.out.splitlines()[1:3]] == [
        ["-", "Codex", "CLI", "12", "removed"],
        ["~", "Gemini", "CLI", "7", "removed"],
    ]
    assert "--- " in fleethook("uninstall", "--dry-run", "--diff").out

    undone = fleethook("uninstall", "--yes", "--json")
    assert [one["agent"] for one in undone.json["agents"]] == ["codex", "gemini"]
    assert files(person) == before
    assert not (tmp_path / "home/data/agents").exists()
    assert "No agent is installed" in fleethook("uninstall", "--yes").err


def test_an_agent_whose_file_is_broken_does_not_hold_up_the_others(person: Path) -> None:
    mine = person / ".codex/hooks.json"
    mine.write_text('{"$schema": "x"}')
    done = fleethook("install", "--yes")
    assert done.code == 5
    assert f"codex was left out: {mine}: the name '$schema' makes codex refuse the whole file" in done.err
    assert "BeforeTool" in (person / ".gemini/settings.json").read_text()
    alone = fleethook("install", "codex", "--yes")
    assert (alone.code, mine.read_text()) == (4, '{"$schema": "x"}')

    assert ["✗", "Codex", "CLI", "left", "out"] in [line.split()[:5] for line in done.out.splitlines()]
    mine.unlink()
    assert fleethook("install", "codex", "--yes").code == 0
    mine.write_text("{")
    undone = fleethook("uninstall", "--yes")
    assert (undone.code, f"codex was left out: {mine}:1:2: not valid JSON" in undone.err) == (5, True)
    assert (person / ".gemini/settings.json").read_text() == '{"ui": {}} // mine\n'
    assert fleethook("uninstall", "--yes").code == 4
    mine.write_text("{}")
    assert fleethook("uninstall", "--yes").code == 0


def test_nobody_is_guessed(person: Path, tmp_path: Path) -> None:
    (person / ".codex").rmdir()
    (person / ".gemini/settings.json").unlink()
    (person / ".gemini").rmdir()
    nobody = fleethook("install", "--yes")
    assert nobody.code == 2
    assert "name one: claude, codex, gemini" in nobody.err
    named = fleethook("install", "cursor", "--yes")
    assert named.code == 0
    assert "Cursor was not found on this machine" in named.err
    assert "--yes" in fleethook("install", "windsurf").err  # and nobody is asked where nobody sits


def test_scopes_events_and_policy_for_all_of_them(person: Path) -> None:
    """Canonical types mean each agent's own events; an agent without a scope is left out by name."""
    done = fleethook("install", "--scope", "project", "--events", "tool:pre_execute,Stop", "--yes", "--json")
    assert done.code == 5  # Gemini has no `Stop`
    (codex,) = done.json["agents"]
    assert codex["files"] == [f"{person}/project/.codex/hooks.json"]
    assert "gemini has no event 'Stop'" in done.err
    closed = fleethook("install", "--scope", "project", "--events", "tool:pre_execute", "--fail-closed", "--yes")
    assert closed.code == 0
    assert "without a verdict  tool calls, prompts and permissions are denied" in closed.out
    hooks = json.loads((person / "project/.codex/hooks.json").read_bytes())["hooks"]
    assert list(hooks) == ["PreToolUse"]
    assert "exit 2" in hooks["PreToolUse"][0]["hooks"][0]["command"]
    local = fleethook("install", "codex", "--scope", "local", "--yes")
    assert (local.code, "it has user, project" in local.err) == (4, True)
    found = {one["id"]: one for one in fleethook("doctor", "--json").json["checks"]}
    assert "fail-closed" in found["codex-installed"]["what"]
    assert found["codex-trust"]["status"] == "fail"
    assert (found["gemini-effective"]["status"], found["codex-effective"]["status"]) == ("warn", "fail")
