"""The JSON Schema (2020-12) of fleethook.yaml, for editors: made from the types that the loader uses."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from bus.config.file_types import EndpointEntry, GuardSettings, HookEntry, ImportEntry, Network
from bus.config.settings import Settings
from bus.hooks import Format
from bus.verdicts import POLICIES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/{name}"
_EXTRA: Final[dict[str, Any]] = {"^x-": {"description": "The author's own; ignored."}}

_URL_GIVEN: Final[dict[str, Any]] = {
    "required": ["url"],
    "properties": {
        "format": {"enum": [name for name in get_args(Format) if name != "pagerduty"]},
        "routing_key": {"const": ""},
        "resolve": {"const": "never"},
    },
}
_PAGERDUTY: Final[dict[str, Any]] = {
    "required": ["format", "routing_key"],
    "properties": {"format": {"const": "pagerduty"}},
}


def hook_file_schema() -> dict[str, Any]:
    """The schema as plain data; what it accepts the loader may still refuse (patterns, CEL, URLs), with the place."""
    kinds = (HookEntry, EndpointEntry, ImportEntry, GuardSettings, Network, Settings)
    _, found = msgspec.json.schema_components(kinds, ref_template=_REF)
    definitions: dict[str, dict[str, Any]] = {name: dict(schema) for name, schema in sorted(found.items())}
    for open_kind in (HookEntry, EndpointEntry, ImportEntry, Settings):
        definitions[open_kind.__name__]["patternProperties"] = _EXTRA
    hook = definitions["HookEntry"]
    hook["oneOf"] = [{"required": [kind]} for kind in ("command", "http", "rule")]
    definitions["EndpointEntry"]["anyOf"] = [_URL_GIVEN, _PAGERDUTY]
    for part in definitions["Settings"]["properties"].values():
        if (
            part.get("type") in {"number", "integer"} and "pattern" in part
        ):  # a time or a size, with or without its unit
            part["type"] = [part["type"], "string"]
    schema = {
        "$schema": DIALECT,
        "title": "fleethook.yaml",
        "description": "Hooks, webhook endpoints, guards and settings of Fleethook.",
        "type": "object",
        "properties": _top(),
        "patternProperties": _EXTRA,
        "additionalProperties": False,
        "$defs": definitions,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return plain


def _top() -> dict[str, Any]:
    def reference(kind: type) -> dict[str, str]:
        return {"$ref": _REF.format(name=kind.__name__)}

    properties: dict[str, dict[str, Any]] = {
        "version": {"const": 1, "description": "The version of this format."},
        "on_failure": {
            "enum": [*POLICIES, None],
            "description": "What a failure of a hook in this file amounts to, where the hook does not say it.",
        },
        "hooks": {"type": "array", "items": reference(HookEntry), "description": "What runs, and when."},
        "endpoints": {"type": "array", "items": reference(EndpointEntry), "description": "Where webhooks go."},
        "import": {
            "type": "array",
            "items": {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 4096}, reference(ImportEntry)]},
            "description": "Hook files and plugin folders of other systems, by path.",
        },
        "guards": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "boolean"}, reference(GuardSettings)]},
            "description": "Guard packs by name: true, false, or how each is used.",
        },
        "network": {"anyOf": [{"type": "null"}, reference(Network)], "description": "Beyond public addresses."},
        "settings": {"anyOf": [{"type": "null"}, reference(Settings)], "description": "Fleethook's own settings."},
    }
    return {"$schema": {"type": "string", "description": "This schema, for editors."}, **properties}
