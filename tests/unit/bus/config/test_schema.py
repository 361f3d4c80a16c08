"""The JSON Schema says what the loader does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

import pytest

from bus.config.endpoint_entry import EndpointEntry
from bus.config.file_types import FileFormat, HookEntry
from bus.config.schema import DIALECT, hook_file_schema
from bus.config.settings import NAMES
from bus.errors import ConfigError
from bus.hooksets.hookfile import parse_hook_file
from tests.support.rows import rows

schema_once = cache(hook_file_schema)
"""Making it takes as long as reading a hundred hook files."""


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema."""
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(below)


def _has_zone(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def accepts(schema: Any, value: Any, root: dict[str, Any]) -> bool:
    """The part of JSON Schema 2020-12 that our schema uses; an unknown keyword fails the test."""
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "number": (int, float),
        "integer": int,
        "null": type(None),
    }
    for word, want in schema.items():
        match word:
            case "$ref":
                good = accepts(root["$defs"][want.removeprefix("#/$defs/")], value, root)
            case "type":
                wanted = want if isinstance(want, list) else [want]
                good = any(
                    isinstance(value, kinds[one]) and (not isinstance(value, bool) or one == "boolean")
                    for one in wanted
                )
            case "properties":
                good = not isinstance(value, dict) or all(
                    accepts(want[key], item, root) for key, item in value.items() if key in want
                )
            case "additionalProperties" if isinstance(value, dict):
                known = schema.get("properties", {})
                rest = [
                    key
                    for key in value
                    if key not in known and not any(re.search(p, key) for p in schema.get("patternProperties", {}))
                ]
                good = not rest if want is False else all(accepts(want, value[key], root) for key in rest)
            case "items":
                good = not isinstance(value, list) or all(accepts(want, item, root) for item in value)
            case "required":
                good = not isinstance(value, dict) or all(key in value for key in want)
            case "anyOf":
                good = any(accepts(one, value, root) for one in want)
            case "oneOf":
                good = sum(accepts(one, value, root) for one in want) == 1
            case "enum":
                good = value in want
            case "const":
                good = value == want
            case "format" if want == "date-time":
                good = not isinstance(value, str) or _has_zone(value)
            case "pattern":
                good = not isinstance(value, str) or re.search(want, value) is not None
            case "minLength":
                good = not isinstance(value, str) or len(value) >= want
            case "maxLength":
                good = not isinstance(value, str) or len(value) <= want
            case "minItems":
                good = not isinstance(value, list) or len(value) >= want
            case "maxItems":
                good = not isinstance(value, list) or len(value) <= want
            case "minimum":
                good = isinstance(value, (str, bool, type(None))) or value >= want
            case "maximum":
                good = isinstance(value, (str, bool, type(None))) or value <= want
            case "exclusiveMinimum":
                good = isinstance(value, (str, bool, type(None))) or value > want
            case (
                "$schema"
                | "$defs"
                | "title"
                | "description"
                | "default"
                | "patternProperties"
                | "additionalProperties"
                | "examples"
                | "discriminator"  # for editors; `anyOf` beside it says the same
            ):
                good = True
            case _:
                pytest.fail(f"the schema uses {word}, which this test does not know")
        if not good:
            return False
    return True


def test_the_schema_names_every_key_and_every_reference_exists() -> None:
    schema = schema_once()
    assert schema["$schema"] == DIALECT
    assert set(schema["properties"]) == {*FileFormat.__struct_encode_fields__, "$schema"}
    assert set(schema["$defs"]["HookEntry"]["properties"]) == set(HookEntry.__struct_fields__)
    assert set(schema["$defs"]["EndpointEntry"]["properties"]) == set(EndpointEntry.__struct_fields__)
    assert set(schema["$defs"]["Settings"]["properties"]) == set(NAMES)
    names = {node["$ref"].removeprefix("#/$defs/") for node in walk(schema) if "$ref" in node}
    assert names <= set(schema["$defs"])
    assert json.loads(json.dumps(schema)) == schema


