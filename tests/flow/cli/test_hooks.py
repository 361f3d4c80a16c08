"""Hooks on the command line: checked, tried, published, compared, rolled back, trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.wire.connections import sync_client
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace
from tests.support.servers import Server

ONE = """
hooks:
  - id: no-force
    on: tool:pre_execute:bash
    rule: {decision: deny, reason: never force, commands: [{program: [git], flags_any: [--force]}]}
"""
TWO = f"""{ONE}
  - id: touch
    on: tool:pre_execute
    command: |
      touch RAN; echo '{{"decision": "ask", "reason": "asked"}}'
endpoints:
  - {{id: log, url: "https://log.example/x", secret: "env:LOG_SECRET"}}
"""
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAAA"
FORCE = ("hooks", "test", "tool:pre_execute:bash", "--set", "command=sudo git push --force")


@pytest.fixture
def project(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty repository to work in, on an empty fleet."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, text: str) -> None:
    """The project's hook file."""
    (folder / "fleethook.yaml").write_text(text, encoding="utf-8")


@pytest.mark.req("X-08")
def test_versions_are_published_compared_and_rolled_back(project: Path, server: Server, keys: Keys) -> None:
    write(project, ONE)
    first = fleethook("hooks", "apply", "--yes", "-m", "the beginning")
    assert (first.code, "version 1 is published, running workers have it in force within a second" in first.out) == (
        0,
        True,
    )
    assert '+      "id": "no-force"' in first.out
    again = fleethook("hooks", "apply", "--yes", "--json")
    assert (again.json["published"], again.json["version"]) == (False, 1)

    write(project, TWO)
    planned = fleethook("hooks", "apply", "--dry-run", "--json").json
    assert (planned["published"], planned["version"]) == (False, 1)
    assert '+      "id": "touch"' in planned["diff"]
    assert fleethook("hooks", "diff", "--json").json["diff"] == planned["diff"]
    assert '"secret": "env:LOG_SECRET"' in planned["diff"], "a reference is no secret"
    piped = fleethook("hooks", "apply", "-", "--yes", "--json", stdin=TWO)
    assert (piped.json["published"], piped.json["version"]) == (True, 2)
    assert '-      "id": "touch"' in fleethook("hooks", "diff", "2", "1").out
    assert fleethook("hooks", "diff").out == ""
    assert fleethook("hooks", "diff", "9").code == 1

    assert fleethook("hooks", "rollback", "--yes", "--json").json["version"] == 3
    assert fleethook("hooks", "rollback", "2", "--yes").code == 0
    told = fleethook("hooks", "history", "--json").json
    assert [(one["version"], one["message"]) for one in told] == [
        (4, "rollback to 2"),
        (3, "rollback to 1"),
        (2, ""),
        (1, "the beginning"),
    ]
    assert "the beginning" in fleethook("hooks", "history").out
    assert fleethook("hooks", "rollback", "77", "--yes").code == 1
    assert fleethook("hooks", "apply").code == 0, "nothing changes, so nobody is asked"
    write(project, ONE)
    assert fleethook("hooks", "apply").code == 2, "nobody can be asked here"
    write(project, "# cut off\n")
    for words, text in ((("apply", "--yes"), ""), (("apply", "-", "--yes"), "\n")):
        empty = fleethook("hooks", *words, stdin=text)
        assert (empty.code, "the file is empty; to have no hooks, remove" in empty.err) == (4, True), empty
    client = sync_client(server.url)
    assert client.get(keys("hookset", "current")) == b"4"
    client.close()


def test_a_set_with_problems_changes_nothing_and_says_where(project: Path) -> None:
    write(project, ONE + "  - {id: two, on: tool:pre_exec, command: x}\n  - {id: three, on: '*', comand: x}\n")
    for args in (("apply", "--yes"), ("diff",), ("test", "tool:pre_execute", "--file", "fleethook.yaml")):
        refused = fleethook("hooks", *args)
        assert (refused.code, refused.out) == (4, "")
        assert "fleethook.yaml:6:" in refused.err
    checked = fleethook("hooks", "check")
    assert checked.code == 4
    assert "did you mean 'tool:pre_execute'" in checked.out
    assert 'did you mean "command"' in checked.out
    problems = fleethook("hooks", "check", "fleethook.yaml", "--json").json["problems"]
    assert {one["line"] for one in problems} == {6, 7}
    assert fleethook("hooks", "history", "--json").json == []
    assert fleethook("hooks", "check", "nothing.yaml").code == 4


