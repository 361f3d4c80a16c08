"""`simulate` and `backtest` on the command line, beside a server with recorded events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run, workers
from tests.support.servers import Server

pytestmark = pytest.mark.req("X-04")

NOW = """
hooks:
  - {id: no-rm, on: tool:pre_execute, rule: {commands: [{program: [rm]}], reason: no rm}}
  - {id: check, on: "tool:pre_execute:write", command: "exit 2"}
  - {id: ask-deploy, on: tool:pre_execute, rule: {decision: ask, commands: [{program: [make], args: [deploy]}]}}
"""
CANDIDATE = """
hooks:
  - {id: no-rm, on: tool:pre_execute, rule: {commands: [{program: [rm], flags_any: [-r]}], reason: no rm -r}}
  - {id: no-curl, on: tool:pre_execute, rule: {decision: ask, commands: [{program: [curl]}], reason: who knows}}
  - {id: no-dd, on: tool:pre_execute, rule: {commands: [{program: [dd]}]}}
  - {id: watch, on: tool:pre_execute, observe: true, rule: {commands: [{program: [ls]}]}}
  - {id: check, on: "tool:pre_execute:write", command: "exit 2"}
  - {id: log, on: tool:pre_execute, blocking: false, command: "touch ran"}
endpoints:
  - {id: hook, url: "https://receiver.example/in?token=hunter2hunter2", events: "tool:pre_execute"}
