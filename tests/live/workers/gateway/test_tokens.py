"""A gateway's copy of the tokens while the server hangs."""

from __future__ import annotations

import pytest

from bus.errors import Unreachable
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.proxy import Proxy
from tests.support.servers import Server
from tests.support.waiting import CONNECT, until
from workers.gateway.tokens import TokenBook, create_token, revoke_token


@pytest.mark.req("F-15", "X-06")
async def test_while_the_server_hangs_known_tokens_are_taken_at_once_and_unknown_ones_wait(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.gateway.tokens._FRESH_SECONDS", 0.0)
    secret, token = await create_token(connections, keys, "ci", ["publish"], by="a test")
    async with Proxy(server.url) as proxy:
        behind = Connections(proxy.url, connect=CONNECT)
        book = TokenBook(behind, keys)
        assert await book.find(secret) == token
        proxy.freeze()
        monkeypatch.setattr("workers.gateway.tokens._READ_SECONDS", 0.1)
        assert await book.find(secret) == token, "the first call finds out that the server hangs"
        monkeypatch.setattr("workers.gateway.tokens._READ_SECONDS", 3_600.0)
        for _ in range(3):
            assert await book.find(secret) == token, "no other call waits for it"
        with pytest.raises(Unreachable):
            await book.find("fht_unknown")
        await revoke_token(connections, keys, "ci")
        proxy.thaw()

        async def is_refused() -> bool:
            return await book.find(secret) is None

        await until(is_refused, "the revoked token is refused once the server is back")
        await behind.close()
