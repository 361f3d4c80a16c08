"""Changes the parts of a JSON text whose values changed; everything else stays as written, comments included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from bus.errors import ConfigError
from bus.lazy.regex import lazy_regex

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = lazy_regex(r"[ \t\r\n]*")
_COMMENT: Final = lazy_regex(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


class _Style(NamedTuple):
    indent: str
    newline: str
    ascii: bool


class _Edit(NamedTuple):
    """A part of the old text and its replacement."""

    start: int
    end: int
    text: str


class _Part(NamedTuple):
    """A member or element: the offsets of its name, and of the begin and end of its value."""

    name: str
    at: int
    begin: int
    end: int
    value: Any


def read_text(raw: bytes, *, file: str, comments: bool = False) -> tuple[str, dict[str, Any]]:
    """The text and the object of a settings file; ConfigError with line and column for anything but a JSON object.

    `comments` accepts // and /* */, as some agents do. A name that an object has twice is refused, because editing would
    silently lose one of the two.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}", file=file, hint="nothing was changed") from error

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen = dict(pairs)
        if len(seen) != len(pairs):
            repeated = next(name for index, (name, _) in enumerate(pairs) if name in dict(pairs[:index]))
            raise ConfigError(f"an object has the name {repeated!r} twice", file=file, hint="nothing was changed")
        return seen

    try:
        value = json.loads(_bare(text) if comments else text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"not valid JSON: {error.msg}",
            file=file,
            line=error.lineno,
            column=error.colno,
            hint="correct it and run the command again; nothing was changed",
        ) from error
    except RecursionError as error:
        raise ConfigError("nested too deeply", file=file, hint="nothing was changed") from error
    if not isinstance(value, dict):
        raise ConfigError("not a JSON object", file=file, line=1, column=1, hint="nothing was changed")
    return text, value


def rewrite(text: str, value: dict[str, Any]) -> str:
    """The text changed to have `value`; parts with an unchanged value keep their characters."""
    bare = _bare(text)
    start = _skip(bare, 0)
    parts, at = [], 0
    for edit in sorted(_edits(text, bare, start, value, 0, _style(text))):
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*parts, text[at:]))


