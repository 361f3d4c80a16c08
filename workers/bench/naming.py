"""Runs `fleethook` with names under `.test` resolved by a name server on a loopback port, in the way of glibc.

Usage: `python -m workers.bench.naming <port> <arguments of fleethook>…`. glibc itself has no setting for the port.
"""

from __future__ import annotations

import runpy
import secrets
import socket
import sys
from typing import Any, Final

_TIMEOUT: Final = 5.0
_TRIES: Final = 2
"""glibc's own time limit: a silent name server blocks a look-up for 10 s."""


def ask(host: str, port: int) -> str:
    """Ask for the address of a name by RFC 1035 over UDP; blocks. Raises socket.gaierror without an answer."""
    name = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
    question = secrets.token_bytes(2) + b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + name + b"\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(_TIMEOUT)
        link.connect(("127.0.0.1", port))
        for _ in range(_TRIES):
            link.send(question)
            try:
                answer = link.recv(512)
            except TimeoutError:
                continue
            return socket.inet_ntoa(answer[-4:])
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def _main(port: int) -> None:
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, service: Any, *args: Any, **more: Any) -> Any:
        return real(ask(host, port) if str(host).endswith(".test") else host, service, *args, **more)

    socket.getaddrinfo = getaddrinfo  # type: ignore[assignment]  # spelled out it would be ten lines
    sys.argv = ["fleethook", *sys.argv[2:]]
    runpy.run_module("workers.cli", run_name="__main__")


if __name__ == "__main__":
    _main(int(sys.argv[1]))