"""
SECRET = "sk-hunter2hunter2hunter2"
CALLS = ("rm -r build", "rm notes", f"curl -H 'X-Key: {SECRET}' https://a.example", "ls")


@pytest.fixture
def recorded(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Four shell calls and one write that an evaluator answered: the id of each by its command."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.chdir(tmp_path)
    run(server.url, lambda connections: apply(connections, keys, parse_hook_file(NOW, "fleet")))
    Path("candidate.yaml").write_text(CANDIDATE, encoding="utf-8")
    with workers(server.url, keys, tmp_path / "home", "evaluator"):
        ids = {}
        for command in CALLS:
            event = {"type": "tool:pre_execute", "tool": "bash", "input": {"command": command}, "cwd": str(tmp_path)}
            ids[command] = fleethook("request", stdin=json.dumps(event)).json["event"]
        write = {"type": "tool:pre_execute", "tool": "write", "input": {"path": "a.py", "content": "x"}}
        ids["write"] = fleethook("request", stdin=json.dumps(write)).json["event"]
    return ids


def test_a_backtest_shows_what_would_change_and_runs_nothing(recorded: dict[str, str]) -> None:
    found = fleethook("backtest", "--hooks", "candidate.yaml", "--json", "--exit-code")
    assert found.code == 1, found.err
    report = found.json
    assert (report["events"], report["replaced"], report["layer"]) == (5, "1", "fleet")
    changed = {(one["id"], one["before"], one["after"]) for one in report["changed"]}
    assert changed == {(recorded["rm notes"], "deny", "abstain"), (recorded[CALLS[2]], "abstain", "ask")}
    hooks = {one["hook"]: one for one in report["hooks"]}
    assert (hooks["no-rm"]["deny"], hooks["no-rm"]["changes"], hooks["watch"]["observed"]) == (1, 0, {"deny": 1})
    assert hooks["check"]["deny"] == 1, "as it answered then"
    assert report["never_matched"] == ["no-dd"]
    assert not Path("ran").exists()
    assert SECRET not in found.out

    shown = fleethook("backtest", "--hooks", "candidate.yaml")
    assert shown.code == 0
    assert shown.out.startswith("candidate.yaml in place of the published set (1): 5 events")
    assert "deny → pass" in shown.out
    assert recorded["rm notes"] in shown.out
    assert "no-dd" in shown.out.splitlines()[-1]
    assert SECRET not in shown.out


def test_a_backtest_chooses_events_and_judges_exports(recorded: dict[str, str]) -> None:
    where = fleethook("backtest", "--hooks", "candidate.yaml", "--where", "event.tool == 'write'", "--json")
    assert (where.json["events"], where.json["changed"]) == (1, [])
    none = fleethook("backtest", "--hooks", "candidate.yaml", "--until", "1d", "--json", "--exit-code")
    assert (none.code, none.json["events"]) == (1, 0), "a range without events shows nothing"
    assert "no event was judged" in none.err
    beside = fleethook("backtest", "--hooks", "candidate.yaml", "--add", "--json").json
    assert [one["id"] for one in beside["changed"]] == [recorded[CALLS[2]]], "the deny of the set in force stays"

    Path("events.jsonl").write_text(fleethook("events", "list", "--json").out, encoding="utf-8")
    report = fleethook("backtest", "--hooks", "candidate.yaml", "--from", "events.jsonl", "--json").json
    assert {one["id"] for one in report["changed"]} == {recorded["rm notes"], recorded[CALLS[2]]}
    assert report["redacted"] == {"input.command": 1}
    assert any("secrets are redacted" in note for note in report["notes"])

    Path("broken.jsonl").write_text("{bad\n", encoding="utf-8")
    broken = fleethook("backtest", "--hooks", "candidate.yaml", "--from", "broken.jsonl", "--exit-code", "--json")
    assert (broken.code, broken.json["unreadable"], broken.json["changed"]) == (1, 1, []), (
        "what was not judged is not fine"
    )


def test_a_bad_candidate_says_where(recorded: dict[str, str]) -> None:
    Path("bad.yaml").write_text("hooks: [{id: x, on: tool:pre_execute, rule: {reson: y}}]", encoding="utf-8")
    for command in (("backtest", "--hooks", "bad.yaml"), ("simulate", "--hooks", "bad.yaml", "--event", "e0")):
        failed = fleethook(*command)
        assert failed.code == (4 if command[0] == "backtest" else 1), failed.err
    assert fleethook("simulate").code == 2
    assert fleethook("simulate", "x.json", "--event", "e0").code == 2
    assert fleethook("simulate", "missing.json").code == 2
    for broken in ("", "[1]", '{"type": 5}', '{"a":' * 5_000 + "1" + "}" * 5_000):
        assert fleethook("simulate", "-", "--hooks", "candidate.yaml", stdin=broken).code == 2


def test_a_simulation_names_what_it_does_not_start(recorded: dict[str, str]) -> None:
    name = recorded["rm notes"]
    shown = fleethook("simulate", "--event", name[:14], "--hooks", "candidate.yaml")
    assert shown.code == 0, shown.err
    assert "recorded DENY" in shown.out
    assert "verdict  ABSTAIN" in shown.out
    assert "would run afterwards  log: touch ran" in shown.out
    assert "would post to afterwards  hook: https://receiver.example/in?token=[redacted]" in shown.out
    now = fleethook("simulate", "--event", name, "--json", "--exit-code")
    assert (now.code, now.json["verdict"]["decision"], now.json["recorded"]["decision"]) == (1, "deny", "deny")

    payload = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "/a", "content": SECRET},
    }
    dry = fleethook("simulate", "-", "--hooks", "candidate.yaml", "--json", stdin=json.dumps(payload))
    assert (dry.json["verdict"].get("decision"), dry.json["unknown"]) == ("abstain", ["check"])
    assert SECRET not in dry.out
    ran = fleethook("simulate", "-", "--hooks", "candidate.yaml", "--run", "--json", stdin=json.dumps(payload))
    assert (ran.json["verdict"]["decision"], ran.json["unknown"]) == ("deny", [])
    assert not Path("ran").exists(), "a background hook is only named"


def test_suggestions_are_shown_with_their_diff_and_written_on_request(
    recorded: dict[str, str], server: Server, keys: Keys
) -> None:
    call = {"tool": "bash", "input": {"command": "make deploy"}, "cwd": "/srv/shop", "session": "s"}
    assert fleethook("suggest", "--json").json["suggestions"] == []
    with workers(server.url, keys, Path("home"), "evaluator"):
        for number in range(3):
            asked = fleethook("request", stdin=json.dumps({"type": "tool:pre_execute", "call": f"c{number}", **call}))
            assert asked.json["decision"] == "ask"
    for number in range(3):
        fleethook("publish", stdin=json.dumps({"type": "tool:post_execute", "call": f"c{number}", **call}))

    report = fleethook("suggest", "--json").json
    (suggestion,) = report["suggestions"]
    assert (suggestion["kind"], suggestion["asked"], suggestion["approved"], suggestion["saves"]) == (
        "exception",
        3,
        3,
        3,
    )
    assert suggestion["rules"] == [{"hook": "ask-deploy", "layer": "fleet"}]
    assert "make deploy" in suggestion["diff"]
    assert [hook["hook"] for hook in report["never_matched"]] == []
    hooks = {hook["hook"]: hook for hook in report["hooks"]}
    assert (hooks["no-rm"]["denied"], hooks["ask-deploy"]["asked"], hooks["ask-deploy"]["approved"]) == (2, 3, 3)

    Path("events.jsonl").write_text(fleethook("events", "list", "--json").out, encoding="utf-8")
    exported = fleethook("suggest", "--from", "events.jsonl", "--json").json["suggestions"]
    assert [one["approved"] for one in exported] == [3], "the newest event is first in this export"

    shown = fleethook("suggest").out
    assert "saves 3 questions, lets through these 3 calls and no other" in shown
    assert "fleethook suggest --apply 1" in shown
    assert fleethook("suggest", "--apply", "2").code == 2
    dry = fleethook("suggest", "--apply", "1", "--dry-run")
    assert (dry.code, "+" in dry.out) == (0, True)
    with pytest.MonkeyPatch.context() as agent:
        agent.delenv("FLEETHOOK_TEST_CONFIRMS")
        agent.setenv("CLAUDECODE", "1")
        refused = fleethook("suggest", "--apply", "1", "--yes")
        assert (refused.code, "approvals remember" in refused.err) == (1, True), "an agent loosens nothing"
    applied = fleethook("suggest", "--apply", "1", "--yes")
    assert applied.code == 0, applied.err
    event = json.dumps({"type": "tool:pre_execute", **call})
    assert fleethook("simulate", "-", "--json", stdin=event).json["verdict"]["decision"] == "abstain"
    other = json.dumps({"type": "tool:pre_execute", **call, "cwd": "/"})
    assert fleethook("simulate", "-", "--json", stdin=other).json["verdict"]["decision"] == "ask"


REMEMBERS = """
hooks:
  - {id: twice, on: tool:pre_execute, rule: {decision: deny, limit: 2 per hour, reason: twice is enough}}
  - id: tests-first
    on: agent:stop
    when: session.wrote("**/*.py").found && !session.ran("pytest").ok
    rule: {decision: deny, reason: no test has passed}
