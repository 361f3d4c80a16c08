"""Corpora: lines read as events, judged by the packs, and the figures of what they said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.hooksets.guards import packs
from bus.hooksets.guards.corpus import ANOTHER_HOST, CorpusLine, Judged, figures, figures_by_group, read_corpus
from bus.ids import host_name
from bus.verdicts import Decision
from tests.cli_kit import fleethook
from workers.admin.guard_trial import judge_lines


def corpus(*lines: object) -> bytes:
    """A corpus of JSON lines."""
    return "\n".join(json.dumps(line) for line in lines).encode()


def read(*lines: object) -> list[CorpusLine]:
    """The lines of a corpus that has nothing wrong in it."""
    found, problems = read_corpus(corpus(*lines), "c.jsonl")
    assert problems == []
    return found


@pytest.mark.req("X-09")
def test_a_line_is_an_event_of_another_host() -> None:
    (line,) = read({"command": "ls", "expect": "allow"})
    assert (line.event.tool, line.event.input, line.event.cwd) == ("bash", {"command": "ls"}, "/home/dev/app")
    assert line.event.host == ANOTHER_HOST != host_name()
    assert (line.group, line.place, line.call) == ("other", "c.jsonl:1", "ls")


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("call", "tool", "command"),
    [
        ({"tool": "run_shell_command", "input": {"command": "ls"}}, "bash", "ls"),
        ({"tool": "shell", "input": {"command": ["bash", "-lc", "ls -l"]}}, "bash", "ls -l"),
        ({"tool": "execute_command", "agent": "cline", "input": {"command": "ls"}}, "bash", "ls"),
        ({"tool": "mcp__shell__run", "input": {"command": "ls"}}, "mcp__shell__run", "ls"),
    ],
)
def test_an_agents_tool_is_read_as_that_agents(call: dict[str, object], tool: str, command: str) -> None:
    (line,) = read({**call, "expect": "allow"})
    assert (line.event.tool, line.event.input["command"]) == (tool, command)


@pytest.mark.req("X-07", "X-09")
def test_a_prompt_is_an_event_and_its_secrets_are_not_shown() -> None:
    token = "ghp_" + "a1B2" * 9
    (line,) = read({"prompt": f"use {token}", "expect": "deny"})
    assert (line.event.type, line.event.data, line.event.tool) == ("user:prompt_submit", {"prompt": f"use {token}"}, "")
    assert line.call == "prompt: use [redacted:github-token]"


@pytest.mark.req("X-09")
def test_a_bad_line_is_reported_with_its_place_and_the_others_are_read() -> None:
    good = json.dumps({"command": "ls", "expect": "allow"}).encode()
    bad = [
        b"nonsense",
        b"[1]",
        b'{"command": "ls"}',
        b'{"expect": "deny"}',
        b'{"command": "ls", "tool": "Bash", "expect": "deny"}',
        b'{"command": "ls", "input": {"a": 1}, "expect": "deny"}',
        b'{"command": "ls", "expect": "maybe"}',
        b'{"command": "ls", "expect": "deny", "grup": "x"}',
        b'{"command": "\xff", "expect": "deny"}',
        b'{"command": "' + b"x" * 1_000_001 + b'", "expect": "deny"}',
    ]
    lines, problems = read_corpus(b"\n".join([good, *bad, b"", good]), "c.jsonl")
    assert [line.place for line in lines] == ["c.jsonl:1", f"c.jsonl:{len(bad) + 3}"]
    assert [(one.file, one.line) for one in problems] == [("c.jsonl", number) for number in range(2, len(bad) + 2)]


@pytest.mark.req("X-09")
def test_the_figures_count_what_was_stopped_by_group() -> None:
    lines = read(
        {"command": "a", "expect": "stop", "group": "x"},
        {"command": "b", "expect": "deny", "group": "x"},
        {"command": "c", "expect": "ask", "group": "y"},
        {"command": "d", "expect": "allow", "group": "y"},
        {"command": "e", "expect": "allow", "group": "y"},
    )
    said: tuple[Decision, ...] = ("ask", "ask", "abstain", "abstain", "deny")
    judged = [Judged(line, decision, (), 0.0) for line, decision in zip(lines, said, strict=True)]
    assert [one.finding for one in judged] == ["", "other decision", "missed", "", "false alarm"]
    every = figures(judged)
    assert (every.stopped, every.to_stop, every.false_alarms, every.harmless) == (2, 3, 1, 2)
    groups = figures_by_group(judged)
    assert (groups["x"].recall, groups["x"].false_alarm_rate) == (100, None)
    assert (groups["y"].recall, groups["y"].false_alarm_rate) == (0, 50)


@pytest.mark.req("X-09")
def test_the_packs_judge_a_line_and_name_the_rule() -> None:
    stopped, passed = judge_lines(
        read({"command": "sudo rm -rf /srv", "expect": "deny"}, {"command": "ls", "expect": "allow"}), packs()
    )
    assert (stopped.decision, stopped.finding) == ("deny", "")
    assert stopped.rules == ("destructive-commands_recursive-delete",)
    assert (passed.stopped, passed.rules) == (False, ())


@pytest.mark.req("X-09")
def test_a_rule_about_one_agents_event_judges_that_agents_lines() -> None:
    call = {"tool": "exec_command", "input": {"cmd": "bash -l", "tty": True}}
    of_codex, of_another = judge_lines(
        read({**call, "agent": "codex", "expect": "ask"}, {"command": "bash -l", "agent": "claude", "expect": "allow"}),
        packs(),
    )
    assert (of_codex.decision, of_codex.rules) == ("ask", ("destructive-commands_open-prompt",))
    assert not of_another.stopped


@pytest.mark.req("X-09")
def test_guards_test_prints_figures_and_lines_and_holds_limits(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_bytes(
        corpus(
            {"command": "rm -rf /", "expect": "stop", "group": "deleters"},
            {"command": "true", "expect": "stop", "group": "deleters"},
            {"command": "rm -rf /srv", "expect": "allow", "group": "near"},
        )
        + b"\nnonsense\n"
    )
    told = fleethook("guards", "test", "--corpus", str(file), "--pack", "destructive-commands", "--json")
    assert told.code == 0
    assert (told.json["recall"], told.json["false_alarm_rate"], told.json["bad_lines"]) == (50, 100, 1)
    assert [one["call"] for one in told.json["missed"]] == ["true"]
    assert [one["place"] for one in told.json["false_alarms_found"]] == [f"{file}:3"]
    assert f"{file}:4: " in told.err

    shown = fleethook("guards", "test", "--corpus", str(file), "--min-recall", "97", "--max-false-alarms", "0.8")
    assert shown.code == 1
    assert f"{file}:2: abstain, expected stop: true" in shown.out
    assert "recall is 50.00 %, the least is 97 %; the rate of false alarms is 100.00 %, the most is 0.8 %" in shown.err
    kept = fleethook("guards", "test", "--figures", "--corpus", str(file), "--min-recall", "50")
    assert kept.code == 0
    assert "expected" not in kept.out
    left = fleethook("guards", "test", "--json", "--corpus", str(file), "--without", str(file))
    assert (left.code, "every line" in left.err) == (2, True)
    file.write_bytes(corpus({"command": "ls", "expect": "allow"}))
    other = tmp_path / "other.jsonl"
    other.write_bytes(corpus({"command": "ls", "expect": "stop"}, {"command": "pwd", "expect": "allow"}))
    rest = fleethook("guards", "test", "--json", "--corpus", str(other), "--without", str(file)).json
    assert (rest["lines"], rest["to_stop"], rest["harmless"]) == (1, 0, 1)
    empty = fleethook("guards", "test", "--corpus", str(file), "--min-recall", "97")
    assert (empty.code, "no line is to be stopped" in empty.err) == (1, True)


@pytest.mark.req("X-09")
def test_guards_test_refuses_what_it_cannot_judge(tmp_path: Path) -> None:
    empty, bad = tmp_path / "empty.jsonl", tmp_path / "bad.jsonl"
    empty.write_text("\n")
    bad.write_text("{\n")
    assert fleethook("guards", "test", "--corpus", str(empty)).code == 4
    assert fleethook("guards", "test", "--corpus", str(bad)).code == 4
    assert fleethook("guards", "test", "--corpus", str(tmp_path / "none.jsonl")).code == 2
    assert fleethook("guards", "test", "--min-recall", "97").code == 2
    assert fleethook("guards", "test", "--corpus", "-", "--here", "--host", "x", stdin="{}").code == 2
    unknown = fleethook("guards", "test", "--pack", "destructive-command")
    assert (unknown.code, "destructive-commands" in unknown.err) == (1, True)


@pytest.mark.req("X-07")
def test_guards_test_runs_the_packs_own_tests() -> None:
    told = fleethook("guards", "test", "--json")
    assert (told.code, told.json["ok"]) == (0, True)
    assert {one["pack"] for one in told.json["packs"]} == set(packs())
    assert all(one["tests"] > 20 for one in told.json["packs"])
