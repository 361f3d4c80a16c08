"""Keeps events on the agent's disk while Redis is away, and sends them later in the order of writing.

A spool is one file of RESP arrays, each `stream, field, value, …` with the entry's id as first field, appended under
flock by the hook command (`bus/shim/outage.py`) and by `append`. A drainer renames it to `.draining`, sends it, and deletes
it when Redis has acknowledged all of it. If a drainer dies, the next one sends the whole file again; all entries are marked
`spooled`, and the workers drop a repeated one by its id before it is matched or shown. The workers of a host drain its
spools (`workers/runtime/spool_drain.py`). On a host without workers a hook command starts `drain`; it imports only C-level
modules and os, because it runs beside a busy agent.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Self

from bus import shim

BATCH_RECORDS: Final = 64
BATCH_BYTES: Final = 1024 * 1024
REPLY_S: Final = 10.0
PAUSE_S: Final = 5.0
"""After a failed drain, no shim starts another one for so many seconds."""

_ASKING: Final = frozenset({b"reply", b"budget", b"patience"})
"""Fields of a request that have no meaning once it fell back."""
ENDS: Final = (".draining", ".drain.lock", ".dropped.full", ".dropped", ".damaged", ".away")
"""Suffixes of the files beside a spool; `.away` is the mark of a server that does not answer."""

_START: Final = re.compile(rb"\*\d{1,4}\r\n\$(?:8\r\nrequests|6\r\nevents)\r\n\$2\r\nid\r\n")
_ID: Final = re.compile(rb"[A-Za-z0-9_.-]{1,64}")


class SpoolStatus(NamedTuple):
    """The events in a spool: records and bytes, the time of the oldest, and how many were lost, by the reason."""

    records: int = 0
    bytes: int = 0
    dropped: int = 0
    """Those that the spool or the disk had no room for."""
    oldest_ms: int = 0
    """Milliseconds since 1970 by this machine's clock; 0 if nothing waits."""
    damaged: int = 0
    """Those that were cut off or changed on the disk, so that they could not be sent."""


class Drained(NamedTuple):
    """The result of a drain: the number of records that Redis has now, and of bytes that were no record (a crash cut a
    write)."""

    sent: int = 0
    skipped: int = 0


def append(path: str | os.PathLike[str], stream: str, fields: Sequence[str | bytes], *, wait_s: float = 1.0) -> bool:
    """Keeps an entry for `stream` (`requests` or `events`), fields and values in turn, `id` first; False if dropped.

    An entry is dropped, and counted, if the spool (64 MiB) or the disk is full, or if the lock was not free in time.
    """
    parts = [part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part for part in (stream, *fields)]
    with contextlib.suppress(OSError):  # it is counted as dropped, as on a full disk
        os.makedirs(os.path.dirname(os.fspath(path)), mode=0o700, exist_ok=True)
    return shim.keep(os.fsencode(path), shim.pack(*parts), time.monotonic() + wait_s)


