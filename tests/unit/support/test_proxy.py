"""The proxy of the chaos tests leaves no connection behind, whenever its clients come."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_while_it_stops_is_closed(tmp_path: Path, turns: int) -> None:
    """Its client sees the end, and no transport is left whose warning fails a later test."""
    proxy = Proxy(f"unix://{tmp_path}/no-server")
    address = (await proxy.start()).removeprefix("unix://").partition("?")[0]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)
        client.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        await proxy.stop()
        assert await asyncio.wait_for(closed_by_other_side(client), PATIENCE)
    gc.collect()


async def closed_by_other_side(client: socket.socket) -> bool:
    """Whether the next thing that a client reads is the end of its connection."""
    try:
        return await asyncio.get_running_loop().sock_recv(client, 1) == b""
    except ConnectionResetError:
        return True
