"""Changes or removes values of a fleethook.yaml without changing any other character.

As in `edit_add.py`, the result is parsed and compared before it is written. A file that cannot be edited this way is left
alone, and the error says what to change by hand.
"""

from __future__ import annotations

from bus.config.documents import Plain, TextSpan, loads, spans
from bus.config.edit_add import flow
from bus.config.edit_json import read_text, rewrite
from bus.errors import ConfigError

Path = tuple[str | int, ...]


def with_values(text: str, file: str, path: Path, wanted: dict[str, Plain]) -> str:
    """The text with `wanted` as the mapping at a path; keys that `wanted` does not have are removed.

    ConfigError for a text that cannot be parsed, or has to be edited by hand.
    """
    whole, before = _read(text, file, path)
    if not isinstance(before, dict):
        raise ConfigError("there is no mapping to change", file=file, hint="nothing was changed")
    after = _put(whole, path, wanted)
    if text.lstrip().startswith("{"):
        return rewrite(text, after)
    for key, value in wanted.items():
        if key not in before:
            text = _added(text, path, key, value)
        elif before[key] != value or type(before[key]) is not type(value):
            text = _replaced(text, path, key, value)
    for key in before:  # last, so that added keys always have a neighbour
        if key not in wanted:
            text = _dropped(text, path, key)
    return _checked(text, file, path, after, f"write {flow(wanted)}")


def without_entry(text: str, file: str, key: str, number: int) -> str:
    """The text without one entry of the list at a top-level key; raises ConfigError if it has to be edited by hand."""
    return without_item(text, file, (key,), number)


def without_item(text: str, file: str, path: Path, number: int) -> str:
    """The text without one item of the list at a path; raises ConfigError if it has to be edited by hand."""
    name = ".".join(map(str, path))
    whole, entries = _read(text, file, path)
    if not isinstance(entries, list) or not -1 < number < len(entries):
        raise ConfigError(f"{name} has no entry {number + 1}", file=file, hint="nothing was changed")
    rest = [entry for index, entry in enumerate(entries) if index != number]
    after = _put(whole, path, rest)
    if text.lstrip().startswith("{"):
        return rewrite(text, after)
    found = spans(text)
    span = found[(*path, number)]
    if not rest and found[path].flow:
        text = text[: found[path].begin] + "[]" + text[found[path].end :]
    elif not rest:
        emptied = found[path]
        text = text[: emptied.key_end] + ": []" + text[_line_end(text, _stop(found, path)) :]
    elif found[path].flow:
        begin, stop = span.begin, _stop(found, (*path, number))
        if number < len(entries) - 1:
            stop = found[(*path, number + 1)].begin
        else:
            begin = _stop(found, (*path, number - 1))
        text = text[:begin] + text[stop:]
    else:
        begin = text.rfind("\n", 0, text.rfind("-", 0, span.begin)) + 1
        text = text[:begin] + text[_line_end(text, _stop(found, (*path, number))) :].removeprefix(_newline(text))
    return _checked(text, file, (*path, number), after, f"take out entry {number + 1} of {name}")


def with_item(text: str, file: str, path: Path, item: Plain) -> str:
    """The text with one more item at the end of the list at a path; raises ConfigError if it has to be edited by hand."""
    whole, entries = _read(text, file, path)
    if not isinstance(entries, list):
        raise ConfigError(
            "there is no list to add to", file=file, path=".".join(map(str, path)), hint="nothing was changed"
        )
    after = _put(whole, path, [*entries, item])
    if text.lstrip().startswith("{"):
        return rewrite(text, after)
    found = spans(text)
    if not entries:
        empty = found[path]
        text = text[: empty.begin] + flow([item]) + text[empty.end :]
    elif found[path].flow:
        at = _stop(found, (*path, len(entries) - 1))
        text = text[:at] + f", {flow(item)}" + text[at:]
    else:
        last = found[(*path, len(entries) - 1)]
        dash = text.rfind("-", 0, last.begin)
        column = dash - (text.rfind("\n", 0, dash) + 1)
        at = _line_end(text, _stop(found, (*path, len(entries) - 1)))
        text = text[:at] + _newline(text) + " " * column + f"- {flow(item)}" + text[at:]
    return _checked(text, file, path, after, f"add {flow(item)} to {'.'.join(map(str, path))}")


