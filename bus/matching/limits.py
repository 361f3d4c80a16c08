"""The `limit:` of a rule: how many calls, tokens or how much money in which time, and whose (docs/limits.md)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, NamedTuple, get_args

from bus.errors import PatternError
from bus.lazy.regex import lazy_regex

Unit = Literal["calls", "tokens", "money"]
Scope = Literal["session", "agent", "user", "host", "fleet"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
MOST_CALLS: Final = 10_000
"""The most calls of a limit: the time of each counted call is kept."""
_DAY_MS: Final = 86_400_000
LONGEST_MS: Final = 7 * 86_400_000

_NUMBER: Final = lazy_regex(r"(\d{1,12}(?:\.\d{1,6})?)([kM]?)\Z")
_PERIOD: Final = lazy_regex(r"(\d{0,6}) ?(s|seconds?|m|min|minutes?|h|hours?|d|days?|weeks?)\Z")
_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_UNITS: Final[dict[str, Unit]] = {
    "": "calls",
    "call": "calls",
    "calls": "calls",
    "time": "calls",
    "times": "calls",
    "token": "tokens",
    "tokens": "tokens",
}
_CURRENCY: Final = lazy_regex(r"[A-Z]{3}\Z")
_THOUSANDS: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_EXAMPLES: Final = (
    "write for example `30 per minute`, `100 per session`, `500 per day per user`, `200k tokens per session`"
)


class Limit(NamedTuple):
    """A limit as a value."""

    most: int | float
    unit: Unit = "calls"
    period: int = 0
    """Milliseconds of the sliding window; 0: as long as the session is known."""
    scope: Scope = "session"
    currency: str = ""
    """The currency of `money`."""

    @property
    def number(self) -> str:
        """The limit's number with its unit: `30 calls`, `5 USD`."""
        return f"{self.most:g} {self.currency}" if self.currency else f"{self.most} {self.unit}"

    @property
    def span(self) -> str:
        """Its period and whose it is: ` per minute for this session`."""
        whose = {"agent": "this agent", "user": "this user", "host": "this host", "fleet": "the whole fleet"}
        every = f" per {_period_text(self.period)}" if self.period else ""
        return f"{every} for {whose.get(self.scope, 'this session')}"


@lru_cache(maxsize=1024)
def limit_words(text: str) -> str:
    """A limit in words: `30 calls per minute for this session`."""
    limit = read_limit(text)
    return f"{limit.number}{limit.span}"


@lru_cache(maxsize=1024)
def read_limit(text: str) -> Limit:
    """The limit in a text such as `30 calls per minute per session`; PatternError for another text."""
    first, *parts = (part.strip() for part in text.split(" per "))
    most, unit, currency = _amount(first, text)
    period, scope = 0, ""
    for part in parts:
        if part in SCOPES and not scope:
            scope = part
        elif (ms := _period_ms(part)) and not period:
            period = ms
        else:
            known = ", ".join(SCOPES)
            raise _bad(
                text, f"{part!r} is no period (`minute`, `10m`, `day`) and none of {known}, or it is there twice"
            )
    if not parts:
        raise _bad(text, "it does not say per what")
    if not period and scope != "session":
        raise _bad(text, f"a limit per {scope} needs a period too", f"write `{first} per day per {scope}`")
    if period > (LONGEST_MS if unit == "calls" else _DAY_MS):
        raise _bad(text, f"its period is longer than a {'week' if unit == 'calls' else 'day'}")
    if unit != "calls" and period % _MS["m"]:
        raise _bad(text, "tokens and money are added up by the minute: the period has to be whole minutes")
    found = scope if scope in SCOPES else "session"
    return Limit(most if currency else int(most), unit, period, found, currency)


def _amount(words: str, text: str) -> tuple[float, Unit, str]:
    number, _, unit = words.partition(" ")
    found = _NUMBER.match(number)
    if found is None:
        raise _bad(text, "it has to begin with a number")
    most, unit = float(found[1]) * _THOUSANDS[found[2]], unit.strip()
    if unit in _UNITS:
        if most != int(most) or (_UNITS[unit] == "calls" and most > MOST_CALLS):
            raise _bad(text, f"a number of {_UNITS[unit]} is whole, and {MOST_CALLS} is the most for calls")
        return most, _UNITS[unit], ""
    if _CURRENCY.match(unit):
        return most, "money", unit
    raise _bad(text, f"{unit!r} is no unit: there are calls, tokens, and currencies such as USD")


def _period_ms(text: str) -> int:
    found = _PERIOD.match(text)
    return int(found[1] or "1") * _MS[found[2][0]] if found is not None else 0


def _period_text(ms: int) -> str:
    for name, each in (("week", "w"), ("day", "d"), ("hour", "h"), ("minute", "m"), ("second", "s")):
        if ms % _MS[each] == 0:
            number = ms // _MS[each]
            return name if number == 1 else f"{number} {name}s"
    return f"{ms} ms"


def _bad(text: str, why: str, hint: str = _EXAMPLES) -> PatternError:
    return PatternError(f"bad limit {text[:100]!r}: {why}", hint=hint)
