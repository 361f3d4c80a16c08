"""Endpoints by command: added, changed, rotated and taken out; URLs and signatures checked."""

from __future__ import annotations

import difflib
import json
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.http.signing import headers as signed
from bus.ids import host_name
from bus.secrets.references import resolve_secret
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run, workers
from tests.support.beside import beside
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.servers import Server
from tests.support.waiting import wait_until

CASES = json.loads((Path(__file__).parents[2] / "golden" / "ssrf-cases.json").read_text(encoding="utf-8"))
MINE = """\
# what is mine
endpoints:
  - id: first   # stays
    url: https://203.0.114.1/x

guards: {destructive-commands: true}
"""


@pytest.fixture
def mine(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's own file, with one endpoint in it."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "home" / "config" / "fleethook.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(MINE)
    return path


def lines(before: str, after: str) -> list[str]:
    """What a change added and took away."""
    found = difflib.ndiff(before.splitlines(), after.splitlines())
    return sorted(line for line in found if line[:1] in "+-" and line[2:].strip())


def verified(receiver: Receiver, *secrets: str) -> None:
    """The last webhook that came is signed with each of the secrets, says another implementation."""
    got = receiver.got[-1]
    for secret in secrets:
        Webhook(secret).verify(got.body, got.headers)


@pytest.mark.req("G-10")
def test_an_endpoint_from_its_first_line_to_its_last(mine: Path) -> None:
    with beside(receiving) as receiver:
        url = receiver.url("/in?token=abcdef123456")
        refused = fleethook("webhooks", "add", url, "--yes")
        assert (refused.code, "(loopback), which is not in the allow list" in refused.err) == (1, True)
        assert mine.read_text() == MINE
        asked = fleethook("webhooks", "add", url, "--allow")
        assert (asked.code, mine.read_text()) == (2, MINE), "nobody can be asked here"

        shown = fleethook("webhooks", "add", url, "--id", "in", "--allow", "--secret", "generate", "--dry-run")
        assert (shown.code, mine.read_text(), "whsec_" in shown.out) == (0, MINE, False)
        made = fleethook(
            "webhooks",
            "add",
            url,
            "--id",
            "in",
            "--allow",
            "--secret",
            "generate",
            "--events",
            "tool:*",
            "retry=gobby",
            "headers.X-Team=red",
            "--yes",
            "--json",
        ).json
        secret, kept = made["secret"], Path(made["secret_file"])
        assert lines(MINE, mine.read_text()) == sorted(
            [
                "+   - id: in",
                f'+     url: "{url}"',
                '+     events: "tool:*"',
                f'+     secret: "file:{kept}"',
                "+     retry: gobby",
                "+     headers: {X-Team: red}",
                "+ network:",
                f'+   allow: ["127.0.0.1:{receiver.port}"]',
            ]
        )
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert "abcdef123456" not in made["diff"]
        assert fleethook("webhooks", "add", url, "--id", "in", "--yes").code == 4, "the id is taken"

        assert fleethook("webhooks", "test", "in").code == 0
        verified(receiver, secret)
        assert receiver.got[-1].headers["x-team"] == "red"

        new = fleethook("webhooks", "rotate", "in", "--yes", "--json").json["secret"]
        assert new != secret
        assert fleethook("webhooks", "test", "in").code == 0
        verified(receiver, new, secret)
        whole = fleethook("webhooks", "show", "in")
        assert "old secrets" in whole.out
        record = fleethook("webhooks", "show", "in", "--json").json
        assert (record["retry"], len(record["old_secrets"])) == ([1, 2, 4], 1)
        assert not {secret, new} & set(whole.out.split() + json.dumps(record).split('"'))
        last = fleethook("webhooks", "rotate", "in", "--overlap", "0", "--yes", "--json").json["secret"]
        assert fleethook("webhooks", "test", "in").code == 0
        verified(receiver, last)
        assert receiver.got[-1].headers["webhook-signature"].count("v1,") == 1, "a leaked secret ends at once"
        assert fleethook("webhooks", "rotate", "in", "--overlap", "8d", "--yes").code == 4

    before = mine.read_text()
    bad = fleethook("webhooks", "set", "in", "timeout=-1", "--yes")
    assert (bad.code, "timeout has to be more than 0" in bad.err, mine.read_text()) == (4, True, before)
    unsaid = fleethook("webhooks", "set", "in", "timeout", "--yes")
    assert (unsaid.code, "write FIELD=VALUE" in unsaid.err, mine.read_text()) == (2, True, before)
    assert fleethook("webhooks", "set", "in", "url=http://169.254.169.254/", "--allow", "--yes").code == 4
    assert fleethook("webhooks", "set", "in", "timeout=5", "headers.X-Team=", "retry=[1, 2]", "--yes").code == 0
    assert lines(before, mine.read_text()) == sorted(
        [
            "-     retry: gobby",
            "+     retry: [1, 2]",
            "-     headers: {X-Team: red}",
            "+     timeout: 5",
        ]
    )
    paced = ["rate=10/s", "batch={max_events: 5, max_wait: 2}"]
    assert fleethook("webhooks", "set", "in", *paced, "--yes").code == 0
    listed = [one for one in fleethook("webhooks", "list", "--json").lines if one["id"] == "in"]
    for record in (fleethook("webhooks", "show", "in", "--json").json, *listed):
        assert [record[name] for name in ("rate", "order", "batch")] == [
            "10/s",
            "none",
            {"max_events": 5, "max_wait": 2},
        ]
    assert "max_events=5 max_wait=2" in fleethook("webhooks", "show", "in").out
    both = fleethook("webhooks", "set", "in", "order=fifo", "--yes")
    assert (both.code, "batch and order exclude each other" in both.err) == (4, True)
    assert fleethook("webhooks", "set", "in", "order=fifo", "batch=", "rate=", "--yes").code == 0
    assert fleethook("webhooks", "show", "in", "--json").json["order"] == "fifo"
    assert fleethook("webhooks", "remove", "in", "--yes").code == 0
    assert lines(MINE, mine.read_text()) == [f'+   allow: ["127.0.0.1:{receiver.port}"]', "+ network:"]
    assert fleethook("webhooks", "remove", "in", "--yes").code == 1


@pytest.mark.req("G-10")
def test_the_published_set_is_changed_as_a_new_version_and_keeps_no_secret_in_the_clear(
    server: Server, keys: Keys, mine: Path
) -> None:
    run(server.url, lambda connections: apply(connections, keys, parse_hook_file("endpoints: []", "fleet")))

    async def raw(connections: Connections) -> str:
        with connections.lease() as connection:
            (reply,) = await connection.exchange([("GET", keys("hookset", "3"))])
        return bytes(reply).decode()

    with beside(receiving) as receiver:
        added = fleethook(
            "webhooks", "add", receiver.url(), "--fleet", "--allow", "--secret", "generate", "--yes", "--json"
        )
        assert (added.code, added.json["id"], added.json["version"]) == (0, "127-0-0-1", 2)
        turned = fleethook("webhooks", "rotate", "127-0-0-1", "--fleet", "--yes", "--json")
        assert (turned.code, turned.json["version"]) == (0, 3)
        stored = run(server.url, raw)
        for secret in (added.json["secret"], turned.json["secret"]):
            assert secret not in stored
        assert stored.count("sealed:") == 2
        assert fleethook("webhooks", "set", "127-0-0-1", "timeout=3", "--fleet", "--yes").code == 0
        assert fleethook("webhooks", "test", "127-0-0-1").code == 0
        verified(receiver, added.json["secret"], turned.json["secret"])
    again = fleethook("webhooks", "add", receiver.url(), "--id", "127-0-0-1", "--fleet", "--yes")
    assert (again.code, "already" in again.err) == (4, True)
    assert fleethook("webhooks", "remove", "127-0-0-1", "--fleet", "--yes").code == 0
    assert fleethook("webhooks", "remove", "127-0-0-1", "--fleet", "--yes").code == 1
    assert mine.read_text() == MINE


@pytest.mark.req("G-20")
def test_a_url_is_checked_with_a_reason() -> None:
    def check(url: str, *more: str) -> tuple[int, str]:
        done = fleethook("webhooks", "check", url, "--json", *more)
        assert done.json["reason"]
        return done.code, done.json["verdict"]

    assert check("https://h.example/", "--resolve", "H.example=8.8.8.8,2606:4700::1111") == (0, "allow")
    assert check("https://bücher.example/", "--resolve", "BÜCHER.example=8.8.8.8") == (0, "allow")
    assert check("https://h.example/", "--resolve", "h.example=8.8.8.8,10.0.0.1") == (1, "refuse")
    assert check("http://127.0.0.1:9000/", "--allow", "localhost:9000") == (0, "allow")
    assert check("https://h.example./", "--resolve", "h.example.=8.8.8.8") == (1, "refuse")
    assert fleethook("webhooks", "check", "https://h.example/", "--resolve", "h.example").code == 2
    for case in [one for one in CASES if one["stage"] in {"parse", "address"}][::4]:
        assert check(case["url"]) == ((0, "allow") if case["expect"] == "allow" else (1, "refuse")), case


@pytest.mark.req("G-09")
def test_a_webhook_is_verified_as_it_came(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # of the specification's example
    monkeypatch.setenv("HOOK_SECRET", secret)
    assert resolve_secret("env:HOOK_SECRET") == secret
    head = signed([secret], "msg_1", 1614265330, b'{"a": 1}\n\n')
    text = (
        "POST /x HTTP/1.1\n" + "".join(f"{name.title()}: {value}\n" for name, value in head.items()) + '\n{"a": 1}\n\n'
    )
    said = ("webhooks", "verify", "--secret", "env:HOOK_SECRET", "--at", "1614265330")
    for message in (text, text.replace("\n", "\r\n", text.count("\n") - 2)):
        assert fleethook(*said, stdin=message).code == 0
    (tmp_path / "message").write_text(text)
    good = fleethook(*said, str(tmp_path / "message"), "--json")
    assert (good.code, good.json["verdict"], good.json["id"]) == (0, "allow", "msg_1")
    flags = [part for name, value in head.items() for part in ("-H", f"{name}: {value}")]
    assert fleethook(*said, *flags, stdin='{"a": 1}\n\n').code == 0
    other = fleethook(*said, stdin=text.replace("1}", "2}"))
    assert (other.code, "no signature of the webhook matches" in other.out) == (1, True)
    late = fleethook(*said[:-1], "1614265700", stdin=text)
    assert (late.code, "370 seconds away from our clock (behind)" in late.out) == (1, True)
    assert fleethook(*said[:-1], "1614265700", "--tolerance", "10m", stdin=text).code == 0
    assert fleethook("webhooks", "verify", stdin=text).code == 2


@pytest.mark.req("G-10")
def test_an_endpoint_is_paused_disabled_and_enabled_again(server: Server, keys: Keys, mine: Path) -> None:
    def stands() -> str:
        return str(fleethook("webhooks", "list", "--json").lines[0]["standing"])

    def owed(event: str) -> str:
        listed = fleethook("deliveries", "list", "--event", event, "--json").lines
        return str(listed[0]["state"]) if listed else ""

    with ExitStack() as stack:
        receiver = stack.enter_context(beside(receiving))
        mine.write_text(f'endpoints: [{{id: in, url: "{receiver.url()}"}}]\nnetwork: {{allow: ["localhost"]}}\n')
        stack.enter_context(workers(server.url, keys, mine.parents[1], "dispatcher", "carrier"))
        assert stands() == "active"
        assert fleethook("webhooks", "resume", "in").code == 1, "it is not paused"
        paused = fleethook("webhooks", "pause", "in", "--reason", "moving house", "--json")
        assert (paused.code, paused.json["changed"], stands()) == (0, True, "paused")
        assert "was paused already" in fleethook("webhooks", "pause", "in").out
        assert "moving house" in fleethook("webhooks", "show", "in").out
        event = fleethook("publish", stdin=json.dumps({"type": "session:start", "host": host_name()})).out.strip()
        wait_until(lambda: owed(event) == "parked", "it waits")
        assert receiver.got == []
        assert fleethook("webhooks", "resume", "in").code == 0
        wait_until(lambda: owed(event) == "delivered", "it goes on")

        assert fleethook("webhooks", "disable", "in").code == 2, "nobody can be asked here"
        assert fleethook("webhooks", "disable", "in", "--yes").code == 0
        assert stands() == "disabled"
        enabled = fleethook("webhooks", "enable", "in")
        assert (enabled.code, "it was disabled since" in enabled.out, stands()) == (0, True, "active")
        assert fleethook("webhooks", "enable", "in").code == 1
    assert fleethook("webhooks", "pause", "im").code == 1


@pytest.mark.req("G-22")
def test_a_test_at_pagerduty_asks_first_and_leaves_no_incident_behind(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PD_KEY", "R0UT1NGKEY")
    with beside(receiving) as receiver:
        receiver.usual = Answer(202, b'{"status": "success"}')
        made = fleethook(
            "webhooks",
            "add",
            receiver.url("/enqueue"),
            "--id",
            "call",
            "--allow",
            "--yes",
            "format=pagerduty",
            "routing_key=env:PD_KEY",
            "payload=thin",
            "resolve=retry",
        )
        assert made.code == 0, made.err
        shown = fleethook("webhooks", "show", "call").out
        assert (" None" in shown, "pagerduty" in shown) == (False, True)
        asked = fleethook("webhooks", "test", "call")
        assert (asked.code, "real incident" in asked.err, "--yes" in asked.err, receiver.got) == (2, True, True, [])

        done = fleethook("webhooks", "test", "call", "--yes")
        assert (done.code, "is resolved" in done.out) == (0, True)
        opened, ended = (one.json for one in receiver.got)
        assert (opened["event_action"], ended["event_action"]) == ("trigger", "resolve")
        assert opened["dedup_key"] == ended["dedup_key"]
        assert opened["dedup_key"].startswith("fleethook/test-e"), "no incident of a real event is touched"
        assert fleethook("webhooks", "test", "call", "--yes", "--json").json["resolved"] is True

        receiver.got.clear()
        receiver.next_answers.extend([Answer(202), Answer(500)])
        left = fleethook("webhooks", "test", "call", "--yes")
        assert (left.code, "is still open at PagerDuty" in left.err) == (1, True)
        receiver.got.clear()
        receiver.fail(1, 400)
        assert fleethook("webhooks", "test", "call", "--yes", "--json").json["resolved"] is False
        assert len(receiver.got) == 1, "what was not opened is not resolved"


@pytest.mark.req("G-10", "F-18", "G-17")
def test_what_was_added_is_shown_as_the_list_shows_it(mine: Path) -> None:
    slack = "https://203.0.114.1/services/T0/B0/abcdef1234567890"
    added = fleethook(
        "webhooks",
        "add",
        slack,
        "--id",
        "chat",
        "--yes",
        "format=slack",
        "payload=thin",
        "--events",
        "tool:*, session:end",
    )
    head, row = added.out.splitlines()[-2:]
    assert "slack thin" in row
    listed = fleethook("webhooks", "list").out.splitlines()
    assert head.split() == listed[0].split()
    assert row.split() == next(line for line in listed if line.startswith("chat ")).split()
    asks = fleethook("webhooks", "add", "https://203.0.114.1/ask", "--yes", "can_block=true", "--json").json
    records = {one["id"]: one for one in fleethook("webhooks", "list", "--json").lines}
    assert asks["endpoint"] == records[asks["id"]]
    assert (records["chat"]["format"], records["chat"]["payload"], records["chat"]["can_block"]) == (
        "slack",
        "thin",
        False,
    )
    assert "(asked)" in next(line for line in fleethook("webhooks", "list").out.splitlines() if "/ask" in line)
    fleethook("webhooks", "set", "chat", "enabled=false", "--yes")
    listing, shown = fleethook("webhooks", "list"), fleethook("webhooks", "show", "chat")
    assert "chat is not in force: `enabled: false` in" in listing.out + listing.err
    assert (shown.code, "`enabled: false` in" in shown.err) == (1, True), "and no word that there is none of this name"


@pytest.mark.req("G-22", "F-11")
def test_pagerduty_needs_no_url_and_every_other_does(mine: Path) -> None:
    made = fleethook("webhooks", "add", "format=pagerduty", "routing_key=env:PD_KEY", "--id", "call", "--yes")
    assert made.code == 0, made.err
    assert lines(MINE, mine.read_text()) == [
        "+     format: pagerduty",
        '+     routing_key: "env:PD_KEY"',
        "+   - id: call",
    ]
    before = mine.read_text()
    for args, said in (
        (("format=slack",), "say the URL"),
        (("https://203.0.114.1/", "retry=quick"), "fleethook: retry has to be default, fast, gobby, once or a list"),
        (("https://203.0.114.1/", "--events", "tool:pre_exec"), "fleethook: no event type is called 'tool:pre_exec'"),
    ):
        wrong = fleethook("webhooks", "add", *args, "--yes")
        assert (wrong.code in {2, 4}, said in wrong.err, mine.read_text()) == (True, True, before), wrong.err
    whole = fleethook("webhooks", "show", "first", "--json").json
    assert (whole["max_in_flight"], whole["enabled"], whole["resolve"]) == (10, True, "never"), (
        "defaults are settings too"
    )
    idle = fleethook("webhooks", "set", "first", "on_failure=deny", "--yes")
    assert (idle.code, "warning: without `can_block: true` no agent waits for the endpoint" in idle.err) == (0, True)
    assert fleethook("webhooks", "set", "first", "timeout=5", "--yes").err == "", "said once"
    first = fleethook("webhooks", "rotate", "first", "--yes").out
    assert "first is signed from now on" in first
    assert "; the old one also signs for 24h" in fleethook("webhooks", "rotate", "first", "--yes").out
    assert "; the old one no longer signs" in fleethook("webhooks", "rotate", "first", "--overlap", "0", "--yes").out


@pytest.mark.req("G-10")
def test_what_waits_for_an_endpoint_that_is_removed_becomes_dead_letters_at_once(
    server: Server, keys: Keys, mine: Path
) -> None:
    with ExitStack() as stack:
        receiver = stack.enter_context(beside(receiving))
        text = (
            f"endpoints:\n  - {{id: one, url: '{receiver.url()}', events: 'turn:end', max_in_flight: 5}}\n"
            f"  - {{id: two, url: '{receiver.url()}', events: 'session:end'}}\n"
            f"network: {{allow: ['127.0.0.1:{receiver.port}']}}\n"
        )
        run(server.url, lambda connections: apply(connections, keys, parse_hook_file(text, "fleet")))
        stack.enter_context(workers(server.url, keys, mine.parent.parent, "dispatcher", "carrier"))
        assert fleethook("webhooks", "pause", "one").code == 0
        for number in range(20):
            assert fleethook("publish", stdin=json.dumps({"type": "turn:end", "data": {"n": number}})).code == 0

        def counted(state: str) -> int:
            return len(fleethook("deliveries", "list", "--endpoint", "one", "--state", state, "--json").lines)

        wait_until(lambda: counted("parked") == 20, "all wait")
        removed = fleethook("webhooks", "remove", "one", "--fleet", "--yes", "--json")
        assert (removed.code, removed.json["waiting"]) == (0, 20)
        wait_until(lambda: counted("dead") == 20, "all are dead letters")
        assert receiver.got == [], "nothing was sent to what is gone"
        assert fleethook("webhooks", "remove", "two", "--fleet", "--yes", "--json").json["waiting"] == 0
        assert fleethook("status", "--json").json["endpoints"][0]["endpoint"].startswith("first@")
        assert len(fleethook("status", "--json").json["endpoints"]) == 1


def test_ones_own_endpoint_is_tested_and_received_without_a_server(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", f"unix://{mine}.sock")
    with beside(receiving) as receiver:
        assert (
            fleethook("webhooks", "add", receiver.url(), "--id", "in", "--allow", "--secret", "generate", "--yes").code
            == 0
        )
        sent = fleethook("webhooks", "test", "in")
        assert (sent.code, "without the fleet's hooks" in sent.err, len(receiver.got)) == (0, True, 1)
        (got,) = receiver.got
        message = "".join(f"{name}: {value}\n" for name, value in got.headers.items()) + "\n" + got.body.decode()
        held = fleethook("webhooks", "verify", "--endpoint", "in", stdin=message)
        assert (held.code, held.out) == (0, "the signature holds\n"), held.err
        assert fleethook("webhooks", "remove", "in", "--yes").code == 0
    assert fleethook("webhooks", "list").code == 3


@pytest.mark.req("G-22", "F-11")
def test_a_receiver_on_this_machine_comes_with_what_allows_it(mine: Path) -> None:
    url = "http://127.0.0.1:18990/services/T/B/X"
    allow = 'add `network: {allow: ["127.0.0.1:18990"]}` to your fleethook.yaml'
    done = fleethook("hooks", "templates", "install", "slack", "--url", url, "--yes")
    assert (done.code, allow in done.err) == (0, True), done.err
    tried = fleethook("webhooks", "test", "slack")
    assert (tried.code, allow in tried.out) == (1, True), tried.out