workflows:
  - name: plan
    steps:
      - {name: think, transitions: [{to: work, on: user:prompt_submit}]}
      - {name: work, rules: [{command_pattern: ^git push, message: a person pushes}]}
"""


@pytest.mark.req("X-13", "G-16")
def test_simulate_knows_what_is_counted_and_counts_nothing(
    server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.chdir(tmp_path)
    run(server.url, lambda connections: apply(connections, keys, parse_hook_file(REMEMBERS, "fleet")))
    call = {"type": "tool:pre_execute", "tool": "bash", "session": "s", "source": "claude", "input": {"command": "ls"}}
    ls = json.dumps(call)
    with workers(server.url, keys, tmp_path / "home", "evaluator"):
        assert fleethook("request", stdin=ls).json["decision"] == "abstain"
        for _ in range(2):
            found = fleethook("simulate", "-", "--json", stdin=ls).json["verdict"]
            (part,) = [part for part in found["parts"] if part["hook"] == "twice"]
            assert (found["decision"], part["limit"]["count"]) == ("abstain", 2), "the second, and it is not counted"
            assert "limits and facts of the session are as they are now, and nothing was counted" in found["notes"]
        assert fleethook("request", stdin=ls).json["decision"] == "abstain"
        found = fleethook("simulate", "-", "--json", "--exit-code", stdin=ls)
        assert found.code == 1
        assert found.json["verdict"]["reason"].startswith("twice is enough (2 of 2 calls per hour")
        (counter,) = fleethook("limits", "list", "--json").json
        assert counter["count"] == 2
        other = json.dumps({**call, "session": "other"})
        assert fleethook("simulate", "-", "--json", stdin=other).json["verdict"]["decision"] == "abstain"
        assert fleethook("simulate", "-", "--json", "--session", "s", stdin=other).json["verdict"]["decision"] == "deny"

    history = [call, call, {**call, "type": "user:prompt_submit", "tool": "", "input": {}, "data": {"prompt": "go"}}]
    wrote = {**call, "type": "tool:post_execute", "tool": "write", "input": {"path": "a.py"}}
    Path("before.jsonl").write_text("\n".join(map(json.dumps, [*history, wrote])) + "\nno event\n")

    def after(**event: object) -> dict[str, object]:
        done = fleethook("simulate", "-", "--history", "before.jsonl", "--json", stdin=json.dumps({**call, **event}))
        assert "1 of 5 events in before.jsonl cannot be read: before.jsonl:5" in done.err
        verdict: dict[str, object] = done.json["verdict"]
        return verdict

    assert str(after()["reason"]).startswith("twice is enough (2 of 2 calls per hour for this session used")
    assert str(after(type="agent:stop", tool="", input={})["reason"]).startswith("no test has passed (session.wrote")
    pushed = after(session="", input={"command": "git push"})
    assert pushed["decision"] == "abstain", "no session, so nothing is before it"
    Path("before.jsonl").write_text("\n".join(map(json.dumps, history[2:])) + "\n{}\n[]\n\n\nx\ny\n")
    done = fleethook(
        "simulate", "-", "--history", "before.jsonl", stdin=json.dumps({**call, "input": {"command": "git push"}})
    )
    assert "reason: a person pushes" in done.out
    assert "limits and facts of the session are those after the given events" in done.out
