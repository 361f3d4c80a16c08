"""Adds an entry to a list of a fleethook.yaml without changing any other character.

The result is parsed and compared before it is written. A file that cannot be edited this way is left alone, and the
error says what to add by hand.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bus.config.documents import Document, Plain, loads
from bus.config.edit_json import read_text, rewrite, write_new
from bus.errors import ConfigError
from bus.lazy.regex import lazy_regex

_PLAIN: Final = lazy_regex(r"(?![-+.]?[0-9]|\.(?i:inf|nan)\Z|[.~-]+\Z)[A-Za-z0-9_./~][A-Za-z0-9_./~-]*\Z")
"""Text that needs no quotes in YAML. Nothing that begins like a number, since `0E0` is one."""
_RESERVED: Final = frozenset({"true", "false", "null", "True", "False", "Null", "TRUE", "FALSE", "NULL", "~"})


def with_entry(text: str, file: str, key: str, entry: Plain, block: str = "") -> str:
    """The text of a hook file with one more entry in the list at a top-level key; a missing list is created.

    `block` is the entry as YAML, beginning with `- `; without it, the entry is written on one line. ConfigError for a text
    that cannot be parsed, or has to be edited by hand.
    """
    block = block or f"- {flow(entry)}"
    if text.lstrip().startswith("{") or (file.endswith(".json") and not text.strip()):
        return _in_json(text, file, key, entry)
    document = loads(text, file=file)
    before = {} if document.value is None else document.value
    if not isinstance(before, dict):
        raise document.error((), "a hook file is a mapping with hooks, endpoints, guards")
    value = before.get(key)
    if value is not None and not isinstance(value, list):
        raise document.error((key,), f"{key} has to be a list", hint="correct it first; nothing was changed")
    result = _edited(text, document, key, block, entry)
    try:
        after = loads(result, file=file).value
    except ConfigError:
        after = None
    if after != {**before, key: [*(value or []), entry]}:
        hint = f"add it by hand below `{key}:`, and nothing was changed: {block.strip()}"
        raise document.error((key,), "the file is written in a way that cannot be edited here", hint=hint)
    return result


def flow(value: Plain) -> str:
    """A value as YAML on one line; text without quotes where it needs none."""
    if isinstance(value, str):
        return value if _PLAIN.match(value) and value not in _RESERVED else json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(name)}: {flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return json.dumps(value)


def replace_file(path: Path, text: str, *, before: Callable[[Path], None] | None = None) -> None:
    """Write a file in one step, keeping its mode and following a link; a new file is readable by this user only.

    `before` is called with the temporary file, whole and with its final times, before that takes the place of `path`.
    """
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = stat.S_IMODE(os.stat(real).st_mode) if real.exists() else 0o600
        descriptor, part = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
                os.fchmod(stream.fileno(), mode)
            if before is not None:
                before(Path(part))
            os.replace(part, real)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", file=str(path)) from error


def _in_json(text: str, file: str, key: str, entry: Plain) -> str:
    if not text.strip():
        return write_new({key: [entry]})
    original, value = read_text(text.encode("utf-8", "surrogatepass"), file=file)
    found = value.get(key)
    if found is not None and not isinstance(found, list):
        raise ConfigError(f"{key} has to be a list", file=file, path=key, hint="correct it first; nothing was changed")
    return rewrite(original, {**value, key: [*(found or []), entry]})


def _edited(text: str, document: Document, key: str, block: str, entry: Plain) -> str:
    """The text with the entry; the caller checks the result."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += newline
    value = (document.value or {}).get(key)
    line, column = document.place((key,))
    if value == [] or (value and _character(lines, line, column) == "["):
        return _in_flow(text, lines, line, column, entry)
    if value is None and key not in (document.value or {}):
        above = [newline] if lines and lines[-1].strip() else []
        return "".join([*lines, *above, f"{key}:{newline}", *_indented(block, 2, newline)])
    if value is None:  # `hooks:` without a value
        at, indent = document.place((key,), key=True)[0], 2
    else:
        at, indent = _end(lines, document, line), column - 1
    return "".join([*lines[:at], *_indented(block, indent, newline), *lines[at:]])


def _end(lines: list[str], document: Document, begin: int) -> int:
    """The last line (from 1) of the block that begins in a line; comments above the next key belong to that key."""
    keys = (document.place((name,), key=True)[0] for name in document.value)
    following = min((line for line in keys if line > begin), default=len(lines) + 1)
    at = following - 1
    while at > begin and (not lines[at - 1].strip() or lines[at - 1].startswith("#")):
        at -= 1
    return at


def _indented(block: str, indent: int, newline: str) -> list[str]:
    text = textwrap.indent(textwrap.dedent(block).strip("\n"), " " * indent)
    return [line + newline for line in text.split("\n")]


def _character(lines: list[str], line: int, column: int) -> str:
    return lines[line - 1][column - 1 : column] if 0 < line <= len(lines) else ""


def _in_flow(text: str, lines: list[str], line: int, column: int, entry: Plain) -> str:
    """The text with the entry before the closing bracket of a flow list."""
    start = sum(map(len, lines[: line - 1])) + column - 1
    depth, quote, at = 0, "", start
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\" and quote == '"':
                at += 1
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character == "#" and text[at - 1].isspace():
            at = text.find("\n", at)
            if at < 0:
                break
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
            if depth == 0:
                inside = text[start + 1 : at].strip()
                comma = "" if not inside else " " if inside.endswith(",") else ", "
                before = text[:at].rstrip()
                return before + comma + flow(entry) + text[len(before) :]
        at += 1
    return text
