"""Dead letters, which are deliveries given up and entries that could not be read: list, retry, drop and expire them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from bus.errors import DecodeError
from bus.secrets.redaction import redact_text, redact_texts
from bus.wire.codec import decode_body
from bus.wire.connections import Connections
from bus.wire.keys import DEAD_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry, call_all, checked, flat
from workers.delivery.filters import NO_FILTER, Filter, letter_test

CUT_BYTES: Final = 4096
"""How many characters of a poison entry's body are kept."""

_PAGE: Final = 200


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that was given up, or a poison entry: one that no consumer could process."""

    id: str
    kind: str
    """`delivery`, or `entry` for a poison entry."""
    ms: int
    reason: str
    event: str = ""
    hook: str = ""
    target: str = ""
    attempts: int = 0
    type: str = ""
    """The event's type; like `tool` and `session`, it is empty for a poison entry."""
    tool: str = ""
    session: str = ""
    stream: str = ""
    body: str = ""
    """The beginning of a poison entry's body, redacted."""


def poison_call(keys: Keys, entry: StreamEntry, reason: str, *, acknowledge: str) -> ScriptCall:
    """The script call that makes a poison entry a dead letter, and acknowledges it for the group `acknowledge` unless empty."""
    short = entry.stream.rpartition(":")[2]
    name = f"{short}-{entry.id}"
    fields = _letter(entry, short, reason)
    now = int(time.time() * 1000)
    return ScriptCall(
        "bury",
        (keys("deadletter", name), keys("dead"), entry.stream),
        (acknowledge, entry.id, now, DEAD_MS, name, *fields),
    )


def overdue_call(
    keys: Keys, entry: StreamEntry, event: StreamEntry, more_fields: Mapping[str, str], reason: str, group: str
) -> ScriptCall:
    """The script call that makes an event kept for a host a dead letter; `entry` is its entry in that host's stream.

    `more_fields` are added to the dead letter's fields.
    """
    name = f"kept-{event.id}"  # without the host's name: with a dot in it, this would look like a delivery's id
    fields = [*_letter(event, "events", reason), *(part for pair in more_fields.items() for part in pair)]
    now = int(time.time() * 1000)
    return ScriptCall(
        "overdue",
        (entry.stream, keys("deadletter", name), keys("dead")),
        (group, entry.id, now, DEAD_MS, name, *fields),
    )


def _letter(entry: StreamEntry, stream: str, reason: str) -> list[str | bytes | int]:
    """The fields of a poison entry's dead letter."""
    body = _payload(entry.fields.get(b"body", b""))
    # Redacted before it is kept, since a dead letter outlives the retention of the streams. Twice the length is redacted,
    # so that a secret at the cut is recognised.
    shown = redact_text(body[: 2 * CUT_BYTES].decode("utf-8", "replace"))[:CUT_BYTES]
    return [
        "kind",
        "entry",
        "stream",
        stream,
        "entry",
        entry.id,
        "reason",
        reason,
        "event",
        entry.fields.get(b"id", b""),
        "source",
        entry.fields.get(b"source", b""),
        "bytes",
        len(body),
        "body",
        shown.encode("utf-8", "replace"),
    ]


def _payload(body: bytes) -> bytes:
    """An agent's own payload without the msgpack around it, whose length would hide a secret at the beginning."""
    try:
        payload = decode_body(body)
    except DecodeError:
        return body
    return payload if isinstance(payload, bytes) else body


async def dead_letters(
    connections: Connections,
    keys: Keys,
    wanted: Filter = NO_FILTER,
    *,
    most: int = 100,
) -> list[DeadLetter]:
    """At most `most` dead letters that pass a filter, newest first."""
    fits, found = letter_test(wanted), list[DeadLetter]()
    async for letter in _all(connections, keys, wanted.since, wanted.until):
        if fits(letter):
            found.append(letter)
            if len(found) == most:
                break
    return found


async def _all(connections: Connections, keys: Keys, since: int, until: int) -> AsyncIterator[DeadLetter]:
    start, times = 0, (until or "+inf", since or "-inf")
    while True:
        with connections.lease() as connection:
            (page,) = await connection.exchange(
                [("ZREVRANGEBYSCORE", keys("dead"), *times, "WITHSCORES", "LIMIT", start, _PAGE)]
            )
            rows = checked(page, "listing dead letters")
            if not rows:
                return
            ids = [name.decode() for name in rows[::2]]
            replies = await connection.exchange(
                [("HGETALL", keys("delivery" if "." in name else "deadletter", name)) for name in ids]
            )
        for name, score, reply in zip(ids, rows[1::2], replies, strict=True):
            letter = read_letter(name, int(float(score)), flat(checked(reply, "reading a dead letter")))
            if letter is not None:
                yield letter
        start += _PAGE


def read_letter(name: str, ms: int, fields: dict[bytes, bytes]) -> DeadLetter | None:
    """A dead letter from its hash; None if the hash is gone."""
    if not fields:
        return None
    text = {
        key.decode(): value.decode("utf-8", "replace")
        for key, value in fields.items()
        if not key.startswith(b"attempt:")
    }
    return DeadLetter(
        id=name,
        kind=text.get("kind", "delivery") if "." not in name else "delivery",
        ms=ms,
        reason=redact_text(text.get("reason", "")),
        event=text.get("event", ""),
        hook=text.get("hook", ""),
        target=text.get("target", ""),
        attempts=int(text.get("attempts", 0)),
        stream=text.get("stream", ""),
        **redact_texts({key: text.get(key, "") for key in ("type", "tool", "session")}),
        body=redact_text(text.get("body", "")) if "." not in name else "",
    )


async def redrive(
    connections: Connections, keys: Keys, ids: Sequence[str], *, before: int = 0, counted_by: str = ""
) -> int:
    """Send dead deliveries to the carriers again; returns how many. Poison entries are skipped.

    `before` (ms) skips those that died at that time or later; `counted_by` is the key of a maintenance job that counts them.
    """
    now, more = int(time.time() * 1000), (counted_by,) if counted_by else ()
    calls = [
        ScriptCall("redrive", (keys("dead"), keys("delivery", name), *more), (name, now, before, keys.prefix))
        for name in ids
    ]
    return sum(int(checked(reply, "redrive")) for reply in await call_all(connections, calls)) if calls else 0


async def drop(
    connections: Connections, keys: Keys, ids: Sequence[str], *, before: int = 0, counted_by: str = ""
) -> int:
    """Delete dead letters; returns how many. `before` and `counted_by` as for `redrive`."""
    more = (counted_by,) if counted_by else ()
    calls = [
        ScriptCall(
            "drop", (keys("dead"), keys("delivery", name), keys("deadletter", name), *more), (name, keys.prefix, before)
        )
        for name in ids
    ]
    return sum(int(checked(reply, "drop")) for reply in await call_all(connections, calls)) if calls else 0


async def sweep(connections: Connections, keys: Keys, now_ms: int, keep_ms: int = DEAD_MS) -> int:
    """Delete the dead letters that are older than `keep_ms`; returns how many."""
    dropped = 0
    while True:
        with connections.lease() as connection:
            (reply,) = await connection.exchange(
                [("ZRANGEBYSCORE", keys("dead"), "-inf", now_ms - keep_ms, "LIMIT", 0, _PAGE)]
            )
        ids = [name.decode() for name in checked(reply, "sweeping dead letters")]
        if not ids:
            return dropped
        dropped += await drop(connections, keys, ids)
