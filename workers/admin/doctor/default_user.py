"""Checks whether clients can log in without a user name: an open user `default` makes all other users' limits useless."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from bus.errors import Unreachable
from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys
from workers.admin.doctor import Check

_ID: Final = "default-user"
LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_FIX: Final = "`ACL SETUSER default reset off ~* &* +@all`, as `fleethook acl` prints it, once every URL names its user"


async def default_user_check(connections: Connections, keys: Keys) -> Check:
    """Check the rights of a client without a user name; `connections` are our own and give the server's address."""
    stranger = Connections(_without_login(connections.url), connect=1.0)
    try:
        may = await _rights(stranger, keys)
    except Unreachable as error:
        if "refused the credentials" not in str(error):
            return Check(id=_ID, status="unknown", what=f"whether a client gets in without a name: {error}")
        return Check(id=_ID, status="ok", what="no client gets in without a password")
    finally:
        await stranger.close()
    if not may:
        return Check(id=_ID, status="ok", what="who logs in without a name may do nothing here")
    users, network = await _has_users(connections), await _on_network(connections)
    what = f"who logs in without a name or password may {', '.join(may)}"
    if users:
        return Check(id=_ID, status="fail", what=f"{what}: the limits of the other users protect nothing", fix=_FIX)
    if network:
        return Check(id=_ID, status="warn", what=f"{what}, and the server listens on {network}", fix=_FIX)
    return Check(id=_ID, status="ok", what="no password is asked, but only this machine's unix socket leads there")


async def _rights(stranger: Connections, keys: Keys) -> list[str]:
    """Which of the most important commands are allowed. Nothing is changed, because XADD has an invalid id."""
    tried: tuple[tuple[str, Command], ...] = (
        ("add requests", ("XADD", keys("requests"), "NOMKSTREAM", "no-id", "a", "b")),
        ("read events", ("XLEN", keys("events"))),
        ("read hook sets", ("STRLEN", keys("hookset", "current"))),
        ("answer requests", ("LPUSHX", keys("reply", "nobody"), "x")),
    )
    with stranger.lease() as connection:
        replies = await connection.exchange([command for _, command in tried])
    return [what for (what, _), reply in zip(tried, replies, strict=True) if not _refused(reply)]


def _refused(reply: Any) -> bool:
    words = f"{type(reply).__name__} {reply}".lower()
    return isinstance(reply, Exception) and any(word in words for word in ("permission", "noauth", "authentication"))


async def _has_users(connections: Connections) -> bool:
    """Whether our roles are users of that server: we log in as one, or the server lists them."""
    if urlsplit(connections.url).username:
        return True
    with connections.lease() as connection:
        (names,) = await connection.exchange([("ACL", "USERS")])
    return isinstance(names, list) and any(name.startswith(b"fleethook-") for name in names)


async def _on_network(connections: Connections) -> str:
    """The addresses that the server listens on besides its unix socket; empty if there are none."""
    parts = urlsplit(connections.url)
    if parts.scheme != "unix":
        where = "this machine" if (parts.hostname or "") in LOCAL else str(parts.hostname)
        return f"port {parts.port or 6379} of {where}"
    with connections.lease() as connection:
        replies = await connection.exchange([("CONFIG", "GET", name) for name in ("port", "tls-port")])
    ports = [
        one[1].decode() for one in replies if isinstance(one, list) and len(one) == 2 and one[1] not in (b"0", b"")
    ]
    return f"port {ports[0]}" if ports else ""


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    query = "&".join(
        part for part in parts.query.split("&") if part.partition("=")[0].lower() not in {"username", "password"}
    )
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
