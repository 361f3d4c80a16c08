"""What is said of a server that refuses: the words tell a person what to do, and name no password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ResponseError

from bus.connections import Links, sync_client, unreachable_text
from bus.errors import Unreachable
from tests.support.servers import Server


def without_memory(client: Any) -> str:
    """Refuses writes from now on."""
    client.config_set("maxmemory", 1)
    return "SET"


def without_master(client: Any) -> str:
    """As a replica it takes no writes."""
    client.replicaof("127.0.0.1", 1)
    return "SET"


def without_rights(client: Any) -> str:
    """May no longer do what is asked."""
    client.execute_command("ACL", "SETUSER", "default", "-lpush")
    return "LPUSH"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (without_memory, "redis does not take writes ("),
        (without_master, "redis does not take writes ("),
        (without_rights, "redis refused the credentials ("),
    ],
)
def test_a_refusal_is_said_in_words(spoil: Callable[[Any], str], says: str) -> None:
    one = Server()
    one.start()
    try:
        with sync_client(one.url) as client:
            with pytest.raises(ResponseError) as refusal:
                client.execute_command(spoil(client), "k", "v")
            assert unreachable_text(refusal.value).startswith(says)
    finally:
        one.stop()


async def test_wrong_credentials_are_not_a_server_that_is_away(server: Server) -> None:
    links = Links(server.url.replace("unix://", "unix://nobody:canary1@"))
    with pytest.raises(Unreachable, match=r"^redis refused the credentials .*; see `fleethook acl`$") as refusal:
        async with links.link() as link:
            await link.exchange([("PING",)])
    await links.close()
    assert "canary1" not in str(refusal.value)
