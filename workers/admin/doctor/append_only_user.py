"""Checks whether the server can load its append-only file, which it does as its user `default`."""

from __future__ import annotations

from typing import Final

from bus.errors import FleethookError, Unreachable
from bus.wire.acl import DEFAULT_OFF
from bus.wire.connections import Connections
from workers.admin.doctor import Check
from workers.admin.doctor.default_user import default_rules

_ID: Final = "append-only-user"
_ALL_COMMANDS: Final = frozenset({"+@all", "allcommands"})
_ALL_KEYS: Final = frozenset({"~*", "*", "allkeys"})


async def append_only_user_check(connections: Connections) -> Check:
    """Check whether the user `default` may load the append-only file; older lines of `fleethook acl` took these rights."""
    try:
        rules, path = await default_rules(connections)
    except (Unreachable, FleethookError) as error:
        return Check(id=_ID, status="unknown", what=f"the rights of the user `default` cannot be seen: {error}")
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
