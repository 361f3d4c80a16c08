"""The wire: what comes in is bounded before it costs anything, and everything that is wrong is one DecodeError."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.errors import DecodeError
from bus.events import Event
from bus.verdicts import Part, Verdict
from bus.wire.codec import (
    MAX_DEPTH,
    _fitting,
    decode_body,
    decode_verdict,
    encode_event,
    encode_payload,
    encode_verdict,
    pack,
    read_json,
    read_payload,
    unpack,
    within_depth,
    write_json,
)
from tests.support.examples import examples
from tests.support.rows import rows

SURROGATE = "a\ud800b"


def nested(depth: int, inner: Any = 1) -> Any:
    """`inner` within so many lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


def array(count: int, items: bytes) -> bytes:
    """An array of a claimed length."""
    return b"\xdd" + struct.pack(">I", count) + items


BAD: dict[str, bytes] = {
    "empty": b"",
    "half a map": pack({"a": "b"})[:-1],
    "two messages": pack(1) + pack(2),
    "reserved byte": b"\xc1",
    "array of four billion": array(2**32 - 1, b""),
    "map of four billion": b"\xdf\xff\xff\xff\xff",
    "text of four billion": b"\xdb\xff\xff\xff\xff",
    "array too long": array(65_537, b"\xc0" * 65_537),
    "nested by the library's own limit": b"\x91" * 5_000 + b"\xc0",
    "nested a million deep": b"\x91" * 1_000_000 + b"\xc0",
    "one level too deep": pack(nested(MAX_DEPTH + 1)),
    "one level too deep, empty": pack(nested(MAX_DEPTH, [])),
    "one map too deep": pack(nested(MAX_DEPTH, {})),
    "NaN": pack([float("nan")]),
    "infinity": pack({"a": float("-inf")}),
    "extension": msgpack.packb(msgpack.ExtType(5, b"x")),
    "empty extension": b"\xc7\x00\x05",
    "timestamp": msgpack.packb(msgpack.Timestamp(1, 2)),
    "number as a key": msgpack.packb({1: 2}),
    "bytes as a key": msgpack.packb({b"a": 2}, use_bin_type=True),
    "bytes as a key inside": msgpack.packb({"a": [{b"a": 2}]}, use_bin_type=True),
    "list as a key": b"\x81\x90\x01",
    "text that is no UTF-8": b"\xa1\xff",
}


@pytest.mark.req("B-01")
@rows("name", BAD)
def test_whatever_is_wrong_is_a_decode_error(name: str) -> None:
    with pytest.raises(DecodeError):
        unpack(BAD[name])


def test_size_is_looked_at_first() -> None:
    with pytest.raises(DecodeError, match="5 bytes; at most 4"):
        unpack(b"\xc1" * 5, limit=4)
    with pytest.raises(DecodeError, match="at most"):
        read_json(b'"aaa"', limit=4)


def test_a_bomb_of_containers_stays_small() -> None:
    """Thirteen megabytes of empty lists are a gigabyte of Python; what is unpacked of them stays below a tenth."""
    bomb = array(200, array(65_536, b"\x90" * 65_536) * 200)
    tracemalloc.start()
    with pytest.raises(DecodeError, match="lists and maps"):
        unpack(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 2**20
    assert len(unpack(array(65_000, b"\x90" * 65_000))) == 65_000, "what an agent may send still passes"


@pytest.mark.parametrize("inner", [1, "text", None, 1.5, b"raw"])
def test_depth_counts_containers_and_nothing_else(inner: object) -> None:
    assert unpack(pack(nested(MAX_DEPTH, inner))) == nested(MAX_DEPTH, inner)
    with pytest.raises(DecodeError, match="nested deeper than 32"):
        unpack(pack(nested(MAX_DEPTH + 1, inner)))


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 200, 5_000])
def test_what_is_nested_too_deep_in_a_payload_is_a_text_and_the_rest_is_read(levels: int) -> None:
    deep = "[" * levels + r'"\"]"' + "]" * levels
    event = Event(type="a", raw=read_payload(f'{{"a": {deep}, "b": [{deep}, {{}}, "]"], "c": 1}}'.encode()))
    assert event.raw is not None
    assert event.raw["c"] == 1
    assert event.raw["b"][1:] == [{}, "]"]
    inner = event.raw["a"]
    while isinstance(inner, list):
        (inner,) = inner
    assert inner == "[" * (levels - MAX_DEPTH + 2) + r'"\"]"' + "]" * (levels - MAX_DEPTH + 2)
    assert decode_body(encode_event(event)) == event, "the event of such a payload can be read again"


@pytest.mark.parametrize(
    "wrong", ["[" * 5_000, "[" * 40 + "]" * 41, "[" * 40 + "}" * 40, "[" * 40 + "a" + "]" * 40 + ","]
)
def test_a_payload_that_is_nested_too_deep_and_is_no_json_is_a_decode_error(wrong: str) -> None:
    with suppress(DecodeError):
        assert isinstance(read_payload(f'{{"a": {wrong}}}'.encode()), dict), "what is too deep is not looked at"
    with pytest.raises(DecodeError):
        read_payload(f'{{"a": {wrong}'.encode())


