"""Helpers that read agents' payloads, for dialects outside the Claude family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bus.errors import DecodeError
from bus.wire.codec import read_json, read_payload


def opened(label: str, payload: bytes) -> dict[str, Any]:
    """The JSON object in a payload; raises DecodeError with the agent's name."""
    fields = read_payload(payload)
    if not isinstance(fields, dict):
        raise DecodeError(f"payload of {label} is not a JSON object but a {type(fields).__name__}")
    return fields


def text(fields: Mapping[str, Any], *names: str) -> str:
    """The text in the first of these fields that has one; empty if none has."""
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def mapping(value: object) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty object."""
    return value if isinstance(value, dict) else {}


def unpacked(value: object) -> Any:
    """The JSON object or list in a text that contains one; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return read_json(value.encode("utf-8", "surrogatepass"))
        except DecodeError:
            return value
    return value


def without(fields: Mapping[str, Any], taken: Iterable[str]) -> dict[str, Any]:
    """The fields that no other part of the event has taken."""
    names = frozenset(taken)
    return {name: value for name, value in fields.items() if name not in names}


def first_root(fields: Mapping[str, Any], name: str) -> str:
    """The first folder of a list of workspace roots; empty if there is none."""
    roots = fields.get(name)
    return next((root for root in roots if isinstance(root, str) and root), "") if isinstance(roots, list) else ""
