"""Whose process is at the other end of a connection on loopback (G-05)."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator

import pytest

from bus.system.calling_agent import CallingAgent
from workers.gateway.gobby import callers
from workers.gateway.gobby.callers import connected, why_no_person

pytestmark = [
    pytest.mark.req("G-05"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell whose connection it is"),
]


@pytest.fixture(params=["127.0.0.1", "::ffff:127.0.0.1"])
def ports(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The ports of a client and of its server, both this process's."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(family) as client:
        client.connect((request.param, server.getsockname()[1]))
        yield client.getsockname()[1], server.getsockname()[1]


def test_a_connection_has_its_user(ports: tuple[int, int]) -> None:
    found = connected(*ports)
    assert found is not None
    assert found.user == os.getuid()
    assert connected(ports[0], 1) is None


def test_this_user_may_and_its_agents_and_others_may_not(
    ports: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, other = ports
    seen: list[int] = []

    def agent(environ: object, process: int) -> CallingAgent | None:
        assert environ
        seen.append(process)
        return CallingAgent("gemini", "GEMINI_CLI is set") if len(seen) > 1 else None

    monkeypatch.setattr(callers, "calling_agent", agent)
    assert why_no_person(("127.0.0.1", port), other) == ""
    assert why_no_person(("127.0.0.1", port), other) == "an agent calls (gemini: GEMINI_CLI is set)"
    assert seen == [os.getpid()] * 2
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    assert why_no_person(("127.0.0.1", port), other) == "another user of this machine calls"
    assert why_no_person(("10.0.0.1", port), other) == why_no_person(None, 0) == "the process that calls cannot be seen"
