"""Containers that are nested too deep become texts of JSON, so that what is around them can be read.

A model chooses how deep it nests the arguments of a tool. If that made the whole call unreadable, it would pass every guard.
"""

from __future__ import annotations

import json
from typing import Final

from bus.lazy.regex import lazy_regex

_TOKEN: Final = lazy_regex(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]')
"""A text of JSON, also one without its end, or a bracket."""


def flat_json(raw: bytes, depth: int) -> bytes:
    """The same JSON, in which each list and object nested deeper than `depth` levels is a text of JSON."""
    parts: list[bytes] = []
    level = start = end = 0
    for token in _TOKEN.finditer(raw):
        sign = token[0]
        if sign in (b"[", b"{"):
            level += 1
            if level == depth + 1:
                start = token.start()
        elif sign in (b"]", b"}"):
            if level == depth + 1:
                deep = raw[start : token.end()].decode("utf-8", "replace")
                parts += raw[end:start], json.dumps(deep).encode()
                end = token.end()
            level -= 1
    return b"".join((*parts, raw[end:]))


def flat_value(value: object, depth: int) -> object:
    """The same value, in which each list and map nested deeper than `depth` levels is a text of JSON.

    Raises RecursionError where JSON of it cannot be written.
    """
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return json.dumps(value, default=repr)
    if isinstance(value, dict):
        return {key: flat_value(item, depth - 1) for key, item in value.items()}
    return [flat_value(item, depth - 1) for item in value]


def may_be_flat(value: object, level: int) -> bool:
    """Whether a text in the value, inside of `level` containers or more, may stand for what was nested too deep."""
    if isinstance(value, str):
        return level <= 0 and value[:1] in ("[", "{")
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(may_be_flat(item, level - 1) for item in items)
