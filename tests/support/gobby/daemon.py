"""A gateway that replaces Gobby's daemon, with Gobby's scripts and WebSocket clients."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.support.fleet import Fleet
from tests.support.gateway import PLAIN, Gateway, start_gateway
from tests.support.servers import free_port
from tests.support.waiting import PATIENCE, wait_until

SCRIPTS = Path(__file__).parent
RELEASES = ("2026-01-03", "2026-01-10", "2026-02-22")

CONFIG = """
daemon_port: {port}
websocket: {{enabled: true, port: {websocket_port}, ping_interval: 30, ping_timeout: 10}}
hook_extensions:
  websocket: {{enabled: true, broadcast_events: {broadcast}, include_payload: {payload}}}
  plugins: {{enabled: true, plugin_dirs: ["{folder}"], plugins: {{{plugins}}}}}
"""

PLUGIN = """
from gobby.hooks.events import HookEventType
from gobby.hooks.plugins import HookPlugin, hook_handler


class Watcher(HookPlugin):
    name = "watcher"
    version = "1.0.1"
    description = "watches compactions"

    def on_load(self, config):
        schema = {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}
        self.register_action("note", self.note)
        self.register_workflow_action("keep", schema, self.note)
        self.register_condition("calm", lambda: True)

    async def note(self, context, **more):
        return None

    @hook_handler(HookEventType.PRE_COMPACT, priority=60)
    def look(self, event, core_response):
        return None
"""


class Said(NamedTuple):
    """What a script printed, and its exit code."""

    code: int
    out: Any
    err: str


@dataclass(frozen=True)
class Daemon:
    """Gobby's ports and Gobby's home."""

    fleet: Fleet
    gateway: Gateway
    home: Path
    port: int
    websocket_port: int

    def script(self, kind: str, fields: Mapping[str, Any], *, cli: str = "claude", release: str, **env: str) -> Said:
        """Run Gobby's dispatcher as a program runs it: the event on stdin."""
        done = subprocess.run(
            [sys.executable, "-I", str(SCRIPTS / "hook_dispatcher.py"), f"--type={kind}", f"--cli={cli}"],
            input=json.dumps(fields).encode(),
            capture_output=True,
            env={
                "HOME": str(self.home),
                "GOBBY_RELEASE": release,
                "GOBBY_STATUS_SECONDS": str(PATIENCE),
                "PATH": "/usr/bin:/bin",
                **env,
            },
            timeout=2 * PATIENCE,
            check=False,
        )
        return Said(done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr.decode().strip())

    def http(self, **headers: str) -> httpx.Client:
        """A client without a token, as Gobby's are."""
        return httpx.Client(base_url=f"http://localhost:{self.port}", headers=headers, timeout=PATIENCE, verify=PLAIN)

    def execute(self, source: str, hook_type: str, fields: Mapping[str, Any]) -> Any:
        """The answer to one hook call."""
        with self.http() as client:
            answer = client.post(
                "/hooks/execute", json={"hook_type": hook_type, "input_data": fields, "source": source}
            )
        assert answer.status_code == 200, answer.text
        return answer.json()

    @property
    def is_open(self) -> bool:
        """Whether the HTTP port answers."""
        try:
            with self.http() as client:
                return client.get("/admin/status").status_code == 200
        except httpx.TransportError:
            return False

    def wait_open(self) -> None:
        """Return when both ports take calls."""

        def both() -> bool:
            with socket.socket() as probe:
                return self.is_open and probe.connect_ex(("127.0.0.1", self.websocket_port)) == 0

        wait_until(both, "the gateway opens Gobby's ports")

    @contextmanager
    def websocket(self, path: str = "/", **more: Any) -> Iterator[SocketClient]:
        """A client that is connected and welcome."""
        with connect(f"ws://localhost:{self.websocket_port}{path}", **more) as connection:
            client = SocketClient(connection)
            welcome = client.next()
            assert welcome["type"] == "connection_established"
            assert welcome["user_id"].startswith("local-")
            yield client


class SocketClient:
    """One WebSocket client of Gobby."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def next(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next message."""
        found: dict[str, Any] = json.loads(self.connection.recv(seconds))
        return found

    def ask(self, message: object) -> dict[str, Any]:
        """The answer to a message; a text is sent as it is."""
        self.connection.send(message if isinstance(message, str) else json.dumps(message))
        return self.next()


def configure(
    fleet: Fleet,
    gateway: Gateway,
    *,
    broadcast: str = "[session_start, session_end, before_tool, after_tool]",
    payload: str = "true",
    more: str = "",
    plugin: str = "",
) -> Daemon:
    """Write a configuration of Gobby with ports of its own, and import it in the user's hook file.

    `plugin` is the source of a plugin that is named `watcher`.
    """
    port, websocket_port = free_port(), free_port()
    home = fleet.folder / f"person-{port}"
    folder = home / ".gobby/plugins"
    folder.mkdir(parents=True)
    if plugin:
        (folder / "watcher.py").write_text(plugin, encoding="utf-8")
    text = CONFIG.format(
        port=port,
        websocket_port=websocket_port,
        broadcast=broadcast,
        payload=payload,
        folder=folder,
        plugins="watcher: {enabled: true}" if plugin else "",
    )
    (home / ".gobby/config.yaml").write_text(text, encoding="utf-8")
    fleet.places.config.mkdir(parents=True, exist_ok=True)
    imported = f"version: 1\nimport:\n  - {{path: {home}/.gobby/config.yaml, dialect: gobby}}\n{more}"
    (fleet.places.config / "fleethook.yaml").write_text(imported, encoding="utf-8")
    return Daemon(fleet, gateway, home, port, websocket_port)


def start_daemon(fleet: Fleet, *, plugin: str = "", **env: str) -> Daemon:
    """A gateway with Gobby's ports open."""
    daemon = configure(fleet, start_gateway(fleet, **env), plugin=plugin)
    daemon.wait_open()
    return daemon
