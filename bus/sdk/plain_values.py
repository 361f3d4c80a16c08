"""Turns any Python value into one that the wire takes: a tool's arguments need not be JSON."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

DEEPEST: Final = 24
"""How deep containers may be nested. The wire takes 32, and an event adds levels of its own."""

LONGEST: Final = 1_000_000
"""Characters of one text, and bytes of one byte string. The rest is cut off, with a note."""

_WIDE: Final = 10_000
"""Members of one container that are kept; a note counts the others."""


def plain(value: object, depth: int = DEEPEST) -> Any:
    """The value if the wire takes it, else the nearest value that it takes. Never raises, even if a value's own code does.

    Structs and dataclasses become maps; sets and tuples become lists; NaN and infinity become text; any other value
    becomes its `str()`.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]} [fleethook cut {len(text) - LONGEST} characters]"
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value[:LONGEST])
    if depth == 0:
        return _worded(value)
    if isinstance(value, Mapping):
        kept = {_name(key): plain(item, depth - 1) for key, item in _first(value.items())}
        return kept if len(value) <= _WIDE else {**kept, "fleethook": _left_out(value)}
    if isinstance(value, list | tuple | AbstractSet):
        items = [plain(item, depth - 1) for item in _first(value)]
        return items if len(value) <= _WIDE else [*items, _left_out(value)]
    try:
        known = msgspec.to_builtins(value, enc_hook=_worded)
    except Exception:  # noqa: BLE001 - a value's own code may raise anything, which must not stop an agent
        return _worded(value)
    return plain(known, depth) if known is not value else _worded(value)


def _first(items: Any) -> list[Any]:
    return [item for item, _ in zip(items, range(_WIDE), strict=False)]


def _left_out(value: Collection[object]) -> str:
    return f"[fleethook left out {len(value) - _WIDE} more]"


def _name(key: object) -> str:
    return key if isinstance(key, str) else _worded(key)


def _worded(value: object) -> str:
    try:
        return str(value)[:LONGEST]
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__}>"
