"""Checks values against the part of JSON Schema that plugins use for their config and their actions."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            found.append(f"{name} has to be at least {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            found.append(f"{name} has to be at most {schema['maximum']}")
    if isinstance(value, str):
        found += _text_problems(schema, value, name)
    if isinstance(value, list | tuple) and isinstance(schema.get("items"), dict):
        for number, item in enumerate(value):
            found += problems_of(schema["items"], item, f"{at}[{number}]")
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


def _object_problems(schema: Mapping[str, Any], value: Mapping[str, Any], at: str) -> list[str]:
    found = [f"{_below(at, key)} is missing" for key in schema.get("required", ()) if key not in value]
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    for key, item in value.items():
        if isinstance(properties.get(key), dict):
            found += problems_of(properties[key], item, _below(at, key))
        elif key not in properties and schema.get("additionalProperties") is False:
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
