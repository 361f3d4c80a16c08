"""`/docs`: the gateway's descriptions as one page for people. The page has no scripts and loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from workers.gateway.api_path import ApiPath, Content
from workers.gateway.asyncapi import AsyncApi
from workers.gateway.openapi import OpenApi

_STYLE: Final = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; }
h2 { border-bottom: 1px solid; margin-top: 2.5rem; }
h3 { font: 600 1rem/1.5 ui-monospace, monospace; margin: 2rem 0 0; overflow-wrap: anywhere; }
h3 b { display: inline-block; min-width: 4.5em; }
p { margin: .25rem 0; }
table { border-collapse: collapse; display: block; margin: .5rem 0; overflow-x: auto; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
code, pre { font: .9rem/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; }
summary { cursor: pointer; }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
HTML: Final = "text/html"


def described(paths: Iterable[ApiPath], asyncapi: AsyncApi, version: str) -> tuple[ApiPath, ...]:
    """The paths, and those that describe them: `/openapi.json`, `/asyncapi.json` and `/docs`."""
    page = ApiPage(asyncapi)
    openapi = OpenApi(
        (
            *paths,
            ApiPath("GET", "/asyncapi.json", None, asyncapi.handle, (Content(dict[str, Any]),)),
            ApiPath("GET", "/docs", None, page.handle, (Content(str, (HTML,)),)),
        ),
        version,
    )
    page.openapi = openapi
    return openapi.paths


class ApiPage:
    """The page, made at its first call."""

    def __init__(self, asyncapi: AsyncApi) -> None:
        self._asyncapi = asyncapi
        self.openapi: OpenApi | None = None

    async def handle(self, _: Request) -> Response:
        """This gateway's paths and messages as a page."""
        return Response(self._body, 200, _HEADERS, f"{HTML}; charset=utf-8")

    @cached_property
    def _body(self) -> bytes:
        paths = self.openapi.document if self.openapi is not None else {}
        return "".join(_page(paths, self._asyncapi.document)).encode()


def _page(openapi: Mapping[str, Any], asyncapi: Mapping[str, Any]) -> Iterator[str]:
    info = openapi["info"]
    title = f"{_text(info['title'])} {_text(info['version'])}"
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>'
    yield f"<h1>{title}</h1><p>{_text(info['description'])}</p>"
    yield '<p>For programs: <a href="/openapi.json">/openapi.json</a>, <a href="/asyncapi.json">/asyncapi.json</a>.</p>'
    yield "<h2>Paths</h2>"
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            yield from _operation(method.upper(), path, operation)
    yield "<h2>Messages</h2>"
    for channel in asyncapi["channels"].values():
        yield from _channel(channel, asyncapi["components"]["messages"])
    yield "<h2>Types</h2>"
    components = openapi["components"]["schemas"] | asyncapi["components"]["schemas"]
    for name, schema in sorted(components.items()):
        yield f'<details id="{_text(name)}"><summary><code>{_text(name)}</code></summary>'
        yield f"<p>{_text(schema.get('description', ''))}</p>{_json(schema)}</details>"
    yield "</main></body></html>\n"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h3><b>{method}</b> {_text(path)}</h3><p>{_text(operation['summary'])} "
    scopes = [scope for one in operation["security"] for scope in one["token"]]
    yield f"Needs a token with <code>{_text(scopes[0])}</code>.</p>" if scopes else "Needs no token.</p>"
    rows = [(one["name"], one["in"], one.get("description", "")) for one in operation["parameters"]]
    if rows:
        yield _table(("parameter", "in", "meaning"), rows)
    if "requestBody" in operation:
        yield from _contents("Body", operation["requestBody"]["content"])
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            yield from _contents(f"{status}:", answer.get("content", {}))
    refusals = [status for status in operation["responses"] if not status.startswith("2")]
    yield f"<p>Errors: {', '.join(refusals)}.</p>"


def _contents(label: str, contents: Mapping[str, Any]) -> Iterator[str]:
    for media, content in contents.items():
        yield f"<p>{label} <code>{_text(media)}</code> {_type(content.get('schema'))}</p>"


def _type(schema: Mapping[str, Any] | None) -> str:
    """A schema as HTML: a link for a named type, the items for a list, everything for any other."""
    if not schema:
        return ""
    if "$ref" in schema:
        name = _text(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "anyOf" in schema:
        return " or ".join(filter(None, map(_type, schema["anyOf"])))
    if "properties" in schema:
        fields = ", ".join(f"<code>{_text(name)}</code> {_type(one)}" for name, one in schema["properties"].items())
        return f"{{{fields}}}"
    return _text(schema.get("type", ""))


def _channel(channel: Mapping[str, Any], messages: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h3>{_text(channel['address'] or 'the list that a request names')}</h3><p>{_text(channel['description'])}</p>"
    found = {name: messages[name] for name in channel["messages"]}
    yield _table(("message", "meaning"), [(one.get("name", name), one["summary"]) for name, one in found.items()])


def _table(heads: Iterable[str], rows: Iterable[tuple[object, ...]]) -> str:
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _json(schema: Mapping[str, Any]) -> str:
    return f"<pre>{_text(json.dumps(schema, indent=2))}</pre>"


def _text(value: object) -> str:
    return html.escape(str(value))
