"""How fast, in which order and in what heaps an endpoint gets its deliveries: its fields, read and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from bus.errors import ConfigError

Order = Literal["none", "fifo"]

BATCHED: Final = ("fleethook", "cloudevents")
"""The formats of which several can stand in one body."""

_RATE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?/(?:s|min|h|d)")
_SECONDS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_MOST: Final = 100_000.0


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many deliveries go out in one body, and how long the first of them waits for the others."""

    max_events: Annotated[int, Meta(ge=2, le=200, description="Events in one body, at most.")] = 100
    max_wait: Annotated[
        float, Meta(ge=0.01, le=3_600, description="Seconds that the first event waits for others, at most.")
    ] = 1.0


class Rate(NamedTuple):
    """A token bucket: `speed` tokens a second, and at most `most` of them kept."""

    speed: float
    most: float


class Paced(Protocol):
    """What has the fields: an endpoint, or its entry in a file."""

    @property
    def rate(self) -> str:
        """Such as `10/s`; empty for no limit."""

    @property
    def order(self) -> Order:
        """Whether a session's deliveries wait for each other."""

    @property
    def batch(self) -> Batch | None:
        """None sends each delivery by itself."""

    @property
    def format(self) -> str:
        """Whose message the body is."""

    @property
    def can_block(self) -> bool:
        """Whether it is asked, too."""


def parse_rate(text: str) -> Rate:
    """The rate in `10/s`, `600/min`, `5/h` or `0.5/s`: at most a second's worth goes out at once, and at least one."""
    if not _RATE.fullmatch(text):
        raise ConfigError(f"the rate {text[:40]!r} cannot be read", hint="write e.g. 10/s, 600/min or 20/h")
    count, _, unit = text.partition("/")
    speed = float(count) / _SECONDS[unit]
    if not 0 < speed <= _MOST:
        raise ConfigError(f"a rate is more than nothing, and at most {_MOST:,.0f}/s; {text} is not")
    return Rate(speed, max(1.0, speed))


def pacing_checks(one: Paced) -> Iterator[tuple[tuple[str, ...], Callable[[], object]]]:
    """One check for each field, with where it stands below its entry; each raises ConfigError where it is wrong."""
    if one.rate:
        yield ("rate",), partial(parse_rate, one.rate)
    if one.batch is not None:
        yield ("batch",), partial(_batch, one)


def _batch(one: Paced) -> None:
    if one.order != "none":
        raise ConfigError("batch and order exclude each other", hint="a batch holds events of many sessions")
    if one.format not in BATCHED:
        raise ConfigError(f"format {one.format} has no batches", hint=f"only {' and '.join(BATCHED)} have")
    if one.can_block:
        raise ConfigError("who decides is asked event by event", hint="leave batch or can_block out")
