"""The fields of a msgspec type in words: type, default, description and examples."""

from __future__ import annotations

import ast
import inspect as source
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from msgspec import NODEFAULT, inspect

from bus.config.documents import loads
from bus.errors import ConfigError


class Field(NamedTuple):
    """One field of a type."""

    name: str
    type: str
    default: Any
    required: bool
    description: str
    examples: Sequence[Any]


def fields(kind: type, links: Mapping[str, str] | None = None) -> list[Field]:
    """The fields of a struct in their order; `links` has the anchor of each struct that has a section."""
    info = inspect.type_info(kind)
    return [_field(field, links or {}) for field in info.fields] if isinstance(info, inspect.StructType) else []


def _field(field: inspect.Field, links: Mapping[str, str]) -> Field:
    schema: dict[str, Any] = {}
    kind = field.type
    while isinstance(kind, inspect.Metadata):
        schema = {**(kind.extra_json_schema or {}), **schema}
        kind = kind.type
    default = field.default_factory() if field.default is NODEFAULT and not field.required else field.default
    return Field(
        field.encode_name,
        in_words(field.type, links),
        default,
        field.required,
        schema.get("description", ""),
        schema.get("examples", ()),
    )


def in_words(info: inspect.Type, links: Mapping[str, str]) -> str:
    """A type as an author of a file reads it."""
    match info:
        case inspect.Metadata():
            return in_words(info.type, links)
        case inspect.UnionType():
            parts = [in_words(part, links) for part in info.types if not isinstance(part, inspect.NoneType)]
            return " or ".join(dict.fromkeys(part for part in parts if part))
        case inspect.LiteralType():
            return ", ".join(f"`{value}`" for value in info.values if value != "")
        case inspect.StructType():
            anchor = links.get(info.cls.__name__)
            return f"[mapping](#{anchor})" if anchor else "mapping"
        case inspect.ListType() | inspect.VarTupleType():
            return f"list of {in_words(info.item_type, links)}"
        case inspect.IntType() | inspect.FloatType():
            return _number(info)
        case _:
            return _WORDS[type(info)]


_WORDS: Final[dict[type[inspect.Type], str]] = {
    inspect.StrType: "text",
    inspect.BoolType: "`true`, `false`",
    inspect.DictType: "mapping",
    inspect.AnyType: "any value",
    inspect.DateTimeType: "time with its zone",
}


def _number(info: inspect.IntType | inspect.FloatType) -> str:
    word = "whole number" if isinstance(info, inspect.IntType) else "number"
    if info.gt is not None:
        return f"{word} above {info.gt:,}, up to {info.le:,}"
    return f"{word}, {info.ge:,} to {info.le:,}" if info.ge is not None and info.le is not None else word


def docstrings(kind: type) -> dict[str, str]:
    """The docstrings below the attributes of a class, by attribute."""
    found: dict[str, str] = {}
    body = [
        node for part in ast.parse(source.getsource(kind)).body if isinstance(part, ast.ClassDef) for node in part.body
    ]
    for attribute, text in pairwise(body):
        match attribute, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(sentence))):
                found[name] = " ".join(sentence.split())
            case _:
                pass
    return found


def example(name: str, value: object) -> str:
    """A line of YAML that sets a field to a value."""
    return f"{name}: {flow(value)}"


def flow(value: object, *, inside: bool = False) -> str:
    """A value as YAML on one line, with quotes where it needs them; `inside` brackets it needs more of them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item, inside=True)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item, inside=True) for item in value) + "]"
    if isinstance(value, str):
        return next(text for text in (value, f"'{value}'", json.dumps(value)) if _is_yaml(text, value, inside=inside))
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _is_yaml(text: str, value: str, *, inside: bool) -> bool:
    try:
        read = loads(f"[{text}, x]" if inside else f"key: {text}").value
    except ConfigError:
        return False
    return bool(read == ([value, "x"] if inside else {"key": value}))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def code(text: str) -> str:
    """Text as inline code."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def field_table(kind: type, links: Mapping[str, str] | None = None, types: Mapping[str, str] | None = None) -> str:
    """The fields of a type, one row each; `types` has the types that the type itself does not tell."""
    return table(
        ("field", "meaning", "type", "default", "example"),
        [
            (
                code(field.name),
                field.description,
                (types or {}).get(field.name, field.type),
                "required" if field.required else default_text(field.default),
                "<br>".join(code(example(field.name, value)) for value in field.examples),
            )
            for field in fields(kind, links)
        ],
    )


def default_text(default: object) -> str:
    """A default as a cell; `-` for nothing."""
    return "-" if default is None or default in ("", (), [], {}) else code(flow(default))
