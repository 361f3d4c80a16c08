"""A gateway as a real process of a fleet, and clients that speak HTTP with it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from bus.agents import find
from bus.shim.answer import HookAnswer
from tests.support.fleet import Fleet
from tests.support.servers import free_port
from tests.support.waiting import PATIENCE
from workers.gateway.calls.hooks import ANSWER_TYPE
from workers.gateway.tokens import Scope, create_token

GOLDEN = Path(__file__).parents[1] / "golden"
EVENT_ID = re.compile(rb"e[0-9a-f]{32}")
PLAIN: Final = False
"""What `verify` is for a client that speaks no TLS: else it reads all authorities of the machine, for 30 ms of a core."""


@dataclass(frozen=True)
class Gateway:
    """One gateway's addresses, and clients with a token and without."""

    fleet: Fleet
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket(self) -> Path:
        return self.fleet.places.gateway_socket

    def token(self, name: str, *scopes: Scope) -> str:
        """A new token of the fleet."""
        secret, _ = self.fleet.ask(
            lambda connections: create_token(connections, self.fleet.keys, name, scopes or ("publish",), by="a test")
        )
        return secret

    def tcp(self, token: str = "", **headers: str) -> httpx.Client:
        """A client of the TCP port."""
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers={**bearer, **headers}, timeout=2 * PATIENCE, verify=PLAIN)

    def unix(self, **headers: str) -> httpx.Client:
        """A client of the unix socket."""
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=PLAIN)
        return httpx.Client(base_url="http://fleethook", headers=headers, transport=transport, timeout=2 * PATIENCE)


def start_gateway(fleet: Fleet, **more: str) -> Gateway:
    """Start a gateway in a fleet, on a port of its own."""
    gateway = Gateway(fleet, free_port())
    fleet.start("gateway", FLEETHOOK_GATEWAY_PORT=str(gateway.port), **more)
    return gateway


def whole_answer(response: httpx.Response) -> HookAnswer:
    """The answer of a hook command in a response that was asked for with `Accept: ANSWER_TYPE`."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == ANSWER_TYPE
    fields = response.json()
    return HookAnswer(fields["exit_code"], fields["stdout"].encode(), fields["stderr"].encode())


def without_ids(answer: HookAnswer) -> HookAnswer:
    """The answer with the id of its event, and the times in it, replaced: they differ from call to call."""
    out = re.sub(rb'"ms":[0-9.e-]+', b'"ms":0', EVENT_ID.sub(b"E", answer.stdout))
    out = re.sub(rb'"silent":\{[^}]*\}+', b'"silent":{}', out)
    return HookAnswer(answer.exit_code, out, EVENT_ID.sub(b"E", answer.stderr))


def payloads(agent: str) -> list[tuple[str, bytes]]:
    """Every event of an agent with a payload: the recorded ones, and a bare one for an event without."""
    found: list[tuple[str, bytes]] = []
    capabilities = find(agent).capabilities
    for path in sorted((GOLDEN / agent).glob("*-*.json")):
        native = re.sub(r"^(captured|documented|schema|http|observed)-", "", path.stem)
        native = native.removeprefix("http-").rpartition("-")[0]
        if native in capabilities:
            found.append((native, path.read_bytes()))
    recorded = {native for native, _ in found}
    bare = [(native, json.dumps(_bare(agent, native)).encode()) for native in capabilities if native not in recorded]
    return found + bare


def _bare(agent: str, native: str) -> Mapping[str, Any]:
    """A small payload: a tool call where the event has one, in the words that most agents share."""
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    if agent == "generic":
        return {"type": native, "session": "s", "tool": "bash", "input": {"command": "ls"}}
    if agent == "gobby":
        return {"event_type": native, "session_id": "s", "source": "claude", "data": call}
    return {"session_id": "s", "hook_event_name": native, "cwd": "/tmp", **call}
