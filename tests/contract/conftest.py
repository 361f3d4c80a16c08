"""Both servers in turn: fakeredis behind a socket, and a real one."""

from __future__ import annotations

import threading
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
from fakeredis import TcpFakeServer

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.places import Place
from tests.support.running import do
from tests.support.servers import Server
from tests.support.waiting import CONNECT


@pytest.fixture(scope="module")
def fake() -> Iterator[str]:
    """fakeredis behind a socket, so that the same connections talk to it; its blocking reads do not block."""
    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis", server_version=(7,))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(params=["fake", "real"])
async def place(request: pytest.FixtureRequest, fake: str, server: Server, keys: Keys) -> AsyncIterator[Place]:
    """Both servers in turn."""
    real = request.param == "real"
    connections = Connections(server.url if real else fake, connect=CONNECT)
    made = Place(connections, keys if real else Keys(f"t-{uuid.uuid4().hex[:12]}"), real)
    await made.member().create()
    await do(connections, "DEL", made.keys("beat", "one"))
    yield made
    await connections.close()
