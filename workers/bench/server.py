"""A server for the benchmark only: AOF every second; without ACL, because the bare baselines have no role."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bus.client import Bus
from bus.wire.connections import Connections, sync_client
from bus.wire.embedded_server import find_binary

_PATIENCE: Final = 10.0
"""Seconds for a connection: a busy machine ends no measurement."""


@contextmanager
def bench_server() -> Iterator[str]:
    """Start a server on a unix socket in a temporary folder, yield its URL, and end it after the block."""
    with tempfile.TemporaryDirectory(prefix="fh-") as folder:
        socket = Path(folder, "s")
        options = (
            "--port",
            "0",
            "--unixsocket",
            str(socket),
            "--unixsocketperm",
            "700",
            "--dir",
            folder,
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
            "--loglevel",
            "warning",
        )
        process = subprocess.Popen(
            [str(find_binary().path), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            url = f"unix://{socket}?db=0"
            _wait(url)
            yield url
        finally:
            process.terminate()
            process.wait()


def bench_bus(url: str, namespace: str) -> Bus:
    """A program's bus on the server; it waits for its connection as `bench_connections`."""
    return Bus(url, namespace=namespace, connect=_PATIENCE)


def bench_connections(url: str) -> Connections:
    """Connections to the server. They wait longer to be made than a hook does: a busy machine ends no measurement."""
    return Connections(url, connect=_PATIENCE)


def _wait(url: str) -> None:
    client, until = sync_client(url), time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                client.ping()
            except Exception:  # errors while the server starts; the last one is raised
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return
    finally:
        client.close()
