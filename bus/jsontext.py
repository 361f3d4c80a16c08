"""Changes a JSON text where its value changed, and leaves the rest as somebody wrote it."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from bus.errors import ConfigError

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class _Style(NamedTuple):
    indent: str
    newline: str
    ascii: bool


def read_text(raw: bytes, *, file: str) -> tuple[str, dict[str, Any]]:
    """The text and the object of a settings file; ConfigError with the place where it is no JSON object.

    A name that stands twice in an object is refused: editing would silently lose one of the two.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}", file=file, hint="nothing was changed") from error

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen = dict(pairs)
        if len(seen) != len(pairs):
            twice = next(name for place, (name, _) in enumerate(pairs) if name in dict(pairs[:place]))
            raise ConfigError(f"the name {twice!r} stands twice in one object", file=file, hint="nothing was changed")
        return seen

    try:
        value = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"not valid JSON: {error.msg}", file=file, line=error.lineno, column=error.colno,
            hint="mend it and run the command again; nothing was changed",
        ) from error  # fmt: skip
    except RecursionError as error:
        raise ConfigError("nested too deeply", file=file, hint="nothing was changed") from error
    if not isinstance(value, dict):
        raise ConfigError("not a JSON object", file=file, line=1, column=1, hint="nothing was changed")
    return text, value


def rewrite(text: str, value: dict[str, Any]) -> str:
    """The text with `value` for its value; every part whose value is the same keeps its very characters."""
    start = _skip(text, 0)
    _, end = _DECODER.raw_decode(text, start)
    return text[:start] + _render(text[start:end], value, 0, _style(text)) + text[end:]


def write_new(value: dict[str, Any]) -> str:
    """The text of a new file, indented by two spaces."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _render(text: str, value: object, depth: int, style: _Style) -> str:
    """`text` is one JSON value exactly; the result is `value`, in the same style."""
    old = _DECODER.decode(text)
    if old == value:
        return text
    if isinstance(old, dict) and isinstance(value, dict) and old:
        members = {name: (key, at) for name, key, at in _members(text)}
        parts = [
            f"{members[name][0]}{_render(members[name][1], new, depth + 1, style)}"
            if name in members
            else f"{_dump(name, 0, style)}: {_dump(new, depth + 1, style)}"
            for name, new in value.items()
        ]
        return _joined(parts, text, depth, style)
    if isinstance(old, list) and isinstance(value, list) and old:
        left = _elements(text)
        parts = []
        for new in value:
            same = next((place for place, (item, _) in enumerate(left) if item == new), None)
            if same is None:
                parts.append(_dump(new, depth + 1, style))
            else:
                parts.append(left[same][1])
                del left[: same + 1]
        return _joined(parts, text, depth, style)
    return _dump(value, depth, style)


def _joined(parts: list[str], text: str, depth: int, style: _Style) -> str:
    """The parts in the brackets of `text`, on lines of their own where its parts are."""
    opening, closing = text[0], text[-1]
    if not parts:
        return opening + closing
    if "\n" not in text[: _skip(text, 1)]:  # the first part stands on the line of the bracket: all in one line
        return opening + ", ".join(parts) + closing
    inner, outer = style.newline + style.indent * (depth + 1), style.newline + style.indent * depth
    return f"{opening}{inner}{f',{inner}'.join(parts)}{outer}{closing}"


def _dump(value: object, depth: int, style: _Style) -> str:
    text = json.dumps(value, indent=style.indent or None, ensure_ascii=style.ascii)
    return text.replace("\n", style.newline + style.indent * depth)


def _style(text: str) -> _Style:
    found = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    lines = "\n" in text.strip() or len(text.strip()) <= 2
    indent = (found[1] if found else "  ") if lines else ""
    # A text with escapes may hold lone surrogates, which only escapes can say.
    return _Style(indent, "\r\n" if "\r\n" in text else "\n", "\\u" in text or text.isascii())


def _members(text: str) -> list[tuple[str, str, str]]:
    """Of an object's text: each name, the text from the name to the value, and the value's text."""
    members, at = [], _skip(text, 1)
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        begin = _skip(text, _skip(text, end) + 1)
        _, after = _DECODER.raw_decode(text, begin)
        members.append((name, text[at:begin], text[begin:after]))
        at = _skip(text, after)
        at = _skip(text, at + 1) if text[at] == "," else at
    return members


def _elements(text: str) -> list[tuple[Any, str]]:
    """Of an array's text: each value and its text."""
    elements, at = [], _skip(text, 1)
    while text[at] != "]":
        value, after = _DECODER.raw_decode(text, at)
        elements.append((value, text[at:after]))
        at = _skip(text, after)
        at = _skip(text, at + 1) if text[at] == "," else at
    return elements


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
