"""The sockets that a gateway listens on, and how their addresses are written."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import Final

BACKLOG: Final = 2048


def unix_socket(path: Path) -> socket.socket:
    """A socket that only this user can open. It replaces an older one: the lock proves that no other gateway has it."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    path.chmod(0o600)  # until now its folder, which only this user can open, protects it
    sock.setblocking(False)
    return sock


def tcp_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound to the address; raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address that a gateway listens on."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bracketed(host: str) -> str:
    """A host in the form of URLs and of the `Host` header: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def tcp_url(host: str, port: int) -> str:
    """The URL of a gateway's TCP port."""
    return f"http://{bracketed(host)}:{port}"


def socket_address(path: Path) -> str:
    """The address of a gateway's unix socket, as its file and its heartbeat say it."""
    return f"unix:{path}"
