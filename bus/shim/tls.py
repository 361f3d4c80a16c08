"""TLS for the hook command's connection, in its own file because its imports take 30 ms."""

import _socket
import socket
import ssl


def wrap(sock: _socket.socket, cafile: bytes, name: bytes, seconds: float) -> socket.socket:
    """The connection inside TLS, checked against `name`, by the authorities in `cafile` (empty: the system's).

    The handshake may take `seconds`; raises OSError.
    """
    context = ssl.create_default_context(cafile=cafile.decode("utf-8", "surrogateescape") or None)
    plain = socket.socket(fileno=sock.detach())
    plain.settimeout(seconds)
    return context.wrap_socket(plain, server_hostname=name.decode())
