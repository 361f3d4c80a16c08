"""`/openapi.json`: the gateway's OpenAPI 3.1 description, made from its paths and their types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.wire.codec import write_json
from workers.gateway.api_path import JSON, ApiPath, Content
from workers.gateway.problems import MEDIA_TYPE, TITLES, ProblemBody
from workers.gateway.records.list_responses import NDJSON

_REFS: Final = "#/components/schemas/{name}"
_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_ABOUT: Final = (
    "HTTP in front of Fleethook. TCP calls need a bearer token (`fleethook tokens create NAME`); `security` names the scope "
    "that the token needs. Every error is a problem (RFC 9457) and never contains a decision."
)
_ALWAYS: Final = (403, 500, 503)
_WITH_TOKEN: Final = (401,)
_WITH_BODY: Final = (400, 408, 413, 415)


class OpenApi:
    """The description of the given paths and of itself."""

    def __init__(self, api_paths: Iterable[ApiPath], version: str) -> None:
        own = ApiPath("GET", "/openapi.json", None, self.handle, (Content(dict[str, Any]),))
        self.paths = (*api_paths, own)
        self._version = version

    async def handle(self, _: Request) -> Response:
        """This description."""
        return Response(self._body, 200, None, JSON)

    @cached_property
    def _body(self) -> bytes:
        return write_json(self.document) + b"\n"

    @cached_property
    def document(self) -> dict[str, Any]:
        """The description as a value."""
        kinds = {id(kind): kind for path in self.paths for kind in _kinds(path)}
        schemas, components = msgspec.json.schema_components(list(kinds.values()), ref_template=_REFS)
        by_kind = dict(zip(kinds, schemas, strict=True))
        paths: dict[str, dict[str, Any]] = {}
        for path in self.paths:
            paths.setdefault(path.path, {})[path.method.lower()] = _operation(path, by_kind)
        return {
            "openapi": "3.1.0",
            "info": {"title": "Fleethook gateway", "version": self._version, "description": _ABOUT},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }


def _kinds(path: ApiPath) -> list[Any]:
    used = [content.kind for content in (*path.answer, *path.body)] + [path.item, ProblemBody]
    return [kind for kind in used if kind is not None]


def _operation(path: ApiPath, schemas: Mapping[int, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{path.method.lower()}{path.path}").strip("_"),
        "summary": (path.handle.__doc__ or "").strip().partition("\n")[0],
        "parameters": _parameters(path),
        "security": [{"token": [path.scope]}] if path.scope else [],
        "responses": {
            str(path.status): {"description": "Success.", **_answers(path, schemas)},
            **{str(status): {"description": "Success, without a body."} for status in path.also},
            **{str(status): _problem(status, schemas) for status in _refusals(path)},
        },
    }
    if path.body:
        operation["requestBody"] = {"required": True, "content": _contents(path.body, schemas)}
    return operation


def _answers(path: ApiPath, schemas: Mapping[int, Any]) -> dict[str, Any]:
    if path.item is None:
        return {"content": _contents(path.answer, schemas)} if path.answer else {}
    item = schemas[id(path.item)]
    cursor = {"type": ["string", "null"], "description": "The cursor of the next page; null at the end."}
    page = {"items": {"type": "array", "items": item}, "next": cursor}
    lines = {"type": "string", "description": "An item on each line, to the end of the list."}
    return {
        "content": {
            JSON: {"schema": {"type": "object", "properties": page, "required": ["items", "next"]}},
            NDJSON: {"schema": lines},
        }
    }


def _contents(contents: Iterable[Content], schemas: Mapping[int, Any]) -> dict[str, Any]:
    return {
        media: {} if content.kind is None else {"schema": schemas[id(content.kind)]}
        for content in contents
        for media in content.media
    }


def _parameters(path: ApiPath) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PATH_PARAMETER.findall(path.path)
    ]
    if path.query is not None:
        schema = msgspec.json.schema(path.query)
        for name, said in schema["$defs"][path.query.__name__]["properties"].items():
            found.append({"name": name, "in": "query", "description": said.pop("description", ""), "schema": said})
    found += [
        {"name": name, "in": "header", "description": text, "schema": {"type": "string"}} for name, text in path.headers
    ]
    return found


def _refusals(path: ApiPath) -> list[int]:
    statuses = {*_ALWAYS, *path.refusals} - {path.status}
    statuses |= {*_WITH_TOKEN} if path.scope else set()
    statuses |= {*_WITH_BODY} if path.body else set()
    statuses |= {400} if path.query is not None else set()
    statuses |= {404} if "{" in path.path else set()
    return sorted(statuses)


def _problem(status: int, schemas: Mapping[int, Any]) -> dict[str, Any]:
    title = TITLES[status]
    return {
        "description": f"{title[0].upper()}{title[1:]}.",
        "content": {MEDIA_TYPE: {"schema": schemas[id(ProblemBody)]}},
    }
