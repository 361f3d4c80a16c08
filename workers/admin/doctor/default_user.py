"""Checks whether clients can log in without a user name: an open user `default` makes all other users' limits useless."""

from __future__ import annotations

from pathlib import Path
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
        return await _with_password(connections)
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


async def _with_password(connections: Connections) -> Check:
    """Check whether a password without a name is still enough where the roles have users of their own."""
    without = "no client gets in without a password"
    rules, _ = await default_rules(connections)
    if not await _has_users(connections):
        return Check(id=_ID, status="ok", what=without)
    if not urlsplit(connections.url).username:
        is_open = True  # we got in without a name
    elif rules is None:
        return Check(id=_ID, status="ok", what=f"{without}; whether `default` has one cannot be seen with our rights")
    else:
        is_open = "on" in rules and rules.isdisjoint({"-@all", "nocommands"})
    if not is_open:
        return Check(id=_ID, status="ok", what=without)
    what = f"{without}, but the user `default` still has one: who knows it needs no name, and has its rights"
    return Check(id=_ID, status="warn", what=what, fix=_FIX)


async def default_rules(connections: Connections) -> tuple[frozenset[str] | None, str]:
    """The flags, commands and keys of the user `default` (None if they cannot be seen), and the path of the aclfile."""
    with connections.lease() as connection:
        user, file = await connection.exchange([("ACL", "GETUSER", "default"), ("CONFIG", "GET", "aclfile")])
    path = file[1].decode() if isinstance(file, list) and len(file) == 2 else ""
    return _rules_of_user(user) or _rules_in_file(path, connections.url), path


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


def _rules_of_user(reply: Any) -> frozenset[str] | None:
    """The flags, commands and keys of ACL GETUSER, which Redis 6.2 and 7 write differently; None if it is refused."""
    if not isinstance(reply, list):
        return None
    fields = dict(zip(reply[::2], reply[1::2], strict=False))
    words: list[bytes] = []
    for name in (b"flags", b"commands", b"keys"):
        value = fields.get(name, b"")
        words += value if isinstance(value, list) else value.split()
    return frozenset(word.decode("utf-8", "replace") for word in words)


def _rules_in_file(path: str, url: str) -> frozenset[str] | None:
    """The words of the line of `default` in an aclfile of this machine; None if it cannot be read."""
    parts = urlsplit(url)
    if not path or not (parts.scheme == "unix" or parts.hostname in LOCAL):
        return None
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    line = next((words for line in lines if (words := line.split())[:2] == ["user", "default"]), ["on", "+@all", "~*"])
    return frozenset(line)
