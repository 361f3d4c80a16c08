"""JSON read the quick way is what the YAML reader makes of it: the same values at the same places, or left to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.config.documents import DEPTH_LIMIT, NODE_LIMIT, Document, loads
from bus.config.json_documents import read_json
from bus.errors import ConfigError

_texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
_values = st.recursive(
    st.one_of(
        _texts,
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.none(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)),
    max_leaves=20,
)


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


@pytest.mark.parametrize("text", ["", "3", "{a: 1}", '{"a": 1,}', '{"a": 1} x', '{"a": [1}'])
def test_what_is_no_strict_json_is_left_to_the_other_reader(text: str) -> None:
    assert read_json(text, nodes=40, depth=32) is None


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('{"a": 1,\n "a": 2}', (2, 2), "second time; the first is in line 1"),
        ('{"a": 1e999}', (1, 7), "1e999 is not a number"),
        ('{"a": NaN}', (1, 7), "NaN is not a number"),
        ('{"a": 12345678901234567890}', (1, 7), "is not a number"),
        ('{"a": ' + "9" * 5000 + "}", (1, 7), "is not a number"),
        ("[" * 40 + "]" * 40, (1, 33), "nested deeper than 32"),
        ("[" * 100_000, (1, 33), "nested deeper than 32"),
        ("[\n" + "0," * 50 + "0]", (2, 79), "more than 40 values (aliases written out); split it"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_no_reader_takes_is_refused_with_its_place(text: str, place: tuple[int, int], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_json(text, nodes=40, depth=32, file="x.json")
    assert (caught.value.line, caught.value.column) == place
    assert says in str(caught.value)


@pytest.mark.parametrize("end", ["", ',\n{"a": 1,}]', ",\n// more\n]", ',\n{"a": NaN}]', ',\n{"a": 1, "a": 2}]', "]]]"])
def test_a_large_broken_file_never_meets_the_slow_reader(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> Iterator[Any]:
        raise AssertionError

    monkeypatch.setattr("bus.config.documents.yaml.parse", slow)
    text = "[\n" + ",\n".join(['{"name": "x", "command": "echo 1e5"}'] * 8_000)
    with pytest.raises(ConfigError, match=r"x\.json:800[0-9]:[0-9]+: ") as caught:
        loads(text + end, file="x.json")
    assert caught.value.hint
    assert len(loads(text + ', {"a": 1e5}]', file="x.json").value) == 8_001


def test_half_a_character_is_read_as_other_systems_read_it() -> None:
    text = '{"a": "x\\ud800y", "b": "\\ud83d\\ude00 \\\\ud800",\n "c\\uDFFF": 1, "d": "\\ud83d\\ud83d\\ude00"}'
    read = loads(text, file="x.json")
    assert read.value == {"a": "x\ufffdy", "b": "\U0001f600 \\ud800", "c\ufffd": 1, "d": "\ufffd\U0001f600"}
    assert read.place(("c\ufffd",)) == (2, 13)
    first, second, third = read.warnings
    assert first.startswith(r"x.json:1:9: \ud800 is half of a character: it is read as U+FFFD")
    assert second.startswith("x.json:2:4: ")
    assert third.startswith("x.json:2:22: ")
    assert loads('{"a": "\\ud800" // no strict JSON\n}'.replace("//", " #"), file="x.json").value == {"a": "\ufffd"}
