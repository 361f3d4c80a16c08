"""How long this process waits for Redis, and how its exchanges fail, for the metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from bus.wire.counts import BETWEEN, BUCKETS, SUM, field
from bus.wire.scripts import every_script

_BLOCKING: Final = frozenset({"XREADGROUP", "XREAD", "BLMOVE", "BLPOP"})
_SCRIPTED: Final = frozenset({"EVALSHA", "EVAL"})
_REASONS: Final = (
    ("timeout", ("Timeout",)),
    ("credentials", ("NOAUTH", "WRONGPASS", "NOPERM", "Authentication", "NoPermission")),
    ("memory", ("OOM", "OutOfMemory")),
    ("loading", ("LOADING", "BusyLoading")),
    ("read-only", ("READONLY", "ReadOnly", "MISCONF", "MASTERDOWN", "NOREPLICAS")),
)
ERRORS: Final = (*(reason for reason, _ in _REASONS), "connection")
"""The kinds of failures."""


class ExchangeTimes:
    """The exchanges since the last `take`. One that waits on purpose, for an entry or a reply, is not timed."""

    def __init__(self) -> None:
        self._buckets: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def note(self, commands: Sequence[tuple[Any, ...]], seconds: float) -> None:
        """Note an exchange that took so long."""
        # A consumer reads what it watches after it has waited for entries. A read that waits for long begins with CLIENT.
        if not commands or commands[-1][0] in _BLOCKING or (len(commands) > 1 and commands[-2][0] in _BLOCKING):
            return
        if commands[0][0] == "CLIENT":
            return
        name = _name(commands)
        self._buckets[name, bisect_left(BUCKETS, seconds)] += 1
        self._seconds[name] += round(seconds * 1e6)

    def note_error(self, error: BaseException) -> None:
        """Note that an exchange, or a connection for it, failed."""
        known = f"{type(error).__name__} {type(error.__cause__ or error.__context__).__name__} {error}"
        found = (reason for reason, words in _REASONS if any(word in known for word in words))
        self._errors[next(found, "connection")] += 1

    @property
    def has_errors(self) -> bool:
        """Whether an exchange has failed since the last `take`."""
        return bool(self._errors)

    def take(self) -> Mapping[str, int]:
        """The counts so far, by their fields; begins anew."""
        counts = {f"{_of(name)}{BETWEEN}{bucket}": number for (name, bucket), number in self._buckets.items()}
        counts |= {f"{_of(name)}{BETWEEN}{SUM}": number for name, number in self._seconds.items() if number}
        counts |= {field("redis_errors", reason): number for reason, number in self._errors.items()}
        self._buckets.clear()
        self._seconds.clear()
        self._errors.clear()
        return counts


def _of(name: str) -> str:
    return field("redis_command_duration_seconds", name)


def _name(commands: Sequence[tuple[Any, ...]]) -> str:
    """The command, the script's name, or `pipeline` for several commands."""
    first = commands[0]
    if len(commands) > 1:
        return "pipeline"
    if first[0] in _SCRIPTED:
        return _scripts().get(str(first[1]), "script")
    return str(first[0]).lower()


@cache
def _scripts() -> Mapping[str, str]:
    """The names of our scripts, by what EVALSHA and EVAL call them."""
    return {said: f"{one.name}.lua" for one in every_script() for said in (one.sha, one.text)}
