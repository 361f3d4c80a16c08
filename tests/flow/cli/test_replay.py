"""Recovery on the command line: what is chosen, tried again, exported and sent again, and the jobs that do it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run, workers
from tests.support.beside import beside
from tests.support.receivers import Receiver, receiving
from tests.support.servers import Server
from tests.support.waiting import wait_until

HOOKS = """
endpoints:
  - {{id: log, url: "{url}log", events: "turn:*", retry: [3600]}}
  - {{id: gone, url: "{url}gone", events: "session:end"}}
network: {{allow: ["127.0.0.1:{port}"]}}
"""


@pytest.fixture
def home(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The command line is set to this test's fleet."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@contextmanager
def receiving_two(server: Server, keys: Keys) -> Iterator[Receiver]:
    """A receiver with two endpoints published for it, one of which is gone."""
    with beside(receiving) as one:
        gone = one.usual._replace(status=410, body=b"password=hunter2hunter2", headers=["Set-Cookie: a=b"])
        one.by_path["/gone"] = gone
        text = HOOKS.format(url=one.url(), port=one.port)
        run(server.url, lambda connections: apply(connections, keys, parse_hook_file(text, "fleet")))
        yield one


def publish(kind: str, **more: object) -> str:
    """The id of a new event."""
    return fleethook("publish", stdin=json.dumps({"type": kind, **more})).out.strip()


def state_of(name: str) -> str:
    """A delivery's state, as the command line says it."""
    shown = fleethook("deliveries", "show", name, "--json")
    return str(shown.json["state"]) if shown.code == 0 else ""


def ids(*args: str) -> list[str]:
    """The ids that a listing command prints."""
    return [one["id"] for one in fleethook(*args, "--json").lines]


@pytest.mark.req("G-10")
def test_deliveries_are_filtered_and_tried_now(server: Server, keys: Keys, home: Path) -> None:
    with receiving_two(server, keys) as receiver, workers(server.url, keys, home, "dispatcher", "carrier"):
        receiver.fail(2)
        names = [f"{publish('turn:end')}.log" for _ in range(2)]
        wait_until(lambda: [state_of(name) for name in names] == ["due", "due"], "both are to be tried in an hour")
        gone = f"{publish('session:end')}.gone"
        wait_until(lambda: state_of(gone) == "dead", "410 is final")
        assert set(ids("deliveries", "list", "--endpoint", "log", "--status", "5xx")) == {*names}
        assert ids("deliveries", "list", "--state", "due", "--state", "dead", "--endpoint", "gone") == [gone]
        assert ids("deliveries", "list", "--until", "1h") == []
        assert len(ids("deliveries", "list", "--since", "1h")) == 3
        assert "no deliveries with endpoint nobody" in fleethook("deliveries", "list", "--endpoint", "nobody").err
        shown = fleethook("deliveries", "show", names[0])
        assert "  next 20" in shown.out
        assert "first byte" in shown.out
        assert "< 503 X" in shown.out
        attempt = fleethook("deliveries", "show", names[0], "--json").json["log"][0]
        assert attempt["next"] > attempt["ms"] + 3_000_000
        assert attempt["phases"]["total"] >= attempt["phases"]["first_byte"] > 0
        assert attempt["head"].startswith("503 X")

        tried = fleethook("deliveries", "retry", "--endpoint", "log", "--dry-run", "--json")
        kinds = [{"endpoint": "log", "reason": "receiver answered 503", "count": 2}]
        assert tried.json == {"matching": 2, "done": 0, "endpoints": {"log": 2}, "kinds": kinds}
        listed = fleethook("deliveries", "retry", *names, "e9.log", "--dry-run").out
        assert listed.splitlines()[0] == "2 would be tried now"
        assert listed.splitlines()[-1].split() == ["2", "log", "receiver", "answered", "503"]
        assert fleethook("deliveries", "retry").code == 2
        assert fleethook("deliveries", "retry", names[0], "--all").code == 2
        assert fleethook("deliveries", "retry", "--endpoint", "log").code == 2, "nobody can be asked here"
        tried = fleethook("deliveries", "retry", "--endpoint", "log", "--state", "due", "--yes", "--json")
        assert (tried.code, tried.json) == (0, {"matching": 2, "done": 2})
        wait_until(lambda: [state_of(name) for name in names] == ["delivered"] * 2, "they go at once")
        again = fleethook("deliveries", "retry", names[0])
        assert (again.code, "not due, parked or dead" in again.err) == (1, True)
        assert fleethook("webhooks", "enable", "gone").code == 0, "its 410 had disabled it"
        partly = fleethook("deliveries", "retry", gone, names[0])
        assert (partly.code, partly.out) == (5, "1 tried now\n")
        wait_until(lambda: receiver.ids[gone.replace(".", "_")] == 2, "the dead one goes too")


