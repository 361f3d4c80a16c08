"""What an event owes to whom, and how a delivery and its attempts are read (B-06, G-10)."""

from __future__ import annotations

import pytest

from bus.errors import DecodeError
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.verdicts import Verdict
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.delivery.deliveries import (
    COMMAND_CAP,
    Attempt,
    attempt_record,
    deliveries_of,
    dispatch_call,
    pack_fields,
    read_delivery,
    unpack_fields,
)

KEYS = Keys("t")
FLEET = """
endpoints:
  - {id: a, url: "https://a.example", events: "tool:*", max_in_flight: 3, timeout: 2.5}
  - {id: denied, url: "https://b.example", when: 'verdict.decision == "deny"'}
  - {id: off, url: "https://c.example", enabled: false}
hooks:
  - {id: log, on: "tool:pre_execute", blocking: false, command: "cat", timeout: 7}
  - {id: check, on: "tool:pre_execute", command: "true"}
  - {id: rule, on: "tool:pre_execute", rule: {decision: deny, reason: no}}
  - {id: tell, on: "tool:pre_execute", blocking: false, http: "https://d.example"}
"""
USER = 'hooks:\n  - {id: mine, on: "tool:pre_execute", blocking: false, command: "true"}\n'


def in_force() -> HookSet:
    """The fleet's and a user's hooks."""
    return HookSet(
        [Layered("fleet", "7", parse_hook_file(FLEET, "fleet")), Layered("user", "abc", parse_hook_file(USER, "user"))]
    )


def event() -> Event:
    """A tool call on a host."""
    return Event(type="tool:pre_execute", tool="bash", id="e1", host="h1")


@pytest.mark.req("B-06", "P-11")
def test_nobody_asked_for_a_verdict() -> None:
    found = {one.id: one for one in deliveries_of(event(), None, in_force(), KEYS)}
    assert set(found) == {"e1.a", "e1.log", "e1.check", "e1.tell", "e1.mine"}
    assert found["e1.a"].stream == KEYS("deliveries")
    assert found["e1.mine"].stream == KEYS("deliveries", "h1"), "a user's hook runs on its own host"
    assert (found["e1.a"].target, found["e1.a"].cap, found["e1.a"].timeout_ms) == ("endpoint:a", 3, 2_500)
    assert (found["e1.log"].target, found["e1.log"].cap, found["e1.log"].timeout_ms) == ("hook:log", COMMAND_CAP, 7_000)
    assert {one.kind for one in found.values()} == {"webhook", "command", "http"}
    assert (found["e1.a"].version, found["e1.mine"].version, found["e1.mine"].layer) == ("7", "abc", "user")


@pytest.mark.req("P-11")
def test_after_a_verdict_only_the_background_hooks_are_left() -> None:
    found = [one.id for one in deliveries_of(event(), Verdict(decision="deny", reason="no"), in_force(), KEYS)]
    assert sorted(found) == ["e1.a", "e1.denied", "e1.log", "e1.mine", "e1.tell"]
    found = [one.id for one in deliveries_of(event(), Verdict(decision="allow"), in_force(), KEYS)]
    assert "e1.denied" not in found


def test_a_kept_event_is_read_as_it_was_kept() -> None:
    entry = StreamEntry("s", "5-1", {b"id": b"e1", b"body": b"\x00\xff" * 100})
    assert unpack_fields(pack_fields(entry)) == {**entry.fields, b"entry": b"5-1"}
    with pytest.raises(DecodeError):
        unpack_fields(b"\x01")
    with pytest.raises(DecodeError):
        unpack_fields(b"")


def test_a_dispatch_never_holds_a_command() -> None:
    call = dispatch_call(
        StreamEntry("s", "5-1", {}), event(), deliveries_of(event(), None, in_force(), KEYS), KEYS, "g", b"", 1
    )
    assert not {"cat", "true"} & {str(arg) for arg in call.args}


@pytest.mark.req("G-10")
def test_attempts_are_read_in_their_order_and_secrets_hidden() -> None:
    attempts = [
        Attempt(ms=n, took=1.5, outcome="retry", status=500 + n, error="x", output="y", carrier="c") for n in range(12)
    ]
    fields = {b"attempt:%d" % (n + 1): attempt_record(one) for n, one in enumerate(attempts)}
    fields |= {
        b"event": b"e1",
        b"hook": b"a",
        b"state": b"due",
        b"due": b"17",
        b"tries": b"3",
        b"attempts": b"12",
        b"target": b"endpoint:a",
        b"reason": b"token=ghp_abcdefghijklmnopqrstuvwxyz012345",
    }
    one = read_delivery("e1.a", fields)
    assert one.log == tuple(attempts)
    assert (one.id, one.event, one.state, one.due, one.attempts, one.target) == (
        "e1.a",
        "e1",
        "due",
        17,
        12,
        "endpoint:a",
    )
    assert "ghp_" not in one.reason
    assert read_delivery("e1.a", {}).state == ""
