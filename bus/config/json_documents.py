"""JSON text into plain data that knows its places: four times as fast as through YAML's events, and the same.

Other systems' hook files are JSON as a rule, and a thousand hooks of them are read whenever somebody lists hooks. What is
no strict JSON is left to the YAML reader, which takes comments; but not a large text, with which it would take seconds.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bus.errors import ConfigError

Plain: TypeAlias = Any
"""What YAML and JSON can hold: text, numbers, booleans, None, lists, and dicts with text for keys."""


@dataclass(slots=True)
class Node:
    """One value with its place (line and column from 1); mutable only while the file is read."""

    value: Plain
    line: int
    column: int
    children: dict[str | int, Node] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 1
    height: int = 0


_TOKEN: Final = re.compile(r'[ \t\r\n,:]*(?:("(?:[^"\\]|\\.)*")|([{\[])|([}\]])|([^ \t\r\n,:"{}\[\]]+))')
_LINE: Final = re.compile(r"\n")
_ESCAPED: Final = re.compile(
    r"(?<!\\)(?:\\\\)*"
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
"""A character beyond the basic plane as JSON escapes it, or half of one."""
_PLAIN: Final = re.compile(r"(?:true|false|null|-?[0-9]{1,17}(?:\.[0-9]{1,17})?)\Z")
"""A literal, or a number that is in no doubt."""

QUICK: Final = 256 * 1024
"""Characters of a text that the YAML reader looks at in half a second at most."""

_MOST_HALVES: Final = 20
"""Halves of characters that are named one by one."""

SPLIT: Final = "split it: a fleethook.yaml may import several"
"""The mend for a file that is too large."""

_NO_CHILDREN: Final[dict[str | int, Node]] = {}
_NO_KEYS: Final[dict[str, tuple[int, int]]] = {}
"""Of every value that holds none: nothing is ever put into them."""


def too_many(nodes: int, *, file: str, line: int, column: int) -> ConfigError:
    """A file that holds more values than anybody writes by hand."""
    message = f"the file holds more than {nodes:,} values (aliases written out)"
    return ConfigError(message, file=file, line=line, column=column, hint=SPLIT)


def too_deep(depth: int, *, file: str, line: int, column: int) -> ConfigError:
    """A file that is nested as none is that somebody means."""
    message = f"the file is nested deeper than {depth} levels"
    return ConfigError(message, file=file, line=line, column=column, hint="no hook file of any system is")


def twice(key: str, first: int, *, file: str, line: int, column: int) -> ConfigError:
    """A name that stands in an object for the second time."""
    message = f'the key "{key[:80]}" is here for the second time'
    return ConfigError(message, file=file, line=line, column=column, hint=f"the first is in line {first}")


def no_number(text: str, *, file: str, line: int, column: int) -> ConfigError:
    """A number that is not finite, or has no place in 64 bits."""
    message = f"{text[:24]} is not a number that can be used"
    return ConfigError(message, file=file, line=line, column=column, hint="put it in quotes if it is text")


def without_halves(text: str, *, file: str = "") -> tuple[str, tuple[str, ...]]:
    """JSON text with U+FFFD for each escaped half of a character, of the same length, and warnings with their places.

    So do Go and Node when they write such a text to a process, which is what the authors of these files have seen.
    """
    said: list[str] = []

    def mended(match: re.Match[str]) -> str:
        half = match["half"]
        if not half:
            return match[0]
        if len(said) < _MOST_HALVES:
            at = match.start("half")
            line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
            hint = "write the character itself, or both halves"
            message = f"{half} is half of a character: it is read as U+FFFD"
            said.append(str(ConfigError(message, file=file, line=line, column=column, hint=hint)))
        return match[0][: -len(half)] + "\\ufffd"

    return (_ESCAPED.sub(mended, text) if "\\u" in text else text), tuple(said)


def read_json(text: str, *, nodes: int, depth: int, file: str = "") -> Node | None:
    """The document's root; None where a short text is better read as YAML: it is no strict JSON.

    ConfigError with the place for what no reader takes (more than so many nodes, levels, a name twice in an object), and
    for a long text that is no JSON.
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
            hint="mend it here; only a small file may have comments and a comma too many",
        ) from error
    except (RecursionError, ValueError):
        pass  # nested as deep, or a number as long, as is refused below with its place
    root = _places(text, nodes, depth, file)
    root.value = value
    return root


def _places(text: str, nodes: int, depth: int, file: str) -> Node:
    """The nodes of a text that is valid JSON, without their values."""
    starts = [0, *(match.end() for match in _LINE.finditer(text))]
    root: Node | None = None
    open_: list[tuple[Node, bool]] = []  # with whether it is an object
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
                raise twice(key, known[0], file=file, line=line, column=column)
            continue
        if kind == 4 and not _PLAIN.match(match[4]) and not _fits(match[4]):
            raise no_number(match[4], file=file, line=line, column=column)
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
    """Whether a number is one that every part of ours can hold."""
    if number.lstrip("-").isdigit():
        return len(number) <= 24 and -(2**63) <= int(number) < 2**63
    return len(number) <= 400 and math.isfinite(float(number))