def spools(folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """The paths of the spools in a folder, also of spools of which only the files beside them exist."""
    try:
        names = [name for name in os.listdir(folder) if not name.startswith(".")]
    except OSError:
        return ()
    for end in ENDS:
        names = [name.removesuffix(end) for name in names]
    return tuple(os.path.join(folder, name) for name in sorted(set(names)))


def spool_status(path: str | os.PathLike[str]) -> SpoolStatus:
    """The events that wait in a spool, including those being sent; reads the whole spool."""
    name = os.fsencode(path)
    records, size, oldest = 0, 0, 0
    for part in (name + b".draining", name):
        raw = _content(part)
        size += len(raw)
        for record, _ in read_records(raw):
            if record:
                records += 1
                oldest = oldest or _born_ms(record[2])
    dropped = _count(name + b".dropped")
    with contextlib.suppress(FileNotFoundError):
        dropped += os.stat(name + b".dropped.full").st_size
    return SpoolStatus(records, size, dropped, oldest, _count(name + b".damaged"))


def drain(answers: str) -> Drained | None:
    """Sends the events in the spool that an answer file names; None if another drainer does so now.

    Raises OSError and `shim.NoAnswer` if Redis is away or refuses: events that it has not acknowledged stay.
    """
    plan = shim.AnswerPlan(answers)
    link: shim.Link | shim.GatewayLink | None = None
    try:
        with Draining(plan.spool) as draining:
            for batch in draining.batches():
                link = link or shim.open_link(plan, time.monotonic() + REPLY_S)
                link.until = time.monotonic() + REPLY_S
                link.add(plan.prefix, *(entry.fields for entry in batch))
            return draining.done
    except BlockingIOError:
        return None
    finally:
        if link:
            link.sock.close()


class SpooledEntry(NamedTuple):
    """One entry to add: the stream's name without its prefix, and its fields and values in turn."""

    stream: bytes
    fields: list[bytes]


class Draining:
    """One drainer of one spool. As a context manager it holds the spool's drain lock, or raises BlockingIOError.

    If it ends early, the rest stays for the next drainer, and no hook command starts one for some seconds.
    """

    def __init__(self, spool: str | bytes | os.PathLike[str], wait_s: float = REPLY_S) -> None:
        self._spool, self._wait_s = os.fsencode(spool), wait_s
        self._lock = -1
        self.done = Drained()

    def __enter__(self) -> Self:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(self._spool + b".drain.lock", flags, 0o600)
        except FileNotFoundError:
            return self  # the folder does not exist, so nothing was ever spooled
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._lock >= 0:
            os.utime(self._lock, (time.time() + PAUSE_S,) * 2 if error else None)
            os.close(self._lock)

    def batches(self) -> Iterator[list[SpooledEntry]]:
        """The spooled entries in batches, in order. Asking for the next batch confirms that Redis has the last one."""
        draining = self._spool + b".draining"
        while self._lock >= 0 and (os.path.exists(draining) or self._set_aside(draining)):
            skipped = 0
            raw, batch, begin = _content(draining), list[SpooledEntry](), 0
            for record, end in read_records(raw):
                if record:
                    batch.append(_entry(record))
                else:
                    skipped += 1
                if batch and (end >= len(raw) or len(batch) >= BATCH_RECORDS or end - begin >= BATCH_BYTES):
                    yield batch
                    self.done = self.done._replace(sent=self.done.sent + len(batch))
                    batch, begin = [], end
            if skipped:
                shim.count_dropped(self._spool, skipped, b".damaged")
                self.done = self.done._replace(skipped=self.done.skipped + skipped)
            os.unlink(draining)

    def _set_aside(self, draining: bytes) -> bool:
        """Renames the spool for sending, under its lock; returns whether there was anything."""
        try:
            if not os.stat(self._spool).st_size:
                return False
        except FileNotFoundError:
            return False
        fd = shim.lock(self._spool, time.monotonic() + self._wait_s)
        try:
            os.rename(self._spool, draining)
        finally:
            os.close(fd)
        return True


def hand_over(spool: str | os.PathLike[str], to: str | os.PathLike[str]) -> None:
    """Moves the records of one spool to another, in order, with the counts of lost ones, and deletes the first spool.

    Raises OSError if that is not possible: then the first spool is unchanged. After a crash records may be in both spools;
    each counts once.
    """
    there = os.fsencode(to)
    with Draining(spool):
        parts = [os.fsencode(spool) + end for end in (b".draining", b"")]
        raw, before = b"".join(map(_content, parts)), spool_status(spool)
        fd = shim.lock(there, time.monotonic() + REPLY_S)
        try:
            size = os.fstat(fd).st_size
            if os.write(fd, raw) != len(raw):
                os.ftruncate(fd, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(to))
        finally:
            os.close(fd)
        for part in parts:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
    if before.dropped:
        shim.count_dropped(there, before.dropped)
    if before.damaged:
        shim.count_dropped(there, before.damaged, b".damaged")
    remove(spool)


def remove(spool: str | os.PathLike[str]) -> None:
    """Removes a spool and the files beside it."""
    for end in ("", *ENDS):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.fspath(spool) + end)


def add_commands(prefix: str, batch: Sequence[SpooledEntry]) -> list[tuple[str | bytes, ...]]:
    """The commands that add a batch, for programs whose connections are not the hook command's."""
    return [("XADD", prefix + entry.stream.decode(), "*", *entry.fields) for entry in batch]


def _entry(record: list[bytes]) -> SpooledEntry:
    """The entry of a record. A request that fell back became an event (older versions spooled it as a request)."""
    stream, *fields = record
    if stream == b"requests":
        pairs = zip(fields[::2], fields[1::2], strict=True)
        fields = [part for name, value in pairs if name not in _ASKING for part in (name, value)]
    return SpooledEntry(b"events", [*fields, b"spooled", b"1"])


def main(argv: list[str] | None = None) -> int:
    """The drainer as a program: `python -m bus.shim.spool ANSWERFILE`; exits 3 if Redis is away or refuses."""
    try:
        drain((sys.argv[1:] if argv is None else argv)[0])
    except (OSError, shim.NoAnswer, ValueError, IndexError) as error:
        sys.stderr.write(f"fleethook: the spool was not drained: {type(error).__name__}: {error}\n")
        return 3
    return 0


def read_records(raw: bytes) -> Iterator[tuple[list[bytes], int]]:
    """The records and the end of each; for bytes that are not a record, an empty list, up to the next possible record."""
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


def _count(path: bytes) -> int:
    try:
        return int(_content(path) or b"0")
    except ValueError:
        return 0


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
