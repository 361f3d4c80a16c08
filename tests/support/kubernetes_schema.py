"""What is wrong with a Kubernetes object by the schema of Kubernetes: unknown fields, missing ones and wrong types.

`kubernetes_schema.json` has the definitions that our manifests need, from the strict schemas of Kubernetes 1.37 (the package
`kubernetes-validate` 1.37.0, Apache-2.0), without their descriptions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

DEFINITIONS: Final[dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
KINDS: Final = {
    ("apps/v1", "Deployment"): "io.k8s.api.apps.v1.Deployment",
    ("v1", "ConfigMap"): "io.k8s.api.core.v1.ConfigMap",
    ("v1", "ServiceAccount"): "io.k8s.api.core.v1.ServiceAccount",
    ("networking.k8s.io/v1", "NetworkPolicy"): "io.k8s.api.networking.v1.NetworkPolicy",
}
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def schema_problems(manifest: dict[str, Any]) -> list[str]:
    """What is wrong with an object, each problem with its path."""
    kind = KINDS.get((manifest.get("apiVersion", ""), manifest.get("kind", "")))
    if kind is None:
        return [f"no schema for {manifest.get('apiVersion')} {manifest.get('kind')}"]
    return _problems(manifest, DEFINITIONS[kind], str(manifest["kind"]))


def _problems(value: Any, schema: dict[str, Any], path: str) -> list[str]:
    if "$ref" in schema:
        return _problems(value, DEFINITIONS[schema["$ref"]], path)
    if "oneOf" in schema:
        tried = [_problems(value, choice, path) for choice in schema["oneOf"]]
        return [] if [] in tried else tried[0]
    types = schema.get("type", [])
    allowed = [kind for name in ([types] if isinstance(types, str) else types) for kind in _TYPES[name]]
    if allowed and (not isinstance(value, tuple(allowed)) or (isinstance(value, bool) and bool not in allowed)):
        return [f"{path}: {value!r} is not of the type {types}"]
    found = [f"{path}: {value!r} is none of {schema['enum']}"] if value not in schema.get("enum", [value]) else []
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{path}.{name} is missing" for name in schema.get("required", []) if name not in value]
        for name, part in value.items():
            inner = known.get(name, others)
            if inner is False:
                found.append(f"{path}.{name}: there is no such field")
            elif isinstance(inner, dict):
                found += _problems(part, inner, f"{path}.{name}")
    if isinstance(value, list) and "items" in schema:
        for number, part in enumerate(value):
            found += _problems(part, schema["items"], f"{path}[{number}]")
    return found
