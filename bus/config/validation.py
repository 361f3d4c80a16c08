"""Validation with errors in plain words: msgspec's messages turned into ConfigErrors with line and column."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from bus.config.documents import Document, PathParts, Plain, dotted
from bus.errors import ConfigError
from bus.lazy.conversions import converted
from bus.lazy.regex import lazy_regex

T = TypeVar("T")

MISNOMERS: Final[Mapping[str, str]] = {
    "event": "on",
    "events": "on",
    "match": "tool",
    "matcher": "tool",
    "tools": "tool",
    "if": "when",
    "condition": "when",
    "run": "command",
    "cmd": "command",
    "shell": "command",
    "webhook": "http",
    "can_block": "blocking",
    "cwd": "working_dir",
    "name": "id",
    "environment": "env",
    "on_error": "on_failure",
    "order": "priority",
    "message": "reason",
    "agent": "source",
    "decision": "expect",
}
"""Other systems' names for our keys, for hints; used where our name is a valid key and theirs is not."""

_WORDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping (`key: value`)",
    "null": "nothing",
    "datetime": "a time such as 2026-11-23T08:00:00Z",
}
_KINDS: Final = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    list: "array",
    dict: "object",
    type(None): "null",
}

_AT: Final = lazy_regex(r"(?P<what>.*?)(?: - at `(?P<where>\$.*)`)?\Z", re.DOTALL)
_STEP: Final = lazy_regex(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])")
_UNKNOWN: Final = lazy_regex(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_MISSING: Final = lazy_regex(r"Object missing required field `(.*)`\Z", re.DOTALL)
_TYPE: Final = lazy_regex(r"Expected `([^`]*)`, got `([^`]*)`\Z")
_BOUND: Final = lazy_regex(r"Expected `(?:int|float)` (>=|>|<=|<) (\S+)\Z")
_LENGTH: Final = lazy_regex(r"Expected `(str|array|object)` of length (>=|<=) (\d+)\Z")
_REGEX: Final = lazy_regex(r"Expected `str` matching regex (.*)\Z", re.DOTALL)
_BOUNDS: Final = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}

_UNKNOWN_LIMIT: Final = 50
"""The most unknown keys that are reported for one entry."""


def suggestion(word: str, words: Collection[str]) -> str:
    """The hint `did you mean "match"?`, or an empty text where no word is similar."""
    meant = nearest(word, words)
    return f'did you mean "{meant}"?' if meant else ""


def nearest(word: str, words: Collection[str]) -> str:
    """The known word that was probably meant, by another system's name or by spelling; empty where none is similar."""
    meant = MISNOMERS.get(word, "")
    if meant in words:
        return meant
    near = difflib.get_close_matches(word[:80], sorted(words), n=1, cutoff=0.6)
    return near[0] if near else ""


def is_extra(key: str) -> bool:
    """Whether a key is ignored: `$schema` for editors, and `x-…` for the author's notes and anchors."""
    return key == "$schema" or key.startswith("x-")


def convert(document: Document, path: PathParts, value: Plain, kind: type[T]) -> tuple[T | None, list[ConfigError]]:
    """The value as a `kind`, or the errors: every unknown key and the first wrong value, each with line and column.

    `value` is the value at `path`; the caller may have removed or added keys.
    """
    problems: list[ConfigError] = []
    for _ in range(_UNKNOWN_LIMIT):
        try:
            result = converted(value, kind)
        except msgspec.ValidationError as error:
            what, steps = _finding(error, value)
            unknown = _UNKNOWN.match(what)
            if unknown is None:
                message, hint = _explain(steps, what, value, kind)
                problems.append(document.error((*path, *steps), message, hint=hint))
                break
            key = unknown[1]
            if not is_extra(key):
                known = _keys_at(inspect.type_info(kind), steps, value)
                hint = suggestion(key, known) or ("known keys: " + ", ".join(sorted(known)) if known else "")
                place = (*path, *steps, key)
                problems.append(document.error(place, f'unknown key "{key[:80]}"', hint=hint, key=True))
            value = _without(value, (*steps, key))
        else:
            return (None if problems else result), problems
    return None, problems