def test_check_runs_the_tests_of_the_guards_and_shows_no_secret(project: Path) -> None:
    write(
        project,
        f'guards: {{destructive-commands: true}}\nendpoints: [{{url: "https://a.example", secret: {SECRET}}}]\n',
    )
    fine = fleethook("hooks", "check")
    assert fine.code == 0, fine.out
    assert "0 hooks, 1 endpoint, 1 guard pack (" in fine.out
    assert "the secret is written in the file" in fine.out, "a secret in the file is warned of"
    published = fleethook("hooks", "apply", "--yes")
    assert published.code == 0
    write(project, (project / "fleethook.yaml").read_text().replace("whsec_M", "whsec_N"))
    changed = fleethook("hooks", "diff")
    assert sum(line[0] in "+-" and "[secret " in line for line in changed.out.splitlines()) == 2, changed.out
    assert SECRET not in fine.out + published.out + published.err + changed.out


@pytest.mark.req("X-01")
def test_an_event_is_tried_without_sending_anything(project: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    write(project, TWO.replace("RAN", str(ran)))
    mine = ("--file", "fleethook.yaml")
    denied = fleethook(*FORCE, *mine)
    assert denied.code == 0
    assert "DENY" in denied.out
    assert "never force" in denied.out
    assert "fleethook.yaml:3" in denied.out
    assert fleethook(*FORCE, *mine, "--exit-code").code == 1

    native = ("hooks", "test", "PreToolUse", "--source", "claude-code", "--tool", "Bash", "--set", "command=ls", *mine)
    tried = fleethook(*native, "--json").json
    assert (tried["event"]["type"], tried["event"]["tool"]) == ("tool:pre_execute", "bash")
    assert [one["id"] for one in tried["matched"]] == ["touch"], "a rule about git is not asked about ls"
    assert (tried["not_run"], tried["verdict"]["decision"]) == (["touch"], "abstain")
    assert tried["background"]["endpoints"] == ["log"]
    assert not ran.exists()
    assert fleethook(*native, "--run", "--json").json["verdict"]["decision"] == "ask"
    assert ran.exists()

    for wrong in ("tool:*", "tool:pre_exec"):
        assert fleethook("hooks", "test", wrong, *mine).code == 2
    for value in ("command", "=x", "input=3", "session.a=b"):
        assert fleethook("hooks", "test", "tool:pre_execute", "--set", value, *mine).code == 2


def test_an_event_is_tried_as_it_is_in_a_file_or_on_the_stream(project: Path) -> None:
    off = "{id: off, on: tool:pre_execute:bash, enabled: false, rule: {command: ['git push']}}"
    asks = "{id: words, on: user:prompt_submit, when: event.data.prompt.contains('password'), rule: {decision: deny}}"
    guards = "{destructive-commands: {disable: [force-push]}}"
    write(project, f"guards: {guards}\nhooks:\n  - {off}\n  - {asks}\n")
    mine = ("--file", "fleethook.yaml", "--json")

    prompt = fleethook("hooks", "test", "user:prompt_submit", "--set", "prompt=my password", *mine).json
    assert prompt["event"]["data"] == {"prompt": "my password"}
    assert prompt["verdict"]["decision"] == "deny"

    payload = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git push -f"}}
    (project / "event.json").write_text(json.dumps(payload))
    found = fleethook("hooks", "test", "--event", "event.json", "--source", "claude", *mine).json
    assert (found["event"]["native"], found["event"]["input"]["command"]) == ("PreToolUse", "git push -f")
    assert [one["id"] for one in found["disabled"]] == ["off", "destructive-commands_force-push"]
    shown = fleethook("hooks", "test", "--event", "event.json", "--source", "claude", *mine[:2]).out
    assert "disabled  off from fleethook.yaml" in shown
    canonical = json.dumps({"type": "user:prompt_submit", "data": {"prompt": "the password"}})
    assert fleethook("hooks", "test", "--event", "-", *mine, stdin=canonical).json["verdict"]["decision"] == "deny"

    name = fleethook("publish", stdin=canonical).out.strip()
    stored = fleethook("hooks", "test", "--event", name, *mine).json
    assert (stored["event"]["id"], stored["verdict"]["decision"]) == (name, "deny")
    assert fleethook("hooks", "test", "--event", "none.json", *mine).code == 2
    assert fleethook("hooks", "test", "--event", name, "--set", "x=1", *mine).code == 2
    assert fleethook("hooks", "test", "--event", name[:12], *mine).json["event"]["id"] == name
    assert fleethook("hooks", "test", *mine).code == 4, "the file has no tests"


def test_trying_and_checking_need_no_server(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", f"unix://{project}/none.sock")
    write(project, ONE)
    assert fleethook("hooks", "trust", "--yes").code == 0
    alone = fleethook(*FORCE)
    assert alone.code == 0
    assert "DENY" in alone.out
    assert "without the fleet's hooks" in alone.err
    assert fleethook("hooks", "check").code == 0
    assert fleethook("hooks", "list").code == 3


def test_the_list_shows_every_layer_and_folds_the_guards(project: Path, tmp_path: Path) -> None:
    write(project, "guards: {destructive-commands: {observe: true}}" + ONE)
    fleethook("hooks", "apply", "--yes")
    user = tmp_path / "home" / "config"
    user.mkdir(parents=True, mode=0o700)
    (user / "fleethook.yaml").write_text("hooks: [{id: mine, on: session:start, command: x, blocking: false}]")
    write(project, "hooks: [{id: ours, on: 'tool:*', tool: 'bash|write', command: x, on_failure: deny}]")
    unknown = fleethook("hooks", "list")
    assert "ours" not in unknown.out, "nobody trusts this project yet"
    fleethook("hooks", "trust", "--yes")
    shown = fleethook("hooks", "list")
    assert shown.code == 0
    rows = [line.split()[0] for line in shown.out.splitlines()]
    assert rows[:4] == ["HOOK", "no-force", "mine", "ours"]
    assert "guard destructive-commands  fleet@1" in shown.out
    listed = fleethook("hooks", "list", "--json").json
    layers = {one["id"]: (one["layer"], one["kind"], one["blocking"]) for one in listed["hooks"]}
    assert layers["no-force"] == ("fleet", "rule", True)
    assert layers["mine"] == ("user", "command", False)
    assert layers["ours"][0] == "project"
    assert layers["destructive-commands_recursive-delete"][0] == "fleet"
    started = fleethook("hooks", "list", "--event", "session:start", "--json").json["hooks"]
    assert [one["id"] for one in started] == ["mine"]
    writing = fleethook("hooks", "list", "--event", "tool:pre_execute:write", "--json").json["hooks"]
    assert {one["layer"] for one in writing} == {"fleet", "project"}
    assert "no-force" not in {one["id"] for one in writing}


def test_what_is_not_there_is_said_with_what_to_do(project: Path) -> None:
    """Nothing published, nothing to go back to, no file, no such version."""
    assert "`fleethook hooks apply` publishes a file" in fleethook("hooks", "history").err
    assert fleethook("hooks", "trust", "--list").err.strip() == "no project is trusted"
    for words, code, says in (
        (("rollback",), 1, "there is no version before 0"),
        (("apply",), 1, "there is no fleethook.yaml here"),
        (("diff", "fleethook.yaml", "x"), 2, "'x' is no version"),
        (("diff", "7"), 1, "version 7 of the hook set does not exist"),
    ):
        done = fleethook("hooks", *words)
        assert (done.code, says in done.err) == (code, True), done


def test_trust_shows_the_content_and_ends_with_it(project: Path) -> None:
    assert fleethook("hooks", "trust").code == 1, "there is no hook file"
    (project / "check.sh").write_text("exit 0")
    write(project, "hooks: [{id: look, on: 'tool:*', command: './check.sh token=abc123abc123 \\e[2K'}]")
    asked = fleethook("hooks", "trust")
    assert asked.code == 2, "nobody can be asked here"
    assert "token=abc123abc123" in asked.err, "what is trusted is shown as it is"
    assert "check.sh is named by a command" in asked.err
    assert fleethook("hooks", "trust", "--list", "--json").json == []
    assert fleethook("hooks", "trust", "--yes", "--json").json["trusted"] is True
    (below := project / "src").mkdir()
    assert "is trusted as it is now" in fleethook("hooks", "trust", str(below)).err
    assert fleethook("hooks", "trust", "--list", "--json").json[0]["state"] == "trusted"
    (project / "check.sh").write_text("rm -rf /")
    assert fleethook("hooks", "trust", "--list", "--json").json[0]["state"] == "changed"
    listed = fleethook("hooks", "list", "--json").json
    assert [hook["id"] for hook in listed["hooks"]] == ["look"], "what was trusted stays in force"
    assert "newer content waits for your trust" in listed["waiting"][0]
    assert fleethook("hooks", "list").err.count("newer content waits for your trust") == 1
    changed = fleethook("hooks", "trust")
    assert "-exit 0" in changed.err
    assert "+rm -rf /" in changed.err
    assert "exit 0" not in fleethook("hooks", "trust", "--yes").out
    (project / "fleethook.yaml").unlink()
    assert "its trusted rules stay in force" in fleethook("hooks", "trust").err
    assert "its trusted rules stay in force" in fleethook("hooks", "list").err
    assert "newer content waits" not in fleethook("hooks", "list").err, "there is none"
    checks = [one for one in fleethook("doctor", "--json").json["checks"] if one["id"] == "in-force"]
    assert [one["fix"] for one in checks] == ["fleethook hooks untrust"]
    assert "not trusted any more" in fleethook("hooks", "trust", "--remove").out
    assert fleethook("hooks", "trust", "--list", "--json").json == []


def test_what_is_listed_holds_no_secret(project: Path) -> None:
    token = "ghp_abcdefghijklmnopqrstuvwxyz012345"
    hook = {"id": "a", "on": "*", "command": f"curl -H 'Authorization: Bearer {token}' x", "env": {"API_TOKEN": token}}
    write(project, json.dumps({"hooks": [hook]}))
    applied = fleethook("hooks", "apply", "--yes")
    for shown in (applied, fleethook("hooks", "list", "--json"), fleethook("hooks", "diff", "0")):
        assert shown.code == 0
        assert token not in shown.out + shown.err


@pytest.mark.req("X-07", "X-08")
def test_guards_of_the_published_set_are_switched_as_a_new_version(project: Path) -> None:
    assert fleethook("guards", "enable", "destructive-commands", "--layer", "fleet", "--yes").code == 0
    off = fleethook("guards", "disable", "force-push", "--layer", "fleet", "--yes", "--json").json
    assert (off["version"], off["before"], off["written"]) == (2, 1, True)
    rules = {one["rule"]: one for one in fleethook("guards", "list", "--json").lines}
    assert rules["force-push"]["on"] is False
    assert [(one["layer"], one["on"]) for one in rules["recursive-delete"]["layers"]] == [("fleet", True)]
    assert (
        fleethook("hooks", "history", "--json").json[0]["message"] == "guards disable destructive-commands_force-push"
    )


@pytest.mark.req("X-10", "X-08")
def test_a_hook_is_listed_with_the_time_that_each_agent_here_gives_it(project: Path, tmp_path: Path) -> None:
    """Issue 10, B6: the effective timeout: of Codex the time of its trusted entry, of others what `install` wrote."""
    user = tmp_path / "home" / "config" / "fleethook.yaml"
    user.parent.mkdir(parents=True, exist_ok=True)
    user.write_text(
        "hooks:\n"
        "  - {id: slow, on: tool:pre_execute, command: 'true', timeout: 590}\n"
        "  - {id: quick, on: tool:pre_execute, command: 'true', timeout: 5}\n"
        "  - {id: later, on: tool:pre_execute, command: 'true', timeout: 590, blocking: false}\n"
        "  - {id: elsewhere, on: cursor:afterThought, command: 'true', timeout: 590}\n"
        "  - {id: ruled, on: tool:pre_execute, rule: {decision: deny, command: [x]}}\n"
    )

    def timeouts() -> dict[str, dict[str, float]]:
        return {one["id"]: one["timeouts"] for one in fleethook("hooks", "list", "--json").json["hooks"]}

    assert timeouts() == {"slow": {}, "quick": {}, "later": {}, "elsewhere": {}, "ruled": {}}
    assert fleethook("install", "claude", "codex", "--yes").code == 0
    assert timeouts() == {
        "slow": {"claude": 539.5, "codex": 26.5},
        "quick": {"claude": 5.0, "codex": 5.0},
        "later": {},
        "elsewhere": {},
        "ruled": {},
    }
    shown = {line.split()[0]: line for line in fleethook("hooks", "list").out.splitlines() if line}
    assert " 590 s; claude 539.5 s; codex 26.5 s " in shown["slow"]
    assert " 5 s " in shown["quick"]
    assert " 590 s " in shown["later"]
    settings = tmp_path / "person" / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace('"timeout": 600', '"timeout": 100'))
    assert fleethook("install", "claude", "--events", "Stop", "--scope", "project", "--yes").code == 0
    assert timeouts()["slow"] == {"claude": 89.5, "codex": 26.5}, "an entry that grants less bounds it"
