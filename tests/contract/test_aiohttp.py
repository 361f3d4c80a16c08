"""What bus/http/connector.py uses of aiohttp beyond its documentation: a release that changes it fails here, and says where."""

from __future__ import annotations

import ast
import inspect
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from bus.http.address_policy import policy
from bus.http.connector import BoundedConnector, BoundedProtocol, TargetRequest
from bus.http.exchange import PreparedTarget
from bus.http.vetted_resolver import VettedResolver

ROOT = Path(__file__).parents[2]
DOCUMENTED = {"abc", "web"}
"""The modules of aiohttp that its documentation names; everything else of it is imported from `aiohttp` itself."""


async def no_lookup(host: str, port: int) -> list[str]:
    """No name is looked up here."""
    raise AssertionError(f"{host}:{port}")


@pytest_asyncio.fixture
async def connector() -> AsyncIterator[BoundedConnector]:
    resolver: AbstractResolver = VettedResolver(policy([]), no_lookup)
    connector = BoundedConnector(resolver, None)
    yield connector
    await connector.close()


def imported_modules(path: Path) -> set[str]:
    """The modules of aiohttp that a file imports from."""
    names: set[str] = set()
    text = path.read_text()
    if "aiohttp" not in text:
        return names
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.partition(".")[2].split(".")[0] for name in names if name.startswith("aiohttp.")}


def test_one_file_alone_uses_what_aiohttp_does_not_document() -> None:
    beyond = {
        str(path.relative_to(ROOT))
        for folder in ("bus", "workers")
        for path in (ROOT / folder).rglob("*.py")
        if imported_modules(path) - DOCUMENTED
    }
    assert beyond == {"bus/http/connector.py"}


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (aiohttp.TCPConnector.connect, {"req", "traces", "timeout"}),
        (aiohttp.TCPConnector._create_connection, {"req", "traces", "timeout"}),
        (aiohttp.TCPConnector._create_direct_connection, {"req", "traces", "timeout"}),
        (aiohttp.ClientRequest, {"method", "url"}),
        (ResponseHandler.set_response_params, {"read_until_eof", "auto_decompress", "read_bufsize"}),
        (ResponseHandler.set_exception, {"exc"}),
        (ResponseHandler.read, set()),
        (ResponseHandler.exception, set()),
        (ResponseHandler.data_received, {"data"}),
        (Connection.release, set()),
        (Connection.close, set()),
    ],
)
def test_what_is_called_takes_what_we_pass(function: object, names: set[str]) -> None:
    assert callable(function)
    assert names <= set(inspect.signature(function).parameters)


def test_what_is_overridden_exists() -> None:
    assert isinstance(inspect.getattr_static(aiohttp.ClientRequest, "connection_key"), property)
    assert isinstance(inspect.getattr_static(Connection, "protocol"), property)
    for name in ("connect", "_create_connection"):
        assert inspect.iscoroutinefunction(getattr(aiohttp.TCPConnector, name))


async def test_a_connector_makes_bounded_protocols(connector: BoundedConnector) -> None:
    protocol = connector._factory()
    assert isinstance(protocol, BoundedProtocol)
    assert (protocol.transport, protocol.exception(), protocol.should_close, protocol._payload) == (
        None,
        None,
        False,
        None,
    )


async def test_a_target_is_known_by_scheme_host_and_port() -> None:
    keys = [
        TargetRequest(f"{url}/a?b=%2F").connection_key
        for url in ("https://a.test", "https://a.test:443", "http://a.test", "https://b.test", "https://a.test:8443")
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    targets = [PreparedTarget(TargetRequest(url)) for url in ("https://a.test/", "http://a.test:81/", "http://[::1]/")]
    assert [target.host_line for target in targets] == [
        "Host: a.test\r\n",
        "Host: a.test:81\r\n",
        "Host: [::1]\r\n",
    ]
    assert PreparedTarget(TargetRequest("https://a.test/a?b=%2F")).request_line == "POST /a?b=%2F HTTP/1.1\r\n"