@pytest.mark.req("G-10")
def test_dead_letters_are_exported_whole_and_redacted(server: Server, keys: Keys, home: Path, tmp_path: Path) -> None:
    with receiving_two(server, keys), workers(server.url, keys, home, "dispatcher", "carrier"):
        event = publish("session:end", data={"api_key": "sk-hunter2hunter2", "n": 1})
        wait_until(lambda: state_of(f"{event}.gone") == "dead", "410 is final")
    (line,) = fleethook("dead", "export", "--endpoint", "gone", "--since", "1h").lines
    assert (line["letter"]["id"], line["event"]["id"], line["event"]["data"]["n"]) == (f"{event}.gone", event, 1)
    assert line["log"][0]["head"].splitlines()[-1] == "Set-Cookie: [redacted]"
    assert "hunter2" not in json.dumps(line)
    assert fleethook("dead", "export", "--reason", "elsewhere").err.strip() == "no dead letters"
    target = tmp_path / "dead.jsonl"
    written = fleethook("dead", "export", "-o", str(target))
    assert (written.code, written.out, "1 dead letter exported" in written.err) == (0, "", True)
    assert json.loads(target.read_text()) == line
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert fleethook("dead", "export", "-o", str(target)).code == 2, "nothing is overwritten"
    assert [one["count"] for one in fleethook("dead", "list", "--group", "reason", "--json").json] == [1]
    assert ids("dead", "list", "--endpoint", "log") == []
    for action in ("retry", "drop", "export"):
        every = ("--all",) if action != "export" else ()
        counted = fleethook("dead", action, *every, "--dry-run", "--json").json
        assert (counted["matching"], counted["endpoints"]) == (1, {"gone": 1})
        assert "410" in counted["kinds"][0]["reason"]
        unknown = fleethook("dead", action, "e9.gone", "--dry-run")
        assert (unknown.code, unknown.out) == (1, "")
        assert "no dead letter is called 'e9.gone'" in unknown.err
    assert "for good (gone 1)?" in fleethook("dead", "drop", "--all").err
    assert fleethook("dead", "drop", "--endpoint", "gone", "--until", "1h", "--yes").out == "nothing can be dropped\n"


def test_named_ones_are_those_that_are_dropped_however_many_they_are(
    server: Server, keys: Keys, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.cli.deliveries.bulk.MANY", 0)
    with receiving_two(server, keys) as receiver, workers(server.url, keys, home, "dispatcher", "carrier"):
        receiver.by_path["/log"] = receiver.usual._replace(status=404)
        names = [f"{publish('turn:end')}.log" for _ in range(3)]
        wait_until(lambda: [state_of(name) for name in names] == ["dead"] * 3, "404 is final")
    assert fleethook("dead", "drop", *names[:2], "--yes").out == "2 dropped\n"
    assert ids("dead", "list") == names[2:]


@pytest.mark.req("G-22")
def test_a_replay_counts_then_sends_and_is_a_job_that_is_listed(server: Server, keys: Keys, home: Path) -> None:
    with receiving_two(server, keys) as receiver, workers(server.url, keys, home, "dispatcher", "carrier"):
        events = [publish("turn:end", data={"n": n}) for n in range(3)]
        publish("session:start")
        wait_until(lambda: len(receiver.got) == 3, "they are delivered")
        receiver.got.clear()
        asked = ("replay", "--since", "1h", "--endpoint", "log", "--where", "event.data.n > 0")
        counted = fleethook(*asked, "--dry-run", "--json")
        assert counted.json == {"events": 2, "matching": 2, "endpoints": {"log": 2}, "done": 0}
        assert "2 deliveries of 2 events would be sent again: log 2" in fleethook(*asked, "--dry-run").out
        assert fleethook(*asked).code == 2, "nobody can be asked here"
        assert fleethook("replay", "--yes").code == 2, "since when?"
        assert fleethook("replay", "--since", "1h", "--where", "event.", "--yes").code != 0
        doubtful = fleethook("replay", "--since", "1h", "--until", "now", "--where", "event.data.m > 0", "--dry-run")
        assert "--where cannot be evaluated for 4 events, which are left out" in doubtful.err
        assert 'did you mean "log"' in fleethook("replay", "--since", "1h", "--endpoint", "lgo", "--yes").err
        assert "nothing can be sent again" in fleethook("replay", "--since", "1h", "--endpoint", "gone", "--yes").out
        assert receiver.got == []
        sent = fleethook(*asked, "--rate", "100/s", "--yes", "--json")
        assert (sent.code, sent.json["done"], sent.json["state"]) == (0, 2, "done"), "no chores worker: it is done here"
        wait_until(lambda: len(receiver.got) == 2, "they are sent again")
    name = sent.json["job"]
    assert {got.headers["fleethook-replay-of"] for got in receiver.got} == {*events[1:]}
    assert receiver.ids == {f"{event}_log_r{name}": 1 for event in events[1:]}
    (listed,) = fleethook("jobs", "list", "--json").lines
    assert (listed["id"], listed["kind"], listed["state"], listed["done"]) == (name, "replay", "done", 2)
    assert "where event.data.n > 0" in fleethook("jobs", "list").out
    assert f"job {name}: replay, done, 2 deliveries" in fleethook("jobs", "show", name, "--follow").out
    over = fleethook("jobs", "stop", name)
    assert (over.code, "had ended already" in over.err) == (1, True)
    assert fleethook("jobs", "show", "nothing").code == 1
