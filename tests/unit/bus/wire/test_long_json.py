"""JSON with long texts is written piece by piece: the same bytes, and other threads have their turns."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.wire import long_json
from bus.wire.codec import write_json
from bus.wire.long_json import LONG, has_long_text, write_long

ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))

texts = st.text(st.characters(), max_size=30)  # with lone surrogates
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_the_bytes_are_those_of_the_encoder(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_json, "_PIECE", 3)
        assert write_long(value, ENCODER) == ENCODER.encode(value).encode()


@pytest.mark.parametrize(
    ("value", "is_long"),
    [
        ("x" * LONG, False),
        ("x" * (LONG + 1), True),
        ({"a": [{"b": b"x" * (LONG + 1)}]}, True),
        ([["x"]] * 100_000, False),
        (7, False),
    ],
)
def test_which_data_holds_a_long_text(value: Any, *, is_long: bool) -> None:
    assert has_long_text(value) is is_long


def test_what_cannot_be_written_is_refused_beside_a_long_text_too() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json({"long": "x" * (LONG + 1), "number": float("nan")})


def test_other_threads_have_turns_while_a_long_text_is_written() -> None:
    """`json` alone writes it in one call; then this thread has one turn before and one after it."""
    written: list[bytes] = []
    value = {"content": "\u00e4" * 5_000_000}
    thread = threading.Thread(target=lambda: written.append(write_json(value)))
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(0)
        turns += 1
    assert turns > 5
    assert written == [ENCODER.encode(value).encode()]
