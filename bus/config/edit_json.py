"""Changes a JSON text where its value changed, and leaves the rest as somebody wrote it, comments included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from bus.errors import ConfigError

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


class _Style(NamedTuple):
    indent: str
    newline: str
    ascii: bool


class _Edit(NamedTuple):
    """Characters of the old text that give way to others."""

    start: int
    end: int
    text: str


class _Part(NamedTuple):
    """A member or element: where it begins (at its name), where its value begins and ends."""

    name: str
    at: int
    begin: int
    end: int
    value: Any


def read_text(raw: bytes, *, file: str, comments: bool = False) -> tuple[str, dict[str, Any]]:
    """The text and the object of a settings file; ConfigError with the place where it is no JSON object.

    `comments` takes // and /* */ as some agents do. A name that stands twice in an object is refused: editing would
    silently lose one of the two.
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
        value = json.loads(_bare(text) if comments else text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"not valid JSON: {error.msg}",
            file=file,
            line=error.lineno,
            column=error.colno,
            hint="mend it and run the command again; nothing was changed",
        ) from error
    except RecursionError as error:
        raise ConfigError("nested too deeply", file=file, hint="nothing was changed") from error
    if not isinstance(value, dict):
        raise ConfigError("not a JSON object", file=file, line=1, column=1, hint="nothing was changed")
    return text, value


def rewrite(text: str, value: dict[str, Any]) -> str:
    """The text with `value` for its value; every part whose value is the same keeps its very characters."""
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
    """What turns the value at `at` into `value`."""
    old, end = _DECODER.raw_decode(bare, at)
    if _same(old, value):
        return
    if isinstance(old, dict) and isinstance(value, dict):
        left = _parts(bare, at)
        pairs = [(part, part.name in value) for part in left]
        new = [(name, one) for name, one in value.items() if name not in old]
        for part in left:
            if part.name in value:
                yield from _edits(text, bare, part.begin, value[part.name], depth + 1, style)
        inserted = {len(left): [f"{_dump(name, 0, style)}: {_dump(one, depth + 1, style)}" for name, one in new]}
    elif isinstance(old, list) and isinstance(value, list):
        pairs, inserted = [], {}
        for mine, one in _aligned(_parts(bare, at), value):
            if mine is None:
                inserted.setdefault(len(pairs), []).append(_dump(one, depth + 1, style))
                continue
            pairs.append((mine, one is not _GONE))
            if one is not _GONE:
                yield from _edits(text, bare, mine.begin, one, depth + 1, style)
    else:
        yield _Edit(at, end, _dump(value, depth, style))
        return
    yield from _spliced(text, bare, (at, end), pairs, inserted, depth, style)


_GONE: Final = object()


def _same(one: object, other: object) -> bool:
    """Whether JSON says the same of both: to Python, 1 and true are equal."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _aligned(left: list[_Part], value: list[Any]) -> Iterator[tuple[_Part | None, Any]]:
    """Old and new elements side by side: the same ones meet, and between two of those each replaces another."""
    at = 0
    waiting: list[Any] = []
    for one in value:
        same = next((place for place in range(at, len(left)) if _same(left[place].value, one)), None)
        if same is None:
            waiting.append(one)
            continue
        yield from _gap(left[at:same], waiting)
        yield left[same], one
        waiting, at = [], same + 1
    yield from _gap(left[at:], waiting)


def _gap(left: list[_Part], new: list[Any]) -> Iterator[tuple[_Part | None, Any]]:
    for place in range(max(len(left), len(new))):
        yield (left[place] if place < len(left) else None), (new[place] if place < len(new) else _GONE)


def _spliced(
    text: str,
    bare: str,
    span: tuple[int, int],
    pairs: list[tuple[_Part, bool]],
    inserted: dict[int, list[str]],
    depth: int,
    style: _Style,
) -> Iterator[_Edit]:
    """The edits that take out what is gone, and put in the new texts before the part of that number."""
    opening, closing = span[0], span[1] - 1
    lines = "\n" in bare[opening : pairs[0][0].at] if pairs else "\n" in bare[opening:closing] or bool(style.indent)
    before = style.newline + style.indent * (depth + 1) if lines and style.indent else " "
    kept = [place for place, (_, stays) in enumerate(pairs) if stays]
    if not kept:
        new = [one for group in inserted.values() for one in group]
        if not new:
            if pairs:
                yield _Edit(opening + 1, closing, "")
            return
        after = style.newline + style.indent * depth if before != " " else ""
        inside = f",{before}".join(new)
        yield _Edit(opening + 1, closing, f"{before if after else ''}{inside}{after}")
        return
    first = kept[0]
    if first:  # what stood before the first that stays
        yield _Edit(pairs[0][0].at, pairs[first][0].at, "")
    for place in range(first + 1, len(pairs)):
        if not pairs[place][1]:
            gap = pairs[place - 1][0].end, pairs[place][0].at
            said = _comments(text[slice(*gap)], bare[slice(*gap)])
            open_end = "//" in said and text[pairs[place][0].end] not in "\r\n"
            yield _Edit(gap[0], pairs[place][0].end, said + style.newline * open_end)
    for place, new in inserted.items():
        if not new:
            continue
        if place <= first:
            yield _Edit(pairs[first][0].at, pairs[first][0].at, "".join(f"{one},{before}" for one in new))
            continue
        last = pairs[max(one for one in kept if one < place)][0].end
        # A comment behind the last part stays with it.
        rest = text[last:closing].rstrip() if place == len(pairs) and pairs[-1][1] else ""
        if rest:
            yield _Edit(last, last, ",")
            last, before = last + len(rest), before if before != " " else style.newline
        yield _Edit(last, last, f"{'' if rest else ','}{before}" + f",{before}".join(new))


def _comments(text: str, bare: str) -> str:
    """What stands between two parts without their comma, where somebody wrote comments there."""
    comma = bare.index(",")
    return "" if text == bare else (text[:comma] + text[comma + 1 :]).rstrip()


def _dump(value: object, depth: int, style: _Style) -> str:
    text = json.dumps(value, indent=style.indent or None, ensure_ascii=style.ascii)
    return text.replace("\n", style.newline + style.indent * depth)


def _style(text: str) -> _Style:
    found = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    lines = "\n" in text.strip() or len(text.strip()) <= 2
    indent = (found[1] if found else "  ") if lines else ""
    # A text with escapes may hold lone surrogates, which only escapes can say.
    return _Style(indent, "\r\n" if "\r\n" in text else "\n", "\\u" in text or text.isascii())


def _bare(text: str) -> str:
    """The text with blanks for its comments, so that every character stands where it stood."""
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
