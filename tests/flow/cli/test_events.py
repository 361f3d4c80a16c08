"""Events on the command line: published and asked about, listed, shown, followed, purged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.connections import sync_client
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run, workers
from tests.support.servers import Server
from tests.support.waiting import PATIENCE, wait_until

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz012345"

RULE = """
hooks:
  - id: no-force
    on: tool:pre_execute:bash
    rule: {decision: deny, reason: never force, commands: [{program: [git], flags_any: [--force]}]}
"""


@pytest.fixture
def home(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A fleet with one rule; the command line is set to it. Returns FLEETHOOK_HOME."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.chdir(tmp_path)
    run(server.url, lambda connections: apply(connections, keys, parse_hook_file(RULE, "fleet")))
    return tmp_path / "home"


def event(command: str = "git status", **more: object) -> str:
    """A tool call as JSON."""
    return json.dumps({"type": "tool:pre_execute", "tool": "bash", "input": {"command": command}, **more})


@pytest.mark.req("B-02")
def test_request_prints_the_verdict_and_exits_by_it_only_when_told(server: Server, keys: Keys, home: Path) -> None:
    with workers(server.url, keys, home, "evaluator"):
        denied = fleethook("request", stdin=event("git push --force"))
        assert denied.code == 0
        assert denied.json["decision"] == "deny"
        assert "never force" in denied.json["reason"]
        assert fleethook("request", "--exit-code", stdin=event("git push --force")).code == 1
        assert fleethook("request", "--exit-code", stdin=event("git push")).json["decision"] == "abstain"
    times = fleethook("trace", denied.json["event"]).out
    assert times.index("\nverdict ") < times.index("\nreply ") < times.index("█ work"), "the reply has its own bar"


def test_request_without_an_evaluator_says_so_at_once(home: Path, keys: Keys) -> None:
    answer = fleethook("request", "--budget", "5s", stdin=event())
    assert answer.code == 0
    assert "no evaluator is alive" in answer.json["fallback"]
    assert "no evaluator is alive" in answer.err
    (report,) = fleethook("events", "list", "--json", "--decision", "fallback").lines
    assert "no evaluator is alive" in report["fallback"]


def test_published_lines_come_back_newest_first_and_filtered(home: Path) -> None:
    lines = "\n".join([event(session="s1"), event(session="s2", source="codex"), '{"type": "session:end"}'])
    published = fleethook("publish", stdin=lines)
    assert published.code == 0
    ids = published.out.split()
    listed = fleethook("events", "list", "--json").lines
    assert [one["id"] for one in listed] == ids[::-1]
    assert [one["id"] for one in fleethook("events", "list", "--json", "--type", "tool:*").lines] == [ids[1], ids[0]]
    assert [one["id"] for one in fleethook("events", "list", "--json", "--session", "s2").lines] == [ids[1]]
    assert [one["id"] for one in fleethook("events", "list", "--json", "--source", "codex-cli").lines] == [ids[1]]
    assert [one["id"] for one in fleethook("events", "list", "--json", "--limit", "1").lines] == [ids[2]]
    assert "git status" in fleethook("events", "list", "--tool", "Bash|write").out
    wrong = fleethook("events", "list", "--type", "tool:pre_exec")
    assert (wrong.code, "did you mean" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "there is no event"),
        ("[1]", "not a JSON object but a list"),
        ('{"type": "x"', "line 1 column"),
        ('{"tool": "bash"}', "no type"),
        (event() + "\n" + '{"type": 3}', "line 2"),
        (event(id="a b"), "the id"),
    ],
)
def test_input_that_is_no_event_is_refused_with_its_place(home: Path, given: str, says: str) -> None:
    refused = fleethook("publish", stdin=given)
    assert refused.code == 2
    assert says in refused.err
    assert fleethook("events", "list", "--json").lines == []


@pytest.mark.req("F-15")
def test_whatever_is_shown_is_redacted(home: Path) -> None:
    command = f"curl -H 'Authorization: Bearer {SECRET}' https://a.example"
    (name,) = fleethook("publish", stdin=event(command)).out.split()
    for args in (("list",), ("list", "--json"), ("show", name), ("show", name, "--json")):
        shown = fleethook("events", *args)
        assert shown.code == 0
        assert "curl" in shown.out
        assert SECRET not in shown.out + shown.err
    assert SECRET not in fleethook("trace", name).out


def test_what_an_agent_sends_cannot_steer_the_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    evil = "\x1b[2J\x1b]0;owned\x07\nfake line"
    published = fleethook("publish", stdin=event(evil, session=evil, cwd=evil, native=evil, host=evil, tool=evil))
    name = published.out.strip()
    for args in (("events", "list"), ("events", "show", name), ("trace", name)):
        shown = fleethook(*args)
        assert shown.code == 0
        assert "\x1b[2J" not in shown.out
        assert "\x1b]0" not in shown.out
        assert "\x07" not in shown.out
    assert "\nfake line" not in fleethook("trace", name).out


def test_lists_as_a_person_reads_them(home: Path) -> None:
    assert "no events with session s9" in fleethook("events", "list", "--session", "s9").err
    (name,) = fleethook("publish", stdin=event("git status", session="s1")).out.split()
    listed = fleethook("events", "list", "--limit", "1")
    head, row = listed.out.splitlines()
    assert head.split() == ["TIME", "DECISION", "AGENT", "SESSION", "TOOL", "WHAT", "TYPE", "ID"]
    assert name in row
    assert "git status" in row
    assert "the newest 1; --limit shows more" in listed.err
    assert (
        fleethook("events", "list", "--where", "event.input.command.contains('push')").err.strip().startswith("no ev")
    )
    assert name in fleethook("events", "list", "--where", "event.input.command.contains('status')").out
    assert fleethook("events", "list", "--where", "event.tool ==").code == 2
    shown = fleethook("events", "show", name).out.splitlines()
    assert shown[0].startswith(f"event    {name}")
    assert '    "command": "git status"' in shown
    assert fleethook("trace", name).out.splitlines()[-1] == "deliveries  none"
    assert fleethook("publish", "--json", stdin=event()).json["id"].startswith("e")


def test_an_event_is_found_wherever_its_time_points(home: Path, server: Server, keys: Keys) -> None:
    old, future = "e000000000001" + "a" * 20, "effffffffffff" + "b" * 20
    names = [old, future, "my-own-id"]
    assert fleethook("publish", stdin="\n".join(event(id=name) for name in names)).out.split() == names
    for name in names:
        assert fleethook("events", "show", name, "--json").json["id"] == name
    unknown = fleethook("events", "show", "e" + "0" * 32)
    assert (unknown.code, unknown.out) == (1, "")
    assert "no event is called" in unknown.err


def test_purge_leaves_what_is_not_delivered(home: Path, server: Server, keys: Keys) -> None:
    fleethook("publish", stdin="\n".join(event(session="s1") for _ in range(3)) + "\n" + event(session="s2"))
    refused = fleethook("events", "purge", "--all", "--yes")
    assert (refused.code, "no dispatcher has ever read" in refused.err) == (1, True)

    client = sync_client(server.url)
    stream = keys("events")
    client.xgroup_create(stream, "dispatchers", "0")
    rows: Any = client.xreadgroup("dispatchers", "one", {stream: ">"}, count=2)
    first, second = (name for name, _ in rows[0][1])
    client.xack(stream, "dispatchers", first)
    # One is acknowledged, one is pending, two have not been read.
    assert fleethook("events", "purge", "--session", "s1", "--yes", "--json").json == {"removed": 1, "kept": 2}
    assert fleethook("events", "purge", "--all", "--yes", "--json").json == {"removed": 0, "kept": 0}
    client.xack(stream, "dispatchers", second)
    assert fleethook("events", "purge", "--older-than", "1h", "--yes", "--json").json["removed"] == 0
    assert fleethook("events", "purge", "--all", "--yes", "--json").json["removed"] == 1
    assert client.xlen(stream) == 2
    client.close()
    assert fleethook("events", "purge", "--all").code == 2, "nobody can be asked here"
    assert fleethook("events", "purge", "--yes").code == 2


def test_no_server_is_exit_code_3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", f"unix://{tmp_path}/none.sock")
    for args in (("events", "list"), ("trace", "e1")):
        gone = fleethook(*args, stdin=event())
        assert (gone.code, gone.out) == (3, "")
        assert "fleethook up" in gone.err


@pytest.mark.req("X-06")
def test_what_is_published_without_a_server_waits_on_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also on a machine that has never had a spool."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", f"unix://{tmp_path}/none.sock")
    kept = fleethook("publish", stdin=event())
    assert kept.code == 0
    assert "1 event waits on this disk" in kept.err
    (spool,) = fleethook("status", "--json").json["spools"]
    assert spool["records"] == 1


def test_tail_follows_until_it_is_interrupted(home: Path, server: Server, keys: Keys) -> None:
    tail = subprocess.Popen(
        [sys.executable, "-m", "workers.cli", "tail", "--json", "--session", "s1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert tail.stdout is not None
    assert tail.stderr is not None
    try:
        assert b"filters are active" in tail.stderr.readline()
        client = sync_client(server.url)
        wait_until(lambda: any(one["cmd"] == "xread" for one in client.client_list()), "it waits for events")
        client.close()
        fleethook("publish", stdin=event(session="s2") + "\n" + event(f"echo {SECRET}", session="s1"))
        line = tail.stdout.readline()
        assert json.loads(line)["session"] == "s1"
        assert SECRET.encode() not in line
        tail.send_signal(2)
        assert tail.wait(PATIENCE) == 0
        assert (tail.stdout.read(), tail.stderr.read()) == (b"", b"")
    finally:
        tail.kill()
        tail.communicate()


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("event.tool = 'bash'", "syntax error at column 12, at \"= 'bash'\"; compare with =="),
        ("event.tool ==", "it ends too early, at column 14"),
        ("tool == 'bash'", "there is no 'tool'; a condition reads event.type"),
        ("event.tool", "`event.tool` gives str, not true or false"),
        ("1 + 1", "gives int, not true or false"),
    ],
)
@pytest.mark.parametrize("command", [("tail",), ("events", "list"), ("replay", "--since", "1h", "--yes")])
def test_a_wrong_condition_is_a_usage_error_that_names_the_place(
    home: Path, command: tuple[str, ...], where: str, said: str
) -> None:
    """Issue 11, section 3: `--where` in CEL. Nothing is followed or listed with a condition that can never hold."""
    refused = fleethook(*command, "--where", where)
    assert refused.code == 2
    assert said in refused.err


def test_a_mistyped_id_is_answered_with_the_nearest(home: Path) -> None:
    """Issue 11, section 3: suggestions for every mistyped choice; an id that is like no other has none."""
    name = fleethook("publish", stdin='{"type": "session:start"}').out.strip()
    for given in (f"{name[6:15]}z", f"{name[:32]}z"):
        refused = fleethook("trace", given)
        assert refused.code == 1
        assert re.search(rf"no event is called '{given}'; did you mean ({name[:33]}|{name[6:16]})\?", refused.err)
    refused = fleethook("trace", "zzzz")
    assert (refused.code, "did you mean" in refused.err) == (1, False)
    for command in (("dead", "retry"), ("dead", "drop"), ("dead", "export"), ("deliveries", "retry")):
        refused = fleethook(*command, "nosuch")
        assert refused.code == 1
        assert re.search(r"no (dead letter|delivery) is called 'nosuch'; see `fleethook \w+ list`", refused.err)


def test_commands_take_the_beginning_of_an_id(home: Path) -> None:
    """Any beginning that only one event has; else the ids that begin so are named (issue 11, ids)."""
    first, second = "e0000000000011111111111111111aaaa", "e0000000000011111111111111111bbbb"
    for name in (first, second, "plan-7"):
        fleethook("publish", stdin=event(id=name))
    assert fleethook("events", "show", first[:-3], "--json").json["id"] == first
    assert fleethook("trace", "plan", "--json").json["event"]["id"] == "plan-7"
    both = fleethook("trace", first[:12])
    assert both.code == 1
    assert f"{first}, {second}" in both.err
    older, newer = "e01990000000a" + "c" * 20, "e01991000000a" + "d" * 20
    for name in (older, newer):
        fleethook("publish", stdin=event(id=name))
    now = fleethook("publish", stdin=event()).out.strip()
    for name in (older, newer, now):
        assert fleethook("trace", name[6:16], "--json").json["event"]["id"] == name
        assert fleethook("events", "show", name[6:14], "--json").json["id"] == name
    assert f"{older}, {newer}" in fleethook("trace", older[6:13]).err
    assert "no event is called 'e77'" in fleethook("events", "show", "e77").err
