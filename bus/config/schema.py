"""The JSON Schema (2020-12) of fleethook.yaml for editors, generated from the types that the loader uses."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from bus.config.endpoint_entry import EndpointEntry
from bus.config.file_types import FileFormat, GuardSettings, HookEntry, ImportEntry, Network
from bus.config.hook_test_entry import HookTestEntry
from bus.config.model_entry import ModelEntry
from bus.config.plugin_entry import PluginEntry
from bus.config.settings import Settings
from bus.config.workflow_actions import ACTION_KINDS
from bus.config.workflow_entry import WorkflowEntry
from bus.hooks import Format
from bus.verdicts import POLICIES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/{name}"
_EXTRA: Final[dict[str, Any]] = {"^x-": {"description": "Your own notes; ignored."}}

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
    """The schema as plain data. The loader checks more than it can say: patterns, CEL conditions and URLs."""
    kinds = (
        FileFormat,
        HookEntry,
        EndpointEntry,
        ImportEntry,
        GuardSettings,
        PluginEntry,
        WorkflowEntry,
        ModelEntry,
        Network,
        Settings,
        HookTestEntry,
    )
    _, found = msgspec.json.schema_components(kinds, ref_template=_REF)
    definitions: dict[str, dict[str, Any]] = {name: dict(schema) for name, schema in sorted(found.items())}
    top = definitions.pop(FileFormat.__name__)["properties"]
    for kind in ACTION_KINDS:  # the field that names the action has no text of its own
        name = kind.__struct_config__.tag
        definitions[kind.__name__]["properties"]["action"] |= {"description": "Which action it is.", "examples": [name]}
    for open_kind in (HookEntry, EndpointEntry, ImportEntry, Settings, HookTestEntry):
        definitions[open_kind.__name__]["patternProperties"] = _EXTRA
    hook = definitions["HookEntry"]
    hook["oneOf"] = [{"required": [kind]} for kind in ("command", "http", "rule", "prompt", "agent")]
    definitions["EndpointEntry"]["anyOf"] = [_URL_GIVEN, _PAGERDUTY]
    for part in definitions["Settings"]["properties"].values():
        if part.get("type") in {"number", "integer"} and "pattern" in part:  # a time or size may have a unit
            part["type"] = [part["type"], "string"]
    schema = {
        "$schema": DIALECT,
        "title": "fleethook.yaml",
        "description": "Hooks, webhook endpoints, guards and settings of Fleethook.",
        "type": "object",
        "properties": _top_properties(top),
        "patternProperties": _EXTRA,
        "additionalProperties": False,
        "$defs": definitions,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return plain


def _top_properties(described: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The top-level properties: descriptions and examples from FileFormat, types from each entry's own class."""

    def reference(kind: type) -> dict[str, str]:
        return {"$ref": _REF.format(name=kind.__name__)}

    types: dict[str, dict[str, Any]] = {
        "version": {"const": 1},
        "on_failure": {"enum": [*POLICIES, None]},
        "hooks": {"type": "array", "items": reference(HookEntry)},
        "endpoints": {"type": "array", "items": reference(EndpointEntry)},
        "import": {
            "type": "array",
            "items": {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 4096}, reference(ImportEntry)]},
        },
        "guards": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "boolean"}, reference(GuardSettings)]},
        },
        "plugins": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "boolean"}, reference(PluginEntry)]},
        },
        "workflows": {"type": "array", "items": reference(WorkflowEntry)},
        "groups": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        "network": {"anyOf": [{"type": "null"}, reference(Network)]},
        "model": {"anyOf": [{"type": "null"}, reference(ModelEntry)]},
        "tests": {"type": "array", "items": reference(HookTestEntry)},
        "settings": {"anyOf": [{"type": "null"}, reference(Settings)]},
    }
    described = {name: {key: part[key] for key in ("description", "examples")} for name, part in described.items()}
    schema = {"type": "string", "description": "This schema, for editors."}
    return {"$schema": schema, **{name: {**described[name], **kind} for name, kind in types.items()}}
