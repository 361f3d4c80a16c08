"""Parses JSON text into plain data with the line and column of every value, four times as fast as the YAML reader.

Hook files of other systems are usually JSON, and listing hooks can read a thousand of them. A short text that is not
strict JSON is left to the YAML reader, which accepts comments; for a large text the YAML reader would take seconds.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bus.errors import ConfigError
from bus.lazy.regex import lazy_regex

Plain: TypeAlias = Any
"""A value of YAML or JSON: text, number, boolean, None, list, or dict with text as keys."""


@dataclass(slots=True)
class Node:
    """One value with its line and column (from 1); mutable only while the file is parsed."""

    value: Plain
    line: int
    column: int
    children: dict[str | int, Node] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 1
    height: int = 0


_TOKEN: Final = lazy_regex(r'[ \t\r\n,:]*(?:("(?:[^"\\]|\\.)*")|([{\[])|([}\]])|([^ \t\r\n,:"{}\[\]]+))')
_LINE: Final = lazy_regex(r"\n")
_ESCAPED: Final = lazy_regex(
    r"(?<!\\)(?:\\\\)*"
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
"""An escaped surrogate pair, or (group `half`) an escaped surrogate without its partner."""
_PLAIN: Final = lazy_regex(r"(?:true|false|null|-?[0-9]{1,17}(?:\.[0-9]{1,17})?)\Z")
"""A literal, or a number that is short enough to be in range."""

QUICK: Final = 256 * 1024
"""The most characters that the YAML reader parses within half a second."""

_MOST_HALVES: Final = 20
"""The most warnings about lone surrogates in one file."""

SPLIT: Final = "split it: a fleethook.yaml may import several"
"""The hint for a file that is too large."""

_NO_CHILDREN: Final[dict[str | int, Node]] = {}
_NO_KEYS: Final[dict[str, tuple[int, int]]] = {}
"""Shared by all scalars; never changed."""


def too_many(nodes: int, *, file: str, line: int, column: int) -> ConfigError:
    """The error for a file with too many values."""
    message = f"the file has more than {nodes:,} values (aliases written out)"
    return ConfigError(message, file=file, line=line, column=column, hint=SPLIT)


def too_deep(depth: int, *, file: str, line: int, column: int) -> ConfigError:
    """The error for a file that is nested too deeply."""
    message = f"the file is nested deeper than {depth} levels"
    return ConfigError(
        message, file=file, line=line, column=column, hint="hook files are flat; check the brackets and the indentation"
    )


def duplicate_key(key: str, first: int, *, file: str, line: int, column: int) -> ConfigError:
    """The error for a key that an object has twice."""
    message = f'the key "{key[:80]}" is here for the second time'
    return ConfigError(message, file=file, line=line, column=column, hint=f"the first is in line {first}")


def bad_number(text: str, *, file: str, line: int, column: int) -> ConfigError:
    """The error for a number that is not finite or does not fit into 64 bits."""
    message = f"{text[:24]} is not a number that can be used"
    return ConfigError(message, file=file, line=line, column=column, hint="put it in quotes if it is text")


def replace_lone_surrogates(text: str, *, file: str = "") -> tuple[str, tuple[str, ...]]:
    """The text with each lone surrogate replaced by U+FFFD, and a warning for each; the length stays the same.

    Go and Node do the same when they write such a text to a process, so the authors of these files have seen it.
    """
    warnings: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        half = match["half"]
        if not half:
            return match[0]
        if len(warnings) < _MOST_HALVES:
            at = match.start("half")
            line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
            hint = "write the character itself, or both halves"
            message = f"{half} is half of a character: it is read as U+FFFD"
            warnings.append(str(ConfigError(message, file=file, line=line, column=column, hint=hint)))
        return match[0][: -len(half)] + "\\ufffd"

    return (_ESCAPED.sub(replaced, text) if "\\u" in text else text), tuple(warnings)


def read_json(text: str, *, nodes: int, depth: int, file: str = "") -> Node | None:
    """The root of the document; None for a short text that is not strict JSON, which the YAML reader may accept.

    ConfigError with line and column for more than `nodes` values or `depth` levels, for a key that an object has twice,
    and for a long text that is not JSON.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    value = None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        if len(text) <= QUICK:
            return None
        raise ConfigError(
            f"this is not JSON: {error.msg}",
            file=file,
            line=error.lineno,
            column=error.colno,
            hint="correct it here; only a small file may have comments and trailing commas",
        ) from error
    except (RecursionError, ValueError):
        pass  # too deep, or a number that is too long: refused below, with line and column
    root = _places(text, nodes, depth, file)
    root.value = value
    return root


def _places(text: str, nodes: int, depth: int, file: str) -> Node:
    """The nodes of a valid JSON text, without values: lines and columns only."""
    starts = [0, *(match.end() for match in _LINE.finditer(text))]
    root: Node | None = None
    open_: list[tuple[Node, bool]] = []  # each with: whether it is an object
    key: str | None = None
    key_place = (0, 0)
    count = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastindex
        if kind == 3:
            open_.pop()
            continue
        at = match.start(kind or 0)
        line = bisect_right(starts, at)
        column = at - starts[line - 1] + 1
        if open_ and open_[-1][1] and key is None:
            word = match[1]
            key, key_place = json.loads(word) if "\\" in word else word[1:-1], (line, column)
            known = open_[-1][0].keys.get(key)
            if known is not None:
                raise duplicate_key(key, known[0], file=file, line=line, column=column)
            continue
        if kind == 4 and not _PLAIN.match(match[4]) and not _fits(match[4]):
            raise bad_number(match[4], file=file, line=line, column=column)
        count += 1
        if count > nodes:
            raise too_many(nodes, file=file, line=line, column=column)
        node = Node(None, line, column) if kind == 2 else Node(None, line, column, _NO_CHILDREN, _NO_KEYS)
        if open_:
            parent = open_[-1][0]
            if key is not None:
                parent.children[key], parent.keys[key], key = node, key_place, None
            else:
                parent.children[len(parent.children)] = node
        else:
            root = node
        if kind == 2:
            if len(open_) >= depth:
                raise too_deep(depth, file=file, line=line, column=column)
            open_.append((node, match[2] == "{"))
    return root if root is not None else Node(None, 1, 1)


def _fits(number: str) -> bool:
    """Whether a number fits into 64 bits."""
    if number.lstrip("-").isdigit():
        return len(number) <= 24 and -(2**63) <= int(number) < 2**63
    return len(number) <= 400 and math.isfinite(float(number))
