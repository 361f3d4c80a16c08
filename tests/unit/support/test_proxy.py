"""The proxy of the chaos tests leaves no connection behind, whenever its clients come."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from tests.support.proxy import Proxy


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_while_it_stops_is_closed(tmp_path: Path, turns: int) -> None:
    """Else its warning fails whatever test runs when it is collected."""
    proxy = Proxy(f"unix://{tmp_path}/no-server")
    address = (await proxy.start()).removeprefix("unix://").partition("?")[0]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)
        for _ in range(turns):
            await asyncio.sleep(0)
        await proxy.stop()
    gc.collect()
