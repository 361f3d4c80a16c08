"""Any value that a program has becomes one that the wire takes."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bus.sdk.plain_values import LONGEST, plain
from bus.wire.codec import pack, unpack
from tests.support.rows import rows


@dataclass
class Point:
    """A value of a program's own."""

    x: int
    where: Path


class Colour(enum.StrEnum):
    """Text that is more than text."""

    RED = "red"


class Rude:
    """A value whose own code fails."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@rows(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1, 1),
        ("a", "a"),
        (b"a", b"a"),
        (bytearray(b"a"), b"a"),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ((1, {2}), [1, [2]]),
        ({1: "a"}, {"1": "a"}),
        (Path("/x"), "/x"),
        (Point(1, Path("/x")), {"x": 1, "where": "/x"}),
        (Colour.RED, "red"),
        (dt.date(2026, 11, 22), "2026-11-22"),
        (Rude(), "<Rude>"),
        ({"a": {"b": Rude()}}, {"a": {"b": "<Rude>"}}),
    ],
    ids=lambda value: type(value).__name__,  # the same in every process
)
def test_a_value_as_the_wire_takes_it(value: object, expected: object) -> None:
    made = plain(value)
    assert made == expected
    assert type(made) is type(expected)


def test_what_is_too_much_is_cut_and_said() -> None:
    assert plain("x" * (LONGEST + 5)).endswith("x [fleethook cut 5 characters]")
    assert plain(list(range(10_002)))[-1] == "[fleethook left out 2 more]"
    assert plain(dict.fromkeys(map(str, range(10_003))))["fleethook"] == "[fleethook left out 3 more]"
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    circle: list[Any] = []
    circle.append(circle)
    for value in (deep, circle):
        assert unpack(pack({"data": {"input": plain(value)}}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.uuids(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.sets(st.integers()),
        max_leaves=30,
    )
)
def test_whatever_it_is_it_can_travel(value: object) -> None:
    unpack(pack({"input": plain(value)}))
