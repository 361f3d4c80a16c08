"""A server for the benchmark only: AOF every second; without ACL, because the bare baselines have no role."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bus.wire.connections import sync_client
from bus.wire.embedded_server import find_binary

_PATIENCE = 10.0


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
