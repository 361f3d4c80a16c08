"""Checks values against the part of JSON Schema that plugins use for their config and their actions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_MOST: Final = 20
_NUMBERS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (operator.ge, "at least"),
    "maximum": (operator.le, "at most"),
    "exclusiveMinimum": (operator.gt, "more than"),
    "exclusiveMaximum": (operator.lt, "less than"),
    "multipleOf": (lambda value, step: value % step == 0, "a multiple of"),
}
_KINDS: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    **dict.fromkeys(("properties", "patternProperties", "not"), (Mapping, "a mapping")),
    **dict.fromkeys(("required", "enum", "anyOf", "oneOf", "allOf"), ((list, tuple), "a list")),
    **dict.fromkeys((*_NUMBERS, "minLength", "maxLength", "minItems", "maxItems"), ((int, float), "a number")),
    "items": ((Mapping, bool), "a schema"),
    "pattern": (str, "a text"),
}
"""What the keywords that are checked have to be."""


def schema_problems(schema: Any, at: str = "the schema") -> list[str]:
    """What is wrong with a schema itself, one sentence each; keywords that are not known are left alone."""
    if isinstance(schema, bool):
        return []
    if not isinstance(schema, Mapping):
        return [f"{at} is neither a mapping nor true or false"]
    found = [
        f"{key!r} of {at} is not {text}"
        for key, (kind, text) in _KINDS.items()
        if key in schema and not isinstance(schema[key], kind)
    ]
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else types
    if not isinstance(types, list | tuple) or not all(kind in _TYPES for kind in types):
        found.append(f"'type' of {at} is {schema['type']!r}; there are {', '.join(_TYPES)}")
    if found:
        return found
    for pattern in (schema.get("pattern", ""), *schema.get("patternProperties", ())):
        try:
            re.compile(pattern)
        except re.error as error:
            found.append(f"the pattern {pattern!r} of {at} is none: {error}")
    for key in ("properties", "patternProperties"):
        for name, below in schema.get(key, {}).items():
            found += schema_problems(below, f"{name!r}")
    for key in ("anyOf", "oneOf", "allOf"):
        for below in schema.get(key, ()):
            found += schema_problems(below, f"{key!r} of {at}")
    for key in ("items", "not", "additionalProperties"):
        if key in schema:
            found += schema_problems(schema[key], f"{key!r} of {at}")
    return found[:_MOST]


def problems_of(schema: Mapping[str, Any], value: Any, at: str = "") -> list[str]:
    """What is wrong with a value, one sentence each; unknown keywords of the schema are not checked."""
    name = at or "the value"
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else tuple(types)
    if types and all(kind in _TYPES for kind in types) and not any(_is(value, kind) for kind in types):
        return [f"{name} has an invalid type: it has to be {' or '.join(types)}, it is {_kind_of(value)}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{name} has to be one of {', '.join(map(repr, schema['enum']))}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{name} has to be {schema['const']!r}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        found += [
            f"{name} has to be {text} {schema[key]}"
            for key, (fits, text) in _NUMBERS.items()
            if key in schema and not fits(value, schema[key])
        ]
    if isinstance(value, str):
        found += _text_problems(schema, value, name)
    if isinstance(value, list | tuple):
        found += _list_problems(schema, value, at)
    found += _combined_problems(schema, value, at)
    if isinstance(value, dict):
        found += _object_problems(schema, value, at)
    return found[:_MOST]


def with_defaults(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """The value with the `default` of each property that it lacks."""
    properties = schema.get("properties")
    known = properties.items() if isinstance(properties, dict) else ()
    defaults = {key: below["default"] for key, below in known if isinstance(below, dict) and "default" in below}
    return {**defaults, **value}


def _text_problems(schema: Mapping[str, Any], value: str, name: str) -> list[str]:
    found = []
    if "minLength" in schema and len(value) < schema["minLength"]:
        found.append(f"{name} has to have at least {schema['minLength']} characters")
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        found.append(f"{name} has to have at most {schema['maxLength']} characters")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{name} does not fit {schema['pattern']!r}")
    return found


def _list_problems(schema: Mapping[str, Any], value: Sequence[Any], at: str) -> list[str]:
    found, name = [], at or "the value"
    if "minItems" in schema and len(value) < schema["minItems"]:
        found.append(f"{name} has to have at least {schema['minItems']} members")
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        found.append(f"{name} has to have at most {schema['maxItems']} members")
    if schema.get("uniqueItems") is True and any(item in value[:number] for number, item in enumerate(value)):
        found.append(f"{name} has a member twice")
    if isinstance(schema.get("items"), Mapping):
        for number, item in enumerate(value):
            found += problems_of(schema["items"], item, f"{at}[{number}]")
    return found


def _combined_problems(schema: Mapping[str, Any], value: Any, at: str) -> list[str]:
    name = at or "the value"
    found = [problem for below in schema.get("allOf", ()) for problem in _below_problems(below, value, at)]
    for key in ("anyOf", "oneOf"):
        each = [_below_problems(below, value, at) for below in schema.get(key, ())]
        fitting = sum(not problems for problems in each)
        if each and not fitting:
            found.append(f"{name} fits none of its forms: {'; or '.join(problems[0] for problems in each)}")
        elif key == "oneOf" and fitting > 1:
            found.append(f"{name} fits {fitting} of its forms, and has to fit one")
    if "not" in schema and not _below_problems(schema["not"], value, at):
        found.append(f"{name} has the form that it must not have")
    return found


def _below_problems(schema: Any, value: Any, at: str) -> list[str]:
    if schema is False:
        return [f"{at or 'the value'} is not allowed"]
    return problems_of(schema, value, at) if isinstance(schema, Mapping) else []


def _object_problems(schema: Mapping[str, Any], value: Mapping[str, Any], at: str) -> list[str]:
    found = [f"{_below(at, key)} is missing" for key in schema.get("required", ()) if key not in value]
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    patterns = schema.get("patternProperties")
    patterns = patterns if isinstance(patterns, Mapping) else {}
    others = schema.get("additionalProperties")
    for key, item in value.items():
        forms = [below for pattern, below in patterns.items() if re.search(pattern, str(key))]
        forms += [properties[key]] if key in properties else []
        for below in forms or ([others] if isinstance(others, Mapping) else []):
            found += _below_problems(below, item, _below(at, key))
        if not forms and others is False:
            found.append(f"{_below(at, key)} is not known (known: {', '.join(map(str, properties)) or 'none'})")
    return found


def _below(at: str, key: object) -> str:
    return f"{at}.{key}" if at else str(key)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, float) and value.is_integer())


def _kind_of(value: Any) -> str:
    return next((kind for kind in ("boolean", "integer", *_TYPES) if _is(value, kind)), type(value).__name__)
