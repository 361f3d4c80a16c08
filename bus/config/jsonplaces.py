"""JSON text into plain data that knows its places: four times as fast as through YAML's events, and the same.

Other systems' hook files are JSON as a rule, and a thousand hooks of them are read whenever somebody lists hooks. What is
not plain JSON, or anything about it is unusual, is left to the YAML reader, which also has the words for what is wrong.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bus.errors import ConfigError, DecodeError

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
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_PLAIN: Final = re.compile(r"(?:true|false|null|-?[0-9]{1,17}(?:\.[0-9]{1,17})?)\Z")
"""A literal, or a number that is in no doubt; the YAML reader has a word for the others."""


SPLIT: Final = "split it: a fleethook.yaml may import several"
"""The mend for a file that is too large."""

_NO_CHILDREN: Final[dict[str | int, Node]] = {}
_NO_KEYS: Final[dict[str, tuple[int, int]]] = {}
"""Of every value that holds none: nothing is ever put into them."""


def too_many(nodes: int, *, file: str, line: int, column: int) -> ConfigError:
    """A file that holds more values than anybody writes by hand."""
    message = f"the file holds more than {nodes:,} values (aliases written out)"
    return ConfigError(message, file=file, line=line, column=column, hint=SPLIT)


def read_json(text: str, *, nodes: int, depth: int, file: str = "") -> Node | None:
    """The document's root; None where the text is better read as YAML: no strict JSON, too deep, a name twice.

    ConfigError for more than so many nodes, of which YAML's reader would need ten seconds to say the same.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text, object_pairs_hook=_once)
        if _SURROGATE.search(
            text
        ):  # pairs are joined by now; half a pair is no text, and YAML's reader says where it is
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError, DecodeError):  # UnicodeEncodeError is a ValueError
        return None
    root = _places(text, nodes, depth, file)
    if root is not None:
        root.value = value
    return root


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DecodeError("a name stands twice in one object")
    return found


def _places(text: str, nodes: int, depth: int, file: str) -> Node | None:
    """The nodes of a text that is valid JSON, without their values; None where it is too deep."""
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
        place = (line, at - starts[line - 1] + 1)
        if open_ and open_[-1][1] and key is None:
            word = match[1]
            key, key_place = json.loads(word) if "\\" in word else word[1:-1], place
            continue
        if kind == 4 and not _PLAIN.match(match[4]):
            return None
        count += 1
        if count > nodes:
            raise too_many(nodes, file=file, line=place[0], column=place[1])
        node = Node(None, *place) if kind == 2 else Node(None, *place, _NO_CHILDREN, _NO_KEYS)
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
                return None
            open_.append((node, match[2] == "{"))
    return root
