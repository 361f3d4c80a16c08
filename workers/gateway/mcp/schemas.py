"""JSON Schemas of arguments and results, in the form that MCP takes: the root is an object."""

from __future__ import annotations

from typing import Any

import msgspec


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a type, whose root is the object itself and not a reference to it."""
    whole = msgspec.json.schema(kind)
    definitions: dict[str, Any] = whole.get("$defs", {})
    if "$ref" not in whole:
        return whole
    name = whole["$ref"].rpartition("/")[2]
    root = definitions.pop(name)
    return {**root, **({"$defs": definitions} if definitions else {})}
