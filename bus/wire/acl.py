"""Who may do what in Redis: one ACL user a role, as `fleethook acl` prints them and the embedded server has them.

Who sends events runs no scripts: one that has written and then loops could not be ended (SCRIPT KILL refuses), and
what a spool sends twice the workers find (workers/runtime/spooled_once.py). What an ACL cannot say (measured on Valkey
9.1.2, Redis 7.0.15 and 6.2.14): XADD's options are part of XADD, so whoever may add to a stream may also trim it with
MAXLEN, flood it, or give an id of the future, which the workers repair (workers/runtime/stream_repair.py); RQ's keys
are not told apart by namespace. Redis 6.2 has no selectors: there a worker could write the hook set, and the shim could
use each of its commands on each of its keys. These are walls against mistakes, not jails; hosts that must not trust
each other use the gateway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal, get_args

from bus.wire.keys import DECLARED

Role = Literal["shim", "agent", "worker", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

EVERY_NAMESPACE: Final = "*"
"""The embedded server belongs to one user, so its roles reach every namespace."""

READ_ONLY: Final = "hookset:"
"""What the workers obey and therefore must not write."""

DEFAULT_OFF: Final = "user default reset off ~* &* +@all"
"""The first line of every list of users: nobody gets in without a name, whatever the server's own default is.

It keeps its rights, which nobody can use: as this user a server reads its append-only file when it starts. Where it has none,
a server without the fix of redis#14541 or valkey#3983 silently drops all that transactions and scripts wrote (Redis 7.0.15
does, Valkey 9.1.2 does not: watched).
"""

_CONNECT: Final = ("+auth", "+hello", "+ping", "+select")
_WORKER: Final = (
    "+@read",
    "+@write",
    "+@transaction",
    "+@pubsub",
    "+@connection",
    "-@admin",
    "-@dangerous",
    "-@scripting",
    "+eval",
    "+evalsha",
    "+script|load",
    "+script|exists",
    "+time",
    "+info",
    "+client|setname",
    "+client|getname",
    "+client|id",
    "+client|list",
)
"""RQ 3 names its connection, finds itself in CLIENT LIST and reads the version from INFO."""

_ADMIN: Final = (
    "+@all",
    "-@admin",
    "-@dangerous",
    "+info",
    "+config|get",
    "+client",
    "+shutdown",
    "+slowlog",
    "+latency",
    "+role",
)


def user_name(role: Role, namespace: str = EVERY_NAMESPACE) -> str:
    """The ACL user of a role: `fleethook-<role>`, with the namespace in between where it is for one alone."""
    return f"fleethook-{role}" if namespace == EVERY_NAMESPACE else f"fleethook-{namespace}-{role}"


def roles(namespace: str = EVERY_NAMESPACE, *, selectors: bool = True) -> dict[Role, tuple[str, ...]]:
    """The ACL rules of every role, without password; `selectors` off gives the wider ones that Redis 6.2 can say."""
    return {
        "shim": _sender(namespace, (), selectors=selectors),
        "agent": _sender(namespace, ("+lindex",), selectors=selectors),
        "worker": _worker(namespace, selectors=selectors),
        "admin": ("resetchannels", f"~fh:{namespace}:*", "~rq:*", f"&fh:{namespace}:*", "&rq:*", *_ADMIN),
    }


def acl_lines(namespace: str, passwords: Mapping[Role, str], *, selectors: bool = True) -> list[str]:
    """One `user …` line for each role that has a password here; the lines carry its hash, never the password.

    As an aclfile has it; for a running server put `ACL SETUSER` in the place of the first word.
    """
    return [
        " ".join(("user", user_name(role, namespace), "reset", "on", f"#{_hashed(passwords[role])}", *rules))
        for role, rules in roles(namespace, selectors=selectors).items()
        if role in passwords
    ]


def acl_file(namespace: str, passwords: Mapping[Role, str], *, selectors: bool = True) -> str:
    """The text of an aclfile in which only the roles can log in."""
    return "\n".join((DEFAULT_OFF, *acl_lines(namespace, passwords, selectors=selectors))) + "\n"


def _sender(namespace: str, on_reply: tuple[str, ...], *, selectors: bool) -> tuple[str, ...]:
    """Whoever adds requests and events: every command only on the keys that it is for.

    Reading a reply is BLMOVE from the key to itself, which needs both rights on it. At its memory limit a server refuses
    that and takes BLPOP.
    """
    at = f"fh:{namespace}:{{*}}:"
    if not selectors:
        names = ("requests", "events", "reply:*", "alive:evaluator")
        commands = ("+xadd", "+blmove", "+blpop", "+exists", *on_reply)
        return ("resetchannels", *(f"~{at}{name}" for name in names), *_CONNECT, *commands)
    return (
        "resetchannels",
        *_CONNECT,
        f"(+xadd %W~{at}requests %W~{at}events)",
        f"(+blmove +blpop ~{at}reply:*)",
        *(f"({command} %R~{at}reply:*)" for command in on_reply),
        f"(+exists %R~{at}alive:evaluator %R~{at}reply:*)",
    )


def _worker(namespace: str, *, selectors: bool) -> tuple[str, ...]:
    at = f"fh:{namespace}:{{*}}:"
    mine = tuple(f"~{at}{key.pattern}" for key in DECLARED if not key.pattern.startswith(READ_ONLY))
    theirs = f"%R~{at}{READ_ONLY}*" if selectors else f"~{at}{READ_ONLY}*"
    nothing = "~"  # the empty name, which stands for "no key" among a script's KEYS
    return ("resetchannels", *mine, theirs, nothing, "~rq:*", f"&fh:{namespace}:*", "&rq:*", *_WORKER)


def _hashed(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()