def explain(value: Plain, kind: type) -> tuple[str, str] | None:
    """Message and hint for a value that is not from a file; None where it is a valid `kind`."""
    try:
        converted(value, kind)
    except msgspec.ValidationError as error:
        what, steps = _finding(error, value)
        return _explain(steps, what, value, kind)
    return None


def _finding(error: msgspec.ValidationError, value: Plain) -> tuple[str, PathParts]:
    match = _AT.match(str(error))
    what, where = (match["what"], match["where"] or "$") if match is not None else (str(error), "$")
    return what, _steps(value, where, _fits(what))


def _fits(what: str) -> Callable[[Plain], bool]:
    """A test for the value that a message of msgspec is about, because msgspec does not name keys of mappings."""
    unknown, missing, wrong = _UNKNOWN.match(what), _MISSING.match(what), _TYPE.match(what)
    if unknown is not None:
        return lambda value: isinstance(value, dict) and unknown[1] in value
    if missing is not None:
        return lambda value: isinstance(value, dict) and missing[1] not in value
    if wrong is not None:
        return lambda value: _KINDS.get(type(value)) == wrong[2]
    if what.startswith("Invalid enum value "):
        return lambda value: what == f"Invalid enum value {value!r}"
    return lambda _value: True


def _steps(value: Plain, where: str, fits: Callable[[Plain], bool]) -> PathParts:
    """msgspec's `$.hooks[2].env[...]` as a path into the value; `[...]` becomes the first entry that fits."""
    wanted = [(name or None, int(index) if index else None) for name, index, _any in _STEP.findall(where)]

    def search(here: Plain, rest: list[tuple[str | None, int | None]]) -> PathParts | None:
        if not rest:
            return () if fits(here) else None
        name, index = rest[0]
        for key in _candidates(here, name, index):
            below = search(here[key], rest[1:])
            if below is not None:
                return (key, *below)
        return None

    return search(value, wanted) or ()


def _candidates(here: Plain, name: str | None, index: int | None) -> Iterator[str | int]:
    if index is not None:
        if isinstance(here, list) and index < len(here):
            yield index
    elif isinstance(here, dict):
        yield from (here if name is None else [name] if name in here else [])


def _without(value: Plain, path: PathParts) -> Plain:
    """A copy of the value without one key; parts outside the path are shared."""
    head, *rest = path
    if isinstance(value, list):
        return [_without(item, tuple(rest)) if index == head else item for index, item in enumerate(value)]
    if not rest:
        return {key: item for key, item in value.items() if key != head}
    return {key: _without(item, tuple(rest)) if key == head else item for key, item in value.items()}


def _types(info: inspect.Type) -> Iterator[inspect.Type]:
    """The type without its metadata, or each alternative of a union."""
    if isinstance(info, inspect.Metadata):
        yield from _types(info.type)
    elif isinstance(info, inspect.UnionType):
        for alternative in info.types:
            yield from _types(alternative)
    else:
        yield info


def _below(info: inspect.Type, steps: PathParts) -> Iterator[inspect.Type]:
    """The types that a value at a path can have."""
    for kind in _types(info):
        if not steps:
            yield kind
        elif isinstance(kind, inspect.StructType):
            for field in kind.fields:
                if field.encode_name == steps[0]:
                    yield from _below(field.type, steps[1:])
        elif isinstance(kind, inspect.DictType):
            yield from _below(kind.value_type, steps[1:])
        elif isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
            yield from _below(kind.item_type, steps[1:])


def _keys_at(info: inspect.Type, steps: PathParts, value: Plain) -> list[str]:
    """The keys that the value at a path can have; where a key of it chooses one of several types, those of that type."""
    for step in steps:
        value = value[step]
    kinds = [kind for kind in _below(info, steps) if isinstance(kind, inspect.StructType)]
    chosen = [kind for kind in kinds if kind.tag_field and value.get(kind.tag_field) == kind.tag]
    return [field.encode_name for kind in chosen or kinds for field in kind.fields]


