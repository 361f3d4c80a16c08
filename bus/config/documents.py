"""Parses a YAML or JSON file into plain data with the line and column of every value.

Uses libyaml's *events* instead of `compose()`: the C composer is recursive, and 100,000 opening brackets crash the
interpreter (measured with PyYAML 6.0.3; the libyaml of 6.0.4 refuses a thousand). Events come one at a time, so such a
text can be refused.

Scalars follow YAML 1.2's core schema, as editors with a JSON Schema do: `on`, `yes` and `12:30` are text, only
`true` and `false` are booleans. Tags, merge keys, NaN and infinities are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from bus.config.files import NOTHING, TEXT_LIMIT, Source, Stamp, files_read, read_file, stamp, too_large
from bus.config.json_documents import (
    Node,
    Plain,
    bad_number,
    duplicate_key,
    read_json,
    replace_lone_surrogates,
    too_deep,
    too_many,
)
from bus.errors import ConfigError
from bus.lazy.modules import lazy_module
from bus.lazy.regex import lazy_regex

if TYPE_CHECKING:
    import yaml
else:
    yaml = lazy_module("yaml")  # takes 15 ms, and most processes read no file

NODE_LIMIT: Final = 250_000
"""The most values in one file, counted with every alias expanded; this stops alias bombs."""
DEPTH_LIMIT: Final = 32

__all__ = [
    "DEPTH_LIMIT",
    "NODE_LIMIT",
    "NOTHING",
    "TEXT_LIMIT",
    "Document",
    "PathParts",
    "Plain",
    "Source",
    "Stamp",
    "TextSpan",
    "dotted",
    "load",
    "loads",
    "read_file",
    "recording_files",
    "spans",
    "stamp",
]

PathParts = tuple[str | int, ...]
_Event: TypeAlias = Any  # PyYAML's stubs leave the attributes of events untyped

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER: Final = lazy_regex(r"[-+]?[0-9]+\Z")
_OCTAL_OR_HEX: Final = lazy_regex(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT: Final = lazy_regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE: Final = lazy_regex(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_UNPRINTABLE: Final = lazy_regex(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# JSON escapes a character beyond the basic plane as a surrogate pair, YAML as one escape.
_SURROGATES: Final = lazy_regex(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


_loaded: ContextVar[dict[str, Document] | None] = ContextVar("loaded", default=None)


@contextmanager
def recording_files() -> Iterator[dict[str, Stamp]]:
    """Record every file that is read in this context, missing files too, for the code that watches them.

    Each file is parsed once: detection of the dialect and the dialect itself share the document.
    """
    files: dict[str, Stamp] = {}
    tokens = files_read.set(files), _loaded.set({})
    try:
        yield files
    finally:
        files_read.reset(tokens[0])
        _loaded.reset(tokens[1])


@dataclass(frozen=True, slots=True)
class Document:
    """A file's plain data (`value`) with line and column of every value; `value` must not be changed."""

    value: Plain
    file: str
    root: Node
    warnings: tuple[str, ...] = ()
    """Values that were read differently from how they are written, each with line and column."""

    def place(self, path: Iterable[str | int] = (), *, key: bool = False) -> tuple[int, int]:
        """Line and column (from 1) of the value at a path, or of its key; for a missing value, of its nearest parent."""
        node, at_key = self.root, None
        for part in path:
            below = node.children.get(part)
            if below is None:
                at_key = None
                break
            at_key = node.keys.get(part) if isinstance(part, str) else None
            node = below
        return at_key if key and at_key is not None else (node.line, node.column)

    def error(self, path: PathParts, message: str, *, hint: str = "", key: bool = False) -> ConfigError:
        """A ConfigError with the line and column of the value at a path."""
        line, column = self.place(path, key=key)
        return ConfigError(message, file=self.file, line=line, column=column, path=dotted(path), hint=hint)