def test_reading_past_what_is_too_deep_takes_a_time_in_proportion_to_its_length() -> None:
    quotes = b'{"a":' + b"[" * 5_000 + b'\\"' * 2_000_000
    with pytest.raises(DecodeError):
        read_payload(quotes)


def test_what_is_nested_too_deep_in_an_event_is_a_text() -> None:
    deep: Any = nested(MAX_DEPTH, 1)
    event = decode_body(encode_event(within_depth(Event(type="a", input={"command": "ls", "deep": deep}))))
    assert isinstance(event, Event)
    assert event.input["command"] == "ls"
    plain = Event(type="a", input={"deep": nested(MAX_DEPTH - 2, 1)})
    assert within_depth(plain) is plain


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(categories=["L", "N", "Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
@settings(max_examples=examples(60))
def test_values_come_back_as_they_went(value: object) -> None:
    assert unpack(pack(value)) == value
    assert read_json(write_json(value)) == value


odd_values = st.recursive(
    json_values
    | st.binary(max_size=4)
    | st.floats()
    | st.integers(1, 40).map(nested)
    | st.sampled_from([msgpack.ExtType(5, b"x"), msgpack.Timestamp(1, 2), 2**64, True]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS: dict[Callable[[bytes], object], tuple[dict[str, Any], list[str]]] = {
    decode_body: ({"type": "a", "time": 5}, ["type", "time", "tool", "input", "output", "data", "raw"]),
    decode_verdict: ({"decision": "deny"}, ["decision", "ms", "notes", "updated_input", "parts"]),
}
fields = st.sampled_from([name for _, names in KINDS.values() for name in names])


@given(st.dictionaries(fields, odd_values, max_size=6), st.booleans())
@settings(max_examples=examples(400))
def test_the_quick_way_and_the_long_way_read_the_same(given: dict[str, Any], whole: bool) -> None:
    """What stands first in a message decides which way it is read, and nothing else."""
    for read, (least, names) in KINDS.items():
        said = {**{k: v for k, v in given.items() if k in names}, **(least if whole else {}), "else": [1]}
        read_as: list[object] = []
        for ordered in ({"v": 1, **said}, {**said, "v": 1}):
            with suppress(DecodeError):
                read_as.append(read(msgpack.packb(_fitting(ordered), unicode_errors="surrogatepass")))
        assert len(read_as) in (0, 2)
        assert not read_as or read_as[0] == read_as[1]


@given(st.binary(max_size=60))
@settings(max_examples=examples(300))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    for read in (unpack, read_json, decode_body, decode_verdict):
        for start in (b"", b"\x85\xa1v\x01"):
            with suppress(DecodeError):
                read(start + raw)


def test_lone_surrogates_and_big_integers_survive() -> None:
    assert unpack(pack({SURROGATE: SURROGATE})) == {SURROGATE: SURROGATE}
    assert read_json(rb'"a\ud800b"') == SURROGATE
    assert write_json(SURROGATE) == rb'"a\ud800b"'
    assert unpack(pack([2**64, -(2**63) - 1, 2**64 - 1])) == [str(2**64), str(-(2**63) - 1), 2**64 - 1]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"a": NaN}', b"[Infinity]", b"[1e999]", b"1" * 5_000, b"[" * 100_000, b"\x00", b"{}{}"]
)
def test_json_that_is_none_is_a_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        read_json(raw)


def test_json_is_never_written_with_nan() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json({"a": float("nan")})


def test_a_body_is_a_payload_or_an_event() -> None:
    event = Event(type="tool:pre_execute", tool="bash", input={"command": SURROGATE, "blob": b"\xff"}, raw={"n": 1})
    assert decode_body(encode_event(event)) == event
    assert decode_body(encode_payload(b"\xff not json")) == b"\xff not json"
    wrong: object
    for wrong in (
        [],
        {"type": 1},
        {"v": 1},
        {"v": 0, "type": "a"},
        {"v": "1", "type": "a"},
        {"type": "a", "input": [1]},
    ):
        with pytest.raises(DecodeError):
            decode_body(pack(wrong))


def test_a_newer_sender_is_understood() -> None:
    """An old worker skips what it does not know; a newer schema number alone refuses nothing."""
    assert decode_body(pack({"v": 7, "type": "a", "new": 1})) == Event(type="a")
    said = Verdict(decision="deny", reason="no", parts=(Part(hook="h", decision="deny"),), updated_input={"a": [1]})
    assert decode_verdict(encode_verdict(said)) == said
    assert decode_verdict(pack({"v": 2, "decision": "ask", "mood": "bad"})).decision == "ask"
