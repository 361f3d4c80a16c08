"""JSON read the quick way is what the YAML reader makes of it: the same values at the same places, or left to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.config.documents import DEPTH_LIMIT, NODE_LIMIT, Document, loads
from bus.config.jsonplaces import read_json
from bus.errors import ConfigError

_texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
_values = st.recursive(
    st.one_of(_texts, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans(),
              st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)),
    max_leaves=20,
)  # fmt: skip


def paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every path in a value."""
    yield at
    if isinstance(value, (dict, list)):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(below, (*at, key))


@given(
    st.one_of(st.lists(_values, max_size=4), st.dictionaries(_texts, _values, max_size=4)),
    st.sampled_from([None, 0, 2]),
)
def test_values_and_places_are_the_same_both_ways(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=True)
    root = read_json(text, nodes=NODE_LIMIT, depth=DEPTH_LIMIT)
    if root is None:  # a number that the YAML reader has its own word for
        return
    if "\\ud" in text:  # an escaped pair, which is JSON's own way of writing; YAML knows no such escape
        assert root.value == value
        return
    quick, slow = Document(root.value, "x", root), loads(text, file="x.yaml")
    assert quick.value == slow.value == value
    for path in paths(value):
        assert quick.place(path) == slow.place(path), path
        assert quick.place(path, key=True) == slow.place(path, key=True), path


@pytest.mark.parametrize(
    "text",
    ["", "3", "{a: 1}", '{"a": 1,}', '{"a": 1, "a": 2}', '{"a": 1e999}', '{"a": 1E2}', '{"a": NaN}',
     '{"a": 12345678901234567890}', '{"a": "\\ud83d"}', "[" * 40 + "]" * 40, '{"a": 1} x', '{"a": [1}'],
)  # fmt: skip
def test_what_is_unusual_is_left_to_the_other_reader(text: str) -> None:
    assert read_json(text, nodes=40, depth=32) is None


def test_too_many_values_are_refused_at_once_and_with_their_place() -> None:
    with pytest.raises(ConfigError, match=r"x.json:2:79: the file holds more than 40 values .*; split it"):
        read_json("[\n" + "0," * 50 + "0]", nodes=40, depth=32, file="x.json")
