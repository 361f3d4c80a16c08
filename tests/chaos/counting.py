"""What is counted after a scenario: the record, what is still under way, and the keys that were left behind."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import sync_client
from bus.wire.keys import Keys, declared
from tests.support.waiting import PATIENCE, until

_PAGE = 5_000


def tell(text: str) -> None:
    """Numbers for whoever looks: shown with `pytest -s`, and where a test fails."""
    sys.stdout.write(f"\n{text}\n")


async def when(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """As `until`, for a plain function; one that asks Redis runs on a thread, so that proxies and receivers go on."""

    async def look() -> object:
        return await asyncio.to_thread(holds)

    await until(look, what, seconds)


class Record(NamedTuple):
    """The event stream, read: how often each id stands in it, its verdicts, and the agents' own fallbacks."""

    ids: Counter[str]
    order: tuple[str, ...]
    verdicts: dict[str, Verdict]
    reports: dict[str, tuple[str, ...]]
    """By request: why its agent answered by policy."""

    @property
    def repeated(self) -> dict[str, int]:
        """The ids that stand there more than once."""
        return {name: count for name, count in self.ids.items() if count > 1}


class Counts:
    """Looks into Redis with a client of its own; close it."""

    def __init__(self, url: str, keys: Keys) -> None:
        self.keys = keys
        self.client: Any = sync_client(url, seconds=30.0)  # Any: redis-py types replies as unions over every decoding

    def close(self) -> None:
        """Close the client."""
        self.client.close()

    def record(self) -> Record:
        """All of the event stream."""
        order: list[str] = []
        verdicts: dict[str, Verdict] = {}
        reports: dict[str, tuple[str, ...]] = {}
        start = "-"
        while rows := self.client.xrange(self.keys("events"), start, "+", count=_PAGE):
            for _, fields in rows:
                name = fields[b"id"].decode()
                if b"of" in fields:
                    of = fields[b"of"].decode()
                    reports[of] = (*reports.get(of, ()), fields[b"fallback"].decode())
                    continue
                order.append(name)
                if b"verdict" in fields:
                    verdicts[name] = decode_verdict(fields[b"verdict"])
            start = f"({rows[-1][0].decode()}"
        return Record(Counter(order), tuple(order), verdicts, reports)

    def length(self, name: str) -> int:
        """How many entries a stream has."""
        return int(self.client.xlen(self.keys(name)))

    def pending(self) -> dict[str, int]:
        """Entries that a group has not read or not acknowledged, by stream and group."""
        found = {}
        for key in self._names(kind="stream"):
            for group in self.client.xinfo_groups(key):
                # Not its `lag`: that is unknown once an entry was deleted.
                unread = self.client.xrange(key, f"({group['last-delivered-id'].decode()}", "+", count=100)
                if group["pending"] or unread:
                    found[f"{key}/{group['name'].decode()}"] = group["pending"] + len(unread)
        return found

    def held(self, pid: int) -> int:
        """Deliveries that the carriers of one process have read and not settled."""
        rows = self.client.xinfo_consumers(self.keys("deliveries"), "carriers")
        return sum(row["pending"] for row in rows if f"-{pid}-".encode() in row["name"])

    def under_way(self) -> dict[str, int]:
        """Whatever is not finished: waiting, pending, parked, in flight or due, by key; empty when all is settled."""
        found = self.pending()
        for stream in ("requests", "waiting", "deliveries", "deliveries:test-host"):
            if self.length(stream):
                found[stream] = self.length(stream)
        for key in (*self._names("parked:"), *self._names("batch:")):
            found[key] = self.client.llen(key)
        for key in (*self._names("flight:"), *self._names("due"), *self._names("line:")):
            found[key] = self.client.zcard(key)
        return found

    async def settled(self, owed: int = 0, seconds: float = 60.0) -> None:
        """Wait until nothing is under way and `owed` deliveries have their end.

        It may take long on a busy disk: fails, and says what is left, when nothing has changed for `seconds`.
        """
        left: dict[str, int] = {}

        def look() -> bool:
            left.clear()
            states = self.states() if owed else Counter()
            if states["delivered"] + states["dead"] < owed:
                left.update(states)
            left.update(self.under_way())
            return not left

        before: object = None
        while True:
            try:
                return await when(look, "all is settled", seconds)
            except AssertionError as error:
                now = dict(left), self._read_to()
                if now == before:
                    raise AssertionError(f"{error}; left: {left}") from error
                before = now

    def _read_to(self) -> list[bytes]:
        """How far each group has read."""
        keys = self._names(kind="stream")
        return [group["last-delivered-id"] for key in keys for group in self.client.xinfo_groups(key)]

    def states(self) -> Counter[str]:
        """How many deliveries are in each state."""
        return Counter(state for state in self.deliveries().values())

    def deliveries(self) -> dict[str, str]:
        """The state of every delivery by its id."""
        names = self._names("delivery:")
        pipe = self.client.pipeline(transaction=False)
        for name in names:
            pipe.hget(name, "state")
        return {
            name.removeprefix(self.keys("delivery", "")): (state or b"").decode()
            for name, state in zip(names, pipe.execute(), strict=True)
        }

    def bodies(self) -> set[str]:
        """The events whose bodies are kept."""
        return {name.removeprefix(self.keys("body", "")) for name in self._names("body:")}

    def strays(self) -> list[str]:
        """What is wrong with the keys that are left: undeclared, of another type, or without their TTL (X-06)."""
        problems = []
        for name in self._names():
            short = name.removeprefix(self.keys.prefix)
            key, kind = declared(short), self.client.type(name).decode()
            if key is None:
                problems.append(f"{short} is not declared")
            elif kind not in {key.kind, "none"}:
                problems.append(f"{short} is a {kind}, declared as {key.kind}")
            elif self.client.pttl(name) == -1 and self._must_end(short, key.ttl):
                problems.append(f"{short} has no TTL; {key.ttl} ms were promised")
        return problems

    def _must_end(self, short: str, ttl: int | str) -> bool:
        if short.startswith("delivery:"):
            return bool(self.client.hget(self.keys.prefix + short, "state") == b"delivered")
        return isinstance(ttl, int) and short not in {"sent", "dead"}  # their members end, by score

    def _names(self, name: str = "", kind: str | None = None) -> list[str]:
        """The keys that begin with `name`, of one type where it is given."""
        pattern = (self.keys.prefix + name).replace("{", "\\{").replace("}", "\\}")
        return [key.decode() for key in self.client.scan_iter(match=f"{pattern}*", count=5_000, _type=kind)]
