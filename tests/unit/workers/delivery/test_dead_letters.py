"""What is kept of an entry that nobody could work on."""

from __future__ import annotations

from typing import Any

from bus.wire.codec import pack
from bus.wire.keys import DEAD_MS, Keys
from bus.wire.streams import StreamEntry
from workers.delivery.dead_letters import CUT_BYTES, poison_call

KEYS = Keys("t")


def buried(body: bytes, **more: Any) -> dict[bytes | str, Any]:
    """The fields that a poison entry leaves behind."""
    fields = {b"id": b"e1", b"source": b"claude", b"body": body}
    call = poison_call(KEYS, StreamEntry(KEYS("requests"), "17-3", fields), "why", acknowledge=more.get("group", ""))
    assert call.name == "bury"
    assert call.keys == (KEYS("deadletter", "requests-17-3"), KEYS("dead"), KEYS("requests"))
    assert call.args[0] == more.get("group", "")
    assert call.args[1] == "17-3"
    assert call.args[3:5] == (DEAD_MS, "requests-17-3")
    said: list[Any] = list(call.args[5:])
    return dict(zip(said[::2], said[1::2], strict=True))


def test_an_entry_says_where_it_stood_and_why_it_ended() -> None:
    fields = buried(b"\xc1 what", group="evaluators")
    assert (fields["kind"], fields["stream"], fields["entry"], fields["reason"]) == ("entry", "requests", "17-3", "why")
    assert (fields["event"], fields["source"], fields["bytes"]) == (b"e1", b"claude", 6)
    assert "what" in fields["body"].decode()


def test_secrets_are_gone_before_it_is_kept() -> None:
    """It outlives the streams by weeks, so nothing raw may lie in it, not even where the cut goes through a secret."""
    token = b"ghp_" + b"a1B2" * 9
    for before in (0, CUT_BYTES - 20):
        fields = buried(
            pack(b'{"command": "' + b"x " * (before // 2) + b"curl -H 'Authorization: token " + token + b"'\"}")
        )
        assert token[:20] not in fields["body"]
        assert len(fields["body"].decode()) <= CUT_BYTES


def test_a_large_body_is_cut() -> None:
    fields = buried(b"x" * 1_000_000)
    assert (fields["bytes"], len(fields["body"])) == (1_000_000, CUT_BYTES)