def _choices(info: inspect.Type, steps: PathParts) -> list[str]:
    return [
        str(value) for kind in _below(info, steps) if isinstance(kind, inspect.LiteralType) for value in kind.values
    ]


def _tags(info: inspect.Type, steps: PathParts) -> list[str]:
    """The values that the field at a path can have by which one of several types is chosen."""
    return [
        str(kind.tag)
        for kind in _below(info, steps[:-1])
        if isinstance(kind, inspect.StructType) and kind.tag_field == steps[-1]
    ]


def _explain(steps: PathParts, what: str, value: Plain, kind: type) -> tuple[str, str]:
    """Message and hint for one error of msgspec; quotes a value only where it cannot be a secret."""
    name = dotted(steps) or "this"
    found = value
    for step in steps:
        found = found[step]
    if missing := _MISSING.match(what):
        return f'"{missing[1]}" is missing' + (f" in {name}" if steps else ""), ""
    choices = _choices(inspect.type_info(kind), steps)
    if what.startswith("Invalid enum value") or (choices and _TYPE.match(what)):
        shown = f", not {str(found)[:40]!r}" if isinstance(found, (str, int, float)) else ""
        hint = suggestion(found, choices) if isinstance(found, str) else ""
        lists = any(isinstance(below, inspect.ListType) for below in _below(inspect.type_info(kind), steps))
        return f"{name} has to be {_either([*choices, 'a list'] if lists else choices)}{shown}", hint
    if what.startswith("Invalid value ") and (tags := _tags(inspect.type_info(kind), steps)):
        hint = suggestion(found, tags) if isinstance(found, str) else ""
        return f"{name} has to be {_either(tags)}, not {str(found)[:40]!r}", hint
    if wrong := _TYPE.match(what):
        kinds = [word for word in wrong[1].split(" | ") if word != "null"] or ["null"]
        wanted = _either([_WORDS.get(word, word) for word in kinds])
        if found is None:
            return f"{name} is empty; it has to be {wanted}", ""
        return f"{name} has to be {wanted}, not {_WORDS.get(wrong[2], wrong[2])}", _type_hint(kinds, found)
    if bound := _BOUND.match(what):
        return f"{name} has to be {_BOUNDS[bound[1]]} {bound[2].removesuffix('.0')}", ""
    if length := _LENGTH.match(what):
        unit = "characters" if length[1] == "str" else "entries"
        empty = length[2] == ">=" and length[3] == "1"
        return f"{name} " + (
            "must not be empty" if empty else f"has to have {_BOUNDS[length[2]]} {length[3]} {unit}"
        ), ""
    if "RFC3339" in what or "timezone" in what:
        return f"{name} has to be {_WORDS['datetime']}, with its time zone", ""
    if regex := _REGEX.match(what):
        shape = regex[1].strip("'").removeprefix("^").partition("(?!")[0].removesuffix("$")
        return f"{name} has to match {shape}", ""
    return f"{name}: {what}", ""


def _type_hint(kinds: list[str], found: Plain) -> str:
    if "str" in kinds and isinstance(found, (int, float)):
        return "put it in quotes"
    if isinstance(found, str):
        if "bool" in kinds and found.lower() in ("yes", "on", "y", "no", "off", "n"):
            return f"write {'true' if found.lower() in ('yes', 'on', 'y') else 'false'}"
        if ("int" in kinds or "float" in kinds) and re.fullmatch(r"[-+]?\d+(?:\.\d+)?", found):
            return "remove the quotes"
        if "float" in kinds and re.fullmatch(r"\d+(?:\.\d+)? ?(?:ms|s|m|h|d)", found):
            return "write it in seconds, without a unit"
        if "array" in kinds:
            return "put it in brackets: [ … ]"
    return ""


def _either(words: list[str]) -> str:
    unique = list(dict.fromkeys(words))
    return " or ".join(([", ".join(unique[:-1])] if len(unique) > 1 else []) + unique[-1:])