def test_every_field_has_a_sentence_and_examples_that_the_schema_accepts() -> None:
    schema = schema_once()
    parts = {
        f"{name}.{key}": part for name, kind in schema["$defs"].items() for key, part in kind["properties"].items()
    }
    parts |= {key: part for key, part in schema["properties"].items() if key != "$schema"}
    assert len(parts) > 115, "as many as issue 11 counted"
    for name, part in parts.items():
        assert part.get("description", "").rstrip(")").endswith("."), name
        assert part.get("examples"), name
        for example in part["examples"]:
            assert accepts(part, example, schema), (name, example)


@pytest.mark.req("F-18")
@rows(
    "value",
    [
        {},
        {"version": 1, "$schema": "x", "x-a": [], "on_failure": "deny"},
        {"version": 2},
        {"hoks": []},
        {"hooks": [{"on": "*", "command": "x", "timeout": 2.5, "x-a": 1}]},
        {"hooks": [{"on": ["*"], "http": "https://h.example/"}]},
        {"hooks": [{"on": ["*"], "http": {"url": "https://h.example/", "headers": {"A": "b"}}}]},
        {"hooks": [{"on": "*"}]},
        {"hooks": [{"on": "*", "command": "x", "http": "https://h.example/"}]},
        {"hooks": [{"on": "*", "command": ""}]},
        {"hooks": [{"on": "*", "command": "x", "timeout": 0}]},
        {"hooks": [{"on": "*", "command": "x", "timeout": "3"}]},
        {"hooks": [{"on": "*", "command": "x", "id": "a b"}]},
        {"hooks": [{"on": "*", "command": "x", "id": "a\n"}]},
        {"hooks": [{"on": "*", "command": "x", "enabled": "yes"}]},
        {"hooks": [{"on": "*", "command": "x", "env": {"A": 1}}]},
        {"hooks": [{"on": "*", "command": "x", "zzz": 1}]},
        {"endpoints": [{"url": "https://h.example/", "retry": [1, 2]}]},
        {"endpoints": [{"url": "https://h.example/", "retry": "gobby"}]},
        {"endpoints": [{"url": "https://h.example/", "retry": "often"}]},
        {"endpoints": [{"url": "https://h.example/", "retry": 3}]},
        *(
            {"endpoints": [{"url": "https://h.example/", "old_secrets": [{"secret": "env:OLD", "until": until}]}]}
            for until in ("2026-11-23T08:00:00Z", "2026-11-23T08:00:00", "tomorrow", 5)
        ),
        {"endpoints": [{"url": "https://h.example/", "old_secrets": [{"secret": "env:OLD"}]}]},
        {"endpoints": [{"events": "*"}]},
        {"endpoints": [{"url": "https://h.example/", "format": "slack", "payload": "thin"}]},
        {"endpoints": [{"url": "https://h.example/", "format": "mail"}]},
        {"endpoints": [{"url": "https://h.example/", "routing_key": "env:KEY"}]},
        {"endpoints": [{"url": "https://h.example/", "format": "teams", "resolve": "retry"}]},
        {"endpoints": [{"format": "slack"}]},
        {"endpoints": [{"format": "pagerduty"}]},
        {"endpoints": [{"format": "pagerduty", "routing_key": "env:KEY", "resolve": "session"}]},
        {
            "endpoints": [
                {"format": "pagerduty", "url": "https://events.eu.pagerduty.com/v2/enqueue", "routing_key": "env:K"}
            ]
        },
        {"guards": {"destructive-commands": True}},
        {"guards": {"destructive-commands": {"disable": ["a"], "decision": "ask"}}},
        {"guards": {"destructive-commands": {"decision": "allow"}}},
        {"network": {"allow": ["127.0.0.1:9000"]}},
        {"network": {"alow": []}},
        {"network": {"proxy": "environment"}},
        {"network": {"proxy": "http://me:${PW}@proxy.example:3128"}},
        {"network": {"proxy": None}},
        {"network": {"proxy": 3128}},
        {"settings": {"budget": 3, "events_max_age": "14d", "events_max_bytes": "1GiB"}},
        {"settings": {"budget": "soon"}},
        {"settings": {"slots": 0}},
        {"settings": {"zzz": 0}},
    ],
)
def test_the_schema_and_the_loader_agree(value: dict[str, Any]) -> None:
    schema = schema_once()
    try:
        problems = parse_hook_file(json.dumps(value), "user", file="fleethook.json").problems
    except ConfigError as error:
        problems = (error,)
    assert accepts(schema, value, schema) == (not problems), [str(error) for error in problems]