def write_new(value: dict[str, Any]) -> str:
    """The text of a new file, indented by two spaces."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _edits(text: str, bare: str, at: int, value: object, depth: int, style: _Style) -> Iterator[_Edit]:
    """The edits that turn the value at offset `at` into `value`."""
    old, end = _DECODER.raw_decode(bare, at)
    if _same(old, value):
        return
    if isinstance(old, dict) and isinstance(value, dict):
        left = _parts(bare, at)
        pairs = [(part, part.name in value) for part in left]
        new = [(name, item) for name, item in value.items() if name not in old]
        for part in left:
            if part.name in value:
                yield from _edits(text, bare, part.begin, value[part.name], depth + 1, style)
        inserted = {len(left): [f"{_dump(name, 0, style)}: {_dump(item, depth + 1, style)}" for name, item in new]}
    elif isinstance(old, list) and isinstance(value, list):
        pairs, inserted = [], {}
        for previous, item in _aligned(_parts(bare, at), value):
            if previous is None:
                inserted.setdefault(len(pairs), []).append(_dump(item, depth + 1, style))
                continue
            pairs.append((previous, item is not _GONE))
            if item is not _GONE:
                yield from _edits(text, bare, previous.begin, item, depth + 1, style)
    else:
        yield _Edit(at, end, _dump(value, depth, style))
        return
    yield from _spliced(text, bare, (at, end), pairs, inserted, depth, style)


_GONE: Final = object()


def _same(first: object, second: object) -> bool:
    """Whether two values are equal in JSON, where 1 and true differ."""
    return first == second and json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def _aligned(left: list[_Part], value: list[Any]) -> Iterator[tuple[_Part | None, Any]]:
    """Old and new elements in pairs: equal ones together; between those, new ones replace old ones in order."""
    at = 0
    waiting: list[Any] = []
    for item in value:
        same = next((index for index in range(at, len(left)) if _same(left[index].value, item)), None)
        if same is None:
            waiting.append(item)
            continue
        yield from _gap(left[at:same], waiting)
        yield left[same], item
        waiting, at = [], same + 1
    yield from _gap(left[at:], waiting)


def _gap(left: list[_Part], new: list[Any]) -> Iterator[tuple[_Part | None, Any]]:
    for index in range(max(len(left), len(new))):
        yield (left[index] if index < len(left) else None), (new[index] if index < len(new) else _GONE)


def _spliced(
    text: str,
    bare: str,
    span: tuple[int, int],
    pairs: list[tuple[_Part, bool]],
    inserted: dict[int, list[str]],
    depth: int,
    style: _Style,
) -> Iterator[_Edit]:
    """The edits that remove parts and insert new texts before the part of each number."""
    opening, closing = span[0], span[1] - 1
    lines = "\n" in bare[opening : pairs[0][0].at] if pairs else "\n" in bare[opening:closing] or bool(style.indent)
    before = style.newline + style.indent * (depth + 1) if lines and style.indent else " "
    kept = [place for place, (_, stays) in enumerate(pairs) if stays]
    if not kept:
        new = [entry for group in inserted.values() for entry in group]
        if not new:
            if pairs:
                yield _Edit(opening + 1, closing, "")
            return
        after = style.newline + style.indent * depth if before != " " else ""
        inside = f",{before}".join(new)
        yield _Edit(opening + 1, closing, f"{before if after else ''}{inside}{after}")
        return
    first = kept[0]
    if first:  # everything before the first kept part
        yield _Edit(pairs[0][0].at, pairs[first][0].at, "")
    for place in range(first + 1, len(pairs)):
        if not pairs[place][1]:
            gap = pairs[place - 1][0].end, pairs[place][0].at
            comments = _comments(text[slice(*gap)], bare[slice(*gap)])
            open_end = "//" in comments and text[pairs[place][0].end] not in "\r\n"
            yield _Edit(gap[0], pairs[place][0].end, comments + style.newline * open_end)
    for place, new in inserted.items():
        if not new:
            continue
        if place <= first:
            yield _Edit(pairs[first][0].at, pairs[first][0].at, "".join(f"{entry},{before}" for entry in new))
            continue
        last = pairs[max(index for index in kept if index < place)][0].end
        # A comment after the last part stays with that part.
        rest = text[last:closing].rstrip() if place == len(pairs) and pairs[-1][1] else ""
        if rest:
            yield _Edit(last, last, ",")
            last, before = last + len(rest), before if before != " " else style.newline
        yield _Edit(last, last, f"{'' if rest else ','}{before}" + f",{before}".join(new))


def _comments(text: str, bare: str) -> str:
    """The comments between two parts, without the comma; empty without comments."""
    comma = bare.index(",")
    return "" if text == bare else (text[:comma] + text[comma + 1 :]).rstrip()


def _dump(value: object, depth: int, style: _Style) -> str:
    text = json.dumps(value, indent=style.indent or None, ensure_ascii=style.ascii)
    return text.replace("\n", style.newline + style.indent * depth)


def _style(text: str) -> _Style:
    found = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    lines = "\n" in text.strip() or len(text.strip()) <= 2
    indent = (found[1] if found else "  ") if lines else ""
    # A text with escapes may contain lone surrogates, which can only be written as escapes.
    return _Style(indent, "\r\n" if "\r\n" in text else "\n", "\\u" in text or text.isascii())


def _bare(text: str) -> str:
    """The text with its comments replaced by blanks, so that every offset stays the same."""
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text)


def _parts(bare: str, at: int) -> list[_Part]:
    """The members of the object, or the elements of the array, that begins at `at`."""
    parts, named, end = [], bare[at] == "{", "}" if bare[at] == "{" else "]"
    at = _skip(bare, at + 1)
    while bare[at] != end:
        name, begin = "", at
        if named:
            name, after = _DECODER.raw_decode(bare, at)
            begin = _skip(bare, _skip(bare, after) + 1)
        value, after = _DECODER.raw_decode(bare, begin)
        parts.append(_Part(name, at, begin, after, value))
        at = _skip(bare, after)
        at = _skip(bare, at + 1) if bare[at] == "," else at
    return parts


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
