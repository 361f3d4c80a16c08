"""What we use of aiohttp beyond its public face: a release that changes it fails here, and says where."""

from __future__ import annotations

import inspect

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler

from bus.http.address_policy import policy
from bus.http.connector import BoundedProtocol, Pool
from bus.http.exchange import PreparedTarget


async def nowhere(host: str, port: int) -> list[str]:
    """No name is looked up here."""
    raise AssertionError(f"{host}:{port}")


async def test_a_pool_makes_lines() -> None:
    async with Pool(policy([]), None, nowhere) as pool:
        assert isinstance(pool._factory(), BoundedProtocol)


@pytest.mark.parametrize(
    ("what", "names"),
    [
        (aiohttp.TCPConnector.connect, {"req", "traces", "timeout"}),
        (aiohttp.TCPConnector._create_connection, {"req", "traces", "timeout"}),
        (aiohttp.TCPConnector._create_direct_connection, {"req", "traces", "timeout"}),
        (aiohttp.ClientSession, {"connector", "request_class", "cookie_jar", "auto_decompress", "read_bufsize"}),
        (aiohttp.ClientRequest, {"method", "url", "data", "loop"}),
        (aiohttp.ClientRequest.send, {"conn"}),
        (aiohttp.ClientResponse.start, {"connection"}),
        (ResponseHandler.set_response_params, {"read_until_eof", "auto_decompress"}),
        (ResponseHandler.set_exception, {"exc"}),
    ],
)
def test_what_is_called_takes_what_we_give(what: object, names: set[str]) -> None:
    assert callable(what)
    assert names <= set(inspect.signature(what).parameters)


async def test_a_line_has_what_its_answer_is_told_by() -> None:
    async with Pool(policy([]), None, nowhere) as pool:
        line = pool._factory()
        assert (line.transport, line.exception(), line.should_close, line._payload) == (None, None, False, None)


async def test_a_door_is_known_by_scheme_host_and_port() -> None:
    keys = [
        PreparedTarget(f"{url}/a?b=%2F").connection_key
        for url in ("https://a.test", "https://a.test:443", "http://a.test", "https://b.test", "https://a.test:8443")
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    assert [PreparedTarget(url).host_line for url in ("https://a.test/", "http://a.test:81/", "http://[::1]/")] == [
        "Host: a.test\r\n",
        "Host: a.test:81\r\n",
        "Host: [::1]\r\n",
    ]
    assert PreparedTarget("https://a.test/a?b=%2F").request_line == "POST /a?b=%2F HTTP/1.1\r\n"