def dotted(path: Iterable[str | int]) -> str:
    """A path as people write it: `hooks[2].timeout`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def load(path: Path) -> Document:
    """Parse a YAML or JSON file; ConfigError with line and column for a mistake."""
    known, name = _loaded.get(), str(path)
    found = known.get(name) if known is not None else None
    if found is None:
        found = loads(read_file(path), file=name)
        if known is not None:
            known[name] = found
    return found


def loads(text: str, *, file: str = "") -> Document:
    """Parse YAML or JSON text; an empty text is None. Errors name `file`; a name with `.json` selects JSON's escapes."""
    if len(text) > TEXT_LIMIT or (len(text) > TEXT_LIMIT // 4 and len(text.encode("utf-8", "replace")) > TEXT_LIMIT):
        raise too_large(file)
    text = text.removeprefix("\ufeff")
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        raise ConfigError(
            f"a text file cannot contain the character U+{ord(bad[0]):04X}", file=file, line=line, column=column
        )
    warnings: tuple[str, ...] = ()
    if file.endswith(".json"):
        text, warnings = replace_lone_surrogates(text, file=file)
        quick = read_json(text, nodes=NODE_LIMIT, depth=DEPTH_LIMIT, file=file)
        if quick is not None:
            return Document(quick.value, file, quick, warnings)
        text = _SURROGATES.sub(_join_surrogates, text)
    try:
        root = _Builder(file).build(_parse(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        if mark is not None and "nesting" in str(error.problem):
            raise _too_deep_before(text[: mark.index], file, line, column) from error
        problem = " ".join(part for part in (error.problem, error.context) if part) or "this is not YAML"
        raise ConfigError(problem, file=file, line=line, column=column, hint=_yaml_hint(problem)) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"this is not YAML: {error}", file=file) from error
    return Document(root.value, file, root, warnings)


def _parse(text: str) -> Iterator[_Event]:
    """The events of a text, by the loader in C; where PyYAML's wheel comes without libyaml, by the slower one in Python."""
    return yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _too_deep_before(text: str, file: str, line: int, column: int) -> ConfigError:
    """The error for a text of a thousand levels, at which libyaml 0.2.6 stops before it gives the events of the first ones."""
    try:
        _Builder(file).build(_parse(text))
    except ConfigError as error:
        return error
    except yaml.YAMLError:
        pass
    return too_deep(DEPTH_LIMIT, file=file, line=line, column=column)


class TextSpan(NamedTuple):
    """The offsets of a value and its key in a text; -1 where there is no key."""

    begin: int
    end: int
    """For a block collection: the begin of the next token."""
    key_begin: int
    key_end: int
    flow: bool
    """Whether it is a flow collection (in brackets)."""
    scalar: bool


def spans(text: str) -> dict[PathParts, TextSpan]:
    """The span of every value by its path, for a YAML text that `loads` accepts; aliases have none."""
    found: dict[PathParts, TextSpan] = {}
    open_collections: list[tuple[PathParts, _Event, int]] = []  # path, first event, how many entries or keys so far
    keys: dict[int, _Event] = {}  # the key that waits for its value, by depth
    for event in _parse(text):
        if isinstance(event, yaml.CollectionEndEvent):
            path, first, _ = open_collections.pop()
            key = keys.pop(len(open_collections), None)
            found[path] = _span(first, event, key, flow=bool(first.flow_style), scalar=False)
        elif isinstance(event, yaml.NodeEvent):
            path = ()
            if open_collections:
                depth = len(open_collections)
                parent, first, count = open_collections[-1]
                if isinstance(first, yaml.MappingStartEvent) and depth not in keys:
                    keys[depth] = event
                    continue
                path = (*parent, keys[depth].value if depth in keys else count)
                open_collections[-1] = (parent, first, count + 1)
            if isinstance(event, yaml.CollectionStartEvent):
                open_collections.append((path, event, 0))
            else:
                scalar = isinstance(event, yaml.ScalarEvent)
                found[path] = _span(event, event, keys.pop(len(open_collections), None), flow=False, scalar=scalar)
    return found


def _span(first: _Event, last: _Event, key: _Event, *, flow: bool, scalar: bool) -> TextSpan:
    key_begin, key_end = (key.start_mark.index, key.end_mark.index) if key is not None else (-1, -1)
    return TextSpan(first.start_mark.index, last.end_mark.index, key_begin, key_end, flow, scalar)


def _join_surrogates(match: re.Match[str]) -> str:
    high, low = int(match[2], 16) - 0xD800, int(match[3], 16) - 0xDC00
    return f"{match[1]}\\U{0x10000 + (high << 10) + low:08X}"


def _yaml_hint(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "put a text with `: ` in quotes, and check the indentation"
    if "unknown escape character" in problem:
        return "in double quotes a backslash begins an escape: put a regular expression in single quotes"
    if "cannot start any token" in problem:
        return "indent with spaces, and put a text that begins with a special character in quotes"
    return ""


class _Builder:
    """Builds nodes from events without recursion; refuses tags, merge keys and numbers that are not finite."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.anchors: dict[str, Node] = {}
        self.open: list[tuple[Node, str | None]] = []
        self.key: str | None = None
        self.key_place = (0, 0)
        self.total = 0

    def build(self, events: Iterable[_Event]) -> Node:
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise self.error(event, "the file has more than one document", "remove the `---` line")
            if not isinstance(event, (yaml.NodeEvent, yaml.CollectionEndEvent)):
                continue
            done = self.close() if isinstance(event, yaml.CollectionEndEvent) else self.start(event)
            if done is not None and not self.open:
                root = done
        return root if root is not None else Node(None, 1, 1)

    def start(self, event: _Event) -> Node | None:
        """Handle the first event of a node; returns the node if it is complete."""
        if getattr(event, "tag", None) is not None:
            raise self.error(event, f"tags such as {event.tag!r} are not supported", "write the value without it")
        parent = self.open[-1][0] if self.open else None
        if parent is not None and isinstance(parent.value, dict) and self.key is None:
            self.take_key(event, parent)
            return None
        if isinstance(event, yaml.AliasEvent):
            node = self.anchors.get(event.anchor or "")
            if node is None:
                raise self.error(event, f"nothing before this is anchored as &{event.anchor}", "")
            # Errors point to the anchor, because that is where the value has to be corrected.
            self.count(event, node.size)
            if len(self.open) + node.height > DEPTH_LIMIT:
                raise self.too_deep(event)
            return self.attach(node)
        self.count(event, 1)
        line, column = _place(event)
        if isinstance(event, yaml.ScalarEvent):
            node = Node(self.scalar(event), line, column)
            if event.anchor:
                self.anchors[event.anchor] = node
            return self.attach(node)
        if len(self.open) >= DEPTH_LIMIT:
            raise self.too_deep(event)
        node = Node({} if isinstance(event, yaml.MappingStartEvent) else [], line, column)
        self.open.append((node, event.anchor))
        if parent is not None:
            self.link(parent, node)
        return None

    def close(self) -> Node:
        node, anchor = self.open.pop()
        node.size += sum(child.size for child in node.children.values())
        node.height = 1 + max((child.height for child in node.children.values()), default=0)
        if anchor:
            self.anchors[anchor] = node
        return node

    def take_key(self, event: _Event, parent: Node) -> None:
        if not isinstance(event, yaml.ScalarEvent) or event.anchor:
            raise self.error(event, "a key has to be plain text", "")
        key = event.value
        if event.implicit[0]:
            if key == "<<":
                raise self.error(event, "merge keys (<<) are not supported", "write the keys out")
            if not isinstance(self.scalar(event), str):
                raise self.error(event, f"the key {key[:24] or 'null'} is not text", "put it in quotes")
        if key in parent.children:
            line, column = _place(event)
            raise duplicate_key(key, parent.keys[key][0], file=self.file, line=line, column=column)
        self.key, self.key_place = key, _place(event)

    def attach(self, node: Node) -> Node:
        if self.open:
            self.link(self.open[-1][0], node)
        return node

    def link(self, parent: Node, node: Node) -> None:
        if isinstance(parent.value, list):
            parent.children[len(parent.value)] = node
            parent.value.append(node.value)
        elif self.key is not None:
            parent.children[self.key], parent.keys[self.key] = node, self.key_place
            parent.value[self.key] = node.value
            self.key = None

    def count(self, event: _Event, nodes: int) -> None:
        self.total += nodes
        if self.total > NODE_LIMIT:
            line, column = _place(event)
            raise too_many(NODE_LIMIT, file=self.file, line=line, column=column)

    def scalar(self, event: _Event) -> str | int | float | bool | None:
        text: str = event.value
        if not event.implicit[0]:
            return text
        if text in _NULLS:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        number: int | float
        if _INTEGER.match(text) or _OCTAL_OR_HEX.match(text):
            if len(text) > 24:  # before int(), which refuses long texts with an error of its own
                raise self.error(event, "the number is too large", "put it in quotes if it is text")
            number = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
            if not -(2**63) <= number < 2**63:
                raise self.error(event, "the number is too large", "put it in quotes if it is text")
            return number
        if _NOT_FINITE.match(text) or (_FLOAT.match(text) and not math.isfinite(float(text))):
            line, column = _place(event)
            raise bad_number(text, file=self.file, line=line, column=column)
        return float(text) if _FLOAT.match(text) else text

    def too_deep(self, event: _Event) -> ConfigError:
        line, column = _place(event)
        return too_deep(DEPTH_LIMIT, file=self.file, line=line, column=column)

    def error(self, event: _Event, message: str, hint: str) -> ConfigError:
        line, column = _place(event)
        return ConfigError(message, file=self.file, line=line, column=column, hint=hint)


def _place(event: _Event) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