def _read(text: str, file: str, path: Path) -> tuple[dict[str, Plain], Plain]:
    """The value of the whole file, and the value at the path (None if there is none)."""
    if text.lstrip().startswith("{"):
        value: Plain = read_text(text.encode("utf-8", "surrogatepass"), file=file)[1]
    else:
        value = loads(text, file=file).value
    whole = value if isinstance(value, dict) else {}
    found: Plain = whole
    for part in path:
        try:
            found = found[part]
        except (LookupError, TypeError):
            return whole, None
    return whole, found


def _put(value: Plain, path: Path, wanted: Plain) -> Plain:
    """A copy with another value at a path."""
    if not path:
        return wanted
    copy: Plain = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _put(value[path[0]], path[1:], wanted)
    return copy


def _checked(text: str, file: str, path: Path, after: Plain, by_hand: str) -> str:
    try:
        same = loads(text, file=file).value == after
    except ConfigError:
        same = False
    if not same:
        where = ".".join(map(str, path))
        raise ConfigError(
            "the file is written in a way that cannot be edited here",
            file=file,
            path=where,
            hint=f"nothing was changed; by hand: {by_hand}",
        )
    return text


def _replaced(text: str, path: Path, key: str, value: Plain) -> str:
    found = spans(text)
    span, stop = found[(*path, key)], _stop(found, (*path, key))
    return text[: span.key_end] + f": {flow(value)}" + text[_trimmed(text, span.key_end, stop) :]


def _added(text: str, path: Path, key: str, value: Plain) -> str:
    found = spans(text)
    last = _stop(found, path)
    entry = f"{flow(key)}: {flow(value)}"
    below = _children(found, path)
    if found[path].flow:
        at = max((_stop(found, child) for child in below), default=found[path].begin + 1)
        return text[:at] + (", " if below else "") + entry + text[at:]
    first = min(found[child].key_begin for child in below)
    column = first - (text.rfind("\n", 0, first) + 1)
    at = _line_end(text, _trimmed(text, first, last))
    return text[:at] + _newline(text) + " " * column + entry + text[at:]


def _dropped(text: str, path: Path, key: str) -> str:
    found = spans(text)
    begin, stop = found[(*path, key)].key_begin, _stop(found, (*path, key))
    keys = sorted(found[child].key_begin for child in _children(found, path))
    following = [key_begin for key_begin in keys if key_begin > begin]
    first = begin == keys[0]
    if found[path].flow and not first and not following:
        before = max(child for child in found if child[: len(path)] == path and found[child].key_begin == keys[-2])
        return text[: _stop(found, before)] + text[stop:]
    if following and (first or found[path].flow):
        return text[:begin] + text[following[0] :]
    line = text.rfind("\n", 0, begin) + 1
    return text[:line] + text[_line_end(text, _trimmed(text, begin, stop)) :].removeprefix(_newline(text))


def _children(found: dict[Path, TextSpan], path: Path) -> list[Path]:
    return [child for child in found if len(child) == len(path) + 1 and child[: len(path)] == path]


def _stop(found: dict[Path, TextSpan], path: Path) -> int:
    """The end of a value, without the blank lines that YAML counts as part of it."""
    span = found[path]
    if span.flow or span.scalar:
        return span.end
    below = _children(found, path)
    return max((_stop(found, child) for child in below), default=span.end)


def _trimmed(text: str, begin: int, stop: int) -> int:
    """The end of a value without its trailing blanks and line breaks."""
    while stop > begin and text[stop - 1] in "\r\n ":
        stop -= 1
    return stop


def _line_end(text: str, at: int) -> int:
    """The end of the line that contains `at`, after its comment and before its line break."""
    if at and text[at - 1] == "\n":
        at -= 1
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end and text[end - 1] == "\r" else end


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
