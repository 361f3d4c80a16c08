# ruff: noqa: RUF100 - a frozen copy of bus/spool.py as of 0.1.0, whose comments were written for that folder
"""Events kept on the agent's disk while Redis is away, and the drainer that sends them on: in order, each once.

A spool is one file of RESP arrays, each `stream, field, value, …` with the entry's id as first field, appended under
flock by `bus/shim.py` and by `append`. The drainer renames it to `.draining`, sends it, and deletes it when Redis has
acknowledged all of it; a drainer that died is followed by one that sends the whole file again, and the mark that Redis
keeps per id (`sent`) lets nothing in twice. Only C-level modules and os: a drainer starts beside a busy agent.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bus import shim

BATCH_RECORDS: Final = 64
BATCH_BYTES: Final = 1024 * 1024
REPLY_S: Final = 10.0
PAUSE_S: Final = 5.0
"""After a drain that failed no shim starts another one for so long."""

_STREAMS: Final = frozenset({b"requests", b"events"})
_START: Final = re.compile(rb"\*\d{1,4}\r\n\$(?:8\r\nrequests|6\r\nevents)\r\n\$2\r\nid\r\n")
_ID: Final = re.compile(rb"[A-Za-z0-9_.-]{1,64}")


class SpoolStatus(NamedTuple):
    """What waits on the disk: records and bytes, how many were lost to the limit, and since when the oldest waits."""

    records: int = 0
    bytes: int = 0
    dropped: int = 0
    oldest_ms: int = 0
    """Milliseconds since 1970 by this machine's clock; 0 where nothing waits."""


class Drained(NamedTuple):
    """What a drain did: records that Redis has now, and bytes that were no record (a write cut off by a crash)."""

    sent: int = 0
    skipped: int = 0


def append(path: str | os.PathLike[str], stream: str, fields: Sequence[str | bytes], *, wait_s: float = 1.0) -> bool:
    """Keeps an entry for `stream` (`requests` or `events`), fields and values in turn, `id` first; False if dropped.

    Dropped means that the spool is full (64 MiB), the disk is, or its lock was not to be had in time; it is counted.
    """
    parts = [part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part for part in (stream, *fields)]
    return shim.keep(os.fsencode(path), shim.pack(*parts), time.monotonic() + wait_s)


def spool_status(path: str | os.PathLike[str]) -> SpoolStatus:
    """What waits in a spool, the part under way included; reads it whole."""
    name = os.fsencode(path)
    records, size, oldest = 0, 0, 0
    for part in (name + b".draining", name):
        raw = _content(part)
        size += len(raw)
        for record, _ in _records(raw):
            if record:
                records += 1
                oldest = oldest or _born_ms(record[2])
    try:
        dropped = int(_content(name + b".dropped") or b"0")
    except ValueError:
        dropped = 0
    return SpoolStatus(records, size, dropped, oldest)


def drain(answers: str) -> Drained | None:
    """Sends what waits in the spool that an answer file names; None where another drainer is at it.

    Raises OSError and `shim.NoAnswer` where Redis is away or refuses: what is not acknowledged stays.
    """
    plan = shim.Plan(answers)
    draining = plan.spool + b".draining"
    if not os.path.isdir(os.path.dirname(plan.spool)):
        return Drained()  # nothing was ever kept
    lock = os.open(plan.spool + b".drain.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        total = Drained()
        try:
            while os.path.exists(draining) or _set_aside(plan.spool, draining):
                done = _send(plan, _content(draining))
                if done.skipped:
                    shim.count_dropped(plan.spool, done.skipped)
                os.unlink(draining)
                total = Drained(total.sent + done.sent, total.skipped + done.skipped)
        except (OSError, shim.NoAnswer, ValueError):
            os.utime(lock, (time.time() + PAUSE_S,) * 2)
            raise
        os.utime(lock)
    finally:
        os.close(lock)
    return total


def main(argv: list[str] | None = None) -> int:
    """The drainer as a program: `python -m bus.spool ANSWERFILE`; exits 3 where Redis is away or refuses."""
    try:
        drain((sys.argv[1:] if argv is None else argv)[0])
    except (OSError, shim.NoAnswer, ValueError, IndexError) as error:
        sys.stderr.write(f"fleethook: the spool was not drained: {type(error).__name__}: {error}\n")
        return 3
    return 0


def _set_aside(spool: bytes, draining: bytes) -> bool:
    """Renames the spool for sending, while nobody appends to it; whether there was anything."""
    try:
        if not os.stat(spool).st_size:
            return False
    except FileNotFoundError:
        return False
    fd = shim.lock(spool, time.monotonic() + REPLY_S)
    try:
        os.rename(spool, draining)
    finally:
        os.close(fd)
    return True


def _send(plan: shim.Plan, raw: bytes) -> Drained:
    """Sends the records in order, in batches of one write; returns when Redis has acknowledged every one."""
    link: shim.Link | None = None
    sent = skipped = size = 0
    batch: list[bytes] = []
    try:
        for record, end in _records(raw):
            if record:
                # What was published and lost only its acknowledgement may be there already: whoever reads it looks.
                batch.append(shim.once(plan.prefix, record[0], [*record[1:], b"spooled", b"1"]))
                size += len(batch[-1])
            else:
                skipped += 1
            if not batch or (end < len(raw) and len(batch) < BATCH_RECORDS and size < BATCH_BYTES):
                continue
            link = link or shim.Link(plan, time.monotonic() + REPLY_S)
            link.until = time.monotonic() + REPLY_S
            link.send(*batch)
            for _ in batch:
                link.read()
                sent += 1
            batch, size = [], 0
    finally:
        if link:
            link.sock.close()
    return Drained(sent, skipped)


def _records(raw: bytes) -> Iterator[tuple[list[bytes], int]]:
    """The records and where each ends; an empty list for bytes that are none, up to the next that looks like one."""
    at = 0
    while at < len(raw):
        found = _record(raw, at)
        if found is None:
            following = _START.search(raw, at + 1)
            at = following.start() if following else len(raw)
            yield [], at
        else:
            at = found[1]
            yield found


def _record(raw: bytes, at: int) -> tuple[list[bytes], int] | None:
    if not _START.match(raw, at):
        return None
    head = raw.index(b"\r\n", at)
    parts: list[bytes] = []
    count, at = int(raw[at + 1 : head]), head + 2
    for _ in range(count):
        head = raw.find(b"\r\n", at)
        if head < 0 or raw[at : at + 1] != b"$" or not raw[at + 1 : head].isdigit():
            return None
        end = head + 2 + int(raw[at + 1 : head])
        if raw[end : end + 2] != b"\r\n":
            return None
        parts.append(raw[head + 2 : end])
        at = end + 2
    whole = len(parts) > 2 and len(parts) % 2 == 1 and _ID.fullmatch(parts[2])
    return (parts, at) if whole else None


def _content(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _born_ms(name: bytes) -> int:
    try:
        return int(name[1:13], 16)
    except ValueError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
