"""JSON with long texts, written piece by piece.

`json` writes a text of ten megabytes in one call of 100 ms, during which no other thread of the process runs (measured). A
thread that writes pieces lets the event loop have its turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring_ascii
from typing import Any, Final

LONG: Final = 256 * 1024
"""A text of more characters is long."""

_PIECE: Final = 32 * 1024
_MOST_SEEN: Final = 10_000

_write_text: Final[Callable[[str], str]] = encode_basestring_ascii


def has_long_text(value: object) -> bool:
    """Whether JSON-like data holds a long text; False if it is not among the first 10,000 values."""
    left, seen = [value], 0
    while left:
        value = left.pop()
        if isinstance(value, str | bytes):
            if len(value) > LONG:
                return True
        elif isinstance(value, dict | list | tuple):
            seen += len(value)
            if seen > _MOST_SEEN:
                return False
            left.extend(value.values() if isinstance(value, dict) else value)
    return False


def write_long(value: Any, encoder: json.JSONEncoder) -> bytes:
    """The same bytes as `encoder.encode(value)`, for an encoder of pure-ASCII JSON without spaces."""
    return b"".join([part.encode("ascii") for part in _parts(value, encoder)])


def _parts(value: Any, encoder: json.JSONEncoder) -> Iterator[str]:
    if isinstance(value, str) and len(value) > _PIECE:
        yield '"'
        for start in range(0, len(value), _PIECE):
            yield _write_text(value[start : start + _PIECE])[1:-1]
        yield '"'
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        yield "{"
        for number, (key, item) in enumerate(value.items()):
            yield f"{',' if number else ''}{_write_text(key)}:"
            yield from _parts(item, encoder)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for number, item in enumerate(value):
            if number:
                yield ","
            yield from _parts(item, encoder)
        yield "]"
    else:
        yield encoder.encode(value)
