"""Checks whether the server can load its append-only file, which it does as its user `default`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bus.errors import FleethookError, Unreachable
from bus.wire.acl import DEFAULT_OFF
from bus.wire.connections import Connections
from workers.admin.doctor import Check
from workers.admin.doctor.default_user import LOCAL

_ID: Final = "append-only-user"
_ALL_COMMANDS: Final = frozenset({"+@all", "allcommands"})
_ALL_KEYS: Final = frozenset({"~*", "*", "allkeys"})


async def append_only_user_check(connections: Connections) -> Check:
    """Check whether the user `default` may load the append-only file; older lines of `fleethook acl` took these rights."""
    try:
        with connections.lease() as connection:
            user, file = await connection.exchange([("ACL", "GETUSER", "default"), ("CONFIG", "GET", "aclfile")])
    except (Unreachable, FleethookError) as error:
        return Check(id=_ID, status="unknown", what=f"the rights of the user `default` cannot be seen: {error}")
    path = file[1].decode() if isinstance(file, list) and len(file) == 2 else ""
    rules = _rules_of_user(user) or _rules_in_file(path, connections.url)
    where = path or "the server's aclfile"
    if rules is None:
        what = (
            f"the rights of the user `default` cannot be seen with ours: its line in {where} should be `{DEFAULT_OFF}`"
        )
        return Check(id=_ID, status="unknown", what=what)
    if rules & _ALL_COMMANDS and rules & _ALL_KEYS:
        return Check(id=_ID, status="ok", what="the server can load its append-only file")
    what = (
        f"the user `default` may not use every command and key ({where}), and as this user the server loads its append-only "
        "file: many versions (Redis 7.0.15 is one, Valkey 9.1.2 is not) lose hook sets and deliveries at a restart"
    )
    fix = f"write `{DEFAULT_OFF}` for its line there and say `ACL LOAD`, before the server restarts (docs/upgrade.md)"
    return Check(id=_ID, status="warn", what=what, fix=fix)


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
    line = next((words for line in lines if (words := line.split())[:2] == ["user", "default"]), ["+@all", "~*"])
    return frozenset(line)
