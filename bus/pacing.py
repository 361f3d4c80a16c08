"""Rate limit, ordering and batching of an endpoint's deliveries: the fields, parsed and checked."""

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
"""The formats that can carry several events in one body."""

_RATE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?/(?:s|min|h|d)")
_SECONDS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_MOST: Final = 100_000.0


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many deliveries go into one body, and how long the first of them waits for others."""

    max_events: Annotated[int, Meta(ge=2, le=200, description="The most events in one body.", examples=[50])] = 100
    max_wait: Annotated[
        float,
        Meta(ge=0.01, le=3_600, description="The most seconds that the first event waits for others.", examples=[2]),
    ] = 1.0


class Rate(NamedTuple):
    """A token bucket: it gains `speed` tokens per second and holds at most `most`."""

    speed: float
    most: float


class Paced(Protocol):
    """The fields that are checked; an endpoint has them, and so has its entry in a file."""

    @property
    def rate(self) -> str:
        """Such as `10/s`; empty: no limit."""

    @property
    def order(self) -> Order:
        """Whether the deliveries of one session wait for each other."""

    @property
    def batch(self) -> Batch | None:
        """None: one delivery per request."""

    @property
    def format(self) -> str:
        """The format of the body."""

    @property
    def can_block(self) -> bool:
        """Whether it is asked for decisions."""


def parse_rate(text: str) -> Rate:
    """The rate in `10/s`, `600/min`, `5/h` or `0.5/s`. A burst is at most what one second allows, and at least one."""
    if not _RATE.fullmatch(text):
        raise ConfigError(f"the rate {text[:40]!r} cannot be read", hint="write e.g. 10/s, 600/min or 20/h")
    count, _, unit = text.partition("/")
    speed = float(count) / _SECONDS[unit]
    if not 0 < speed <= _MOST:
        raise ConfigError(f"the rate {text} is out of range: it has to be above 0 and at most {_MOST:,.0f}/s")
    return Rate(speed, max(1.0, speed))


def pacing_checks(endpoint: Paced) -> Iterator[tuple[tuple[str, ...], Callable[[], object]]]:
    """One check for each field, with its path below the entry; each raises ConfigError for a bad value."""
    if endpoint.rate:
        yield ("rate",), partial(parse_rate, endpoint.rate)
    if endpoint.batch is not None:
        yield ("batch",), partial(_check_batch, endpoint)


def _check_batch(endpoint: Paced) -> None:
    if endpoint.order != "none":
        raise ConfigError("batch and order exclude each other", hint="a batch holds events of many sessions")
    if endpoint.format not in BATCHED:
        raise ConfigError(f"format {endpoint.format} has no batches", hint=f"only {' and '.join(BATCHED)} have")
    if endpoint.can_block:
        raise ConfigError(
            "an endpoint with can_block is asked about each event by itself", hint="remove batch or can_block"
        )
