"""The Redis rights of each role: one ACL user for each role, for `fleethook acl` and for the embedded server.

Senders of events may not run scripts: a script that has written and then loops cannot be ended (SCRIPT KILL refuses).
Instead, the workers find events that a spool has sent twice (workers/runtime/spooled_once.py).

Limits of ACLs (measured on Valkey 9.1.2, Redis 7.0.15 and 6.2.14): a user that may add to a stream may also trim it with
MAXLEN, flood it, or add an id from the future, since these are options of XADD; the workers repair such streams
(workers/runtime/stream_repair.py). All namespaces share RQ's keys. Redis 6.2 has no selectors: there a worker could write
the hook set, and the shim could use each of its commands on each of its keys. The rights protect against mistakes and not
against attackers; hosts that must not trust each other use the gateway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal, get_args

from bus.wire.keys import DECLARED, READ_ONLY

Role = Literal["shim", "agent", "worker", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

EVERY_NAMESPACE: Final = "*"
"""The embedded server belongs to one user, so its roles reach every namespace."""

DEFAULT_OFF: Final = "user default reset off ~* &* +@all"
"""The first line of every list of users: no connection is allowed without a user name.

The user `default` keeps its rights, since a server reads its append-only file as this user when it starts. Without them, a
server without the fix of redis#14541 or valkey#3983 silently drops everything that transactions and scripts wrote (Redis
7.0.15 does, Valkey 9.1.2 does not; both tried).
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
    "+client|unblock",
)
"""RQ 3 names its connection, finds itself in CLIENT LIST and reads the version from INFO. A worker ends its own long reads."""

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
    """The ACL user of a role: `fleethook-<role>`, or `fleethook-<namespace>-<role>` for one namespace."""
    return f"fleethook-{role}" if namespace == EVERY_NAMESPACE else f"fleethook-{namespace}-{role}"


def roles(namespace: str = EVERY_NAMESPACE, *, selectors: bool = True) -> dict[Role, tuple[str, ...]]:
    """The ACL rules of every role, without password. Without `selectors` they are wider, for Redis 6.2."""
    return {
        "shim": _sender(namespace, (), selectors=selectors),
        "agent": _sender(namespace, ("+lindex",), selectors=selectors),
        "worker": _worker(namespace, selectors=selectors),
        "admin": ("resetchannels", f"~fh:{namespace}:*", "~rq:*", f"&fh:{namespace}:*", "&rq:*", *_ADMIN),
    }


def acl_lines(namespace: str, passwords: Mapping[Role, str], *, selectors: bool = True) -> list[str]:
    """One `user …` line of an aclfile for each role in `passwords`; it has the password's hash, never the password.

    For a running server, replace the first word by `ACL SETUSER`.
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
    """The rules of a role that adds requests and events: each command only on the keys that it needs.

    A reply is read by BLMOVE from its key to the same key, which needs the rights to read and write it. At its memory limit,
    a server refuses BLMOVE and accepts BLPOP.
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
    writable = tuple(
        f"~{at}{key.pattern}" for key in DECLARED if not any(fnmatchcase(key.pattern, name) for name in READ_ONLY)
    )
    readable = tuple(f"{'%R' if selectors else ''}~{at}{pattern}" for pattern in READ_ONLY)
    no_key = "~"  # the empty name, which means "no key" among a script's KEYS
    return ("resetchannels", *writable, *readable, no_key, "~rq:*", f"&fh:{namespace}:*", "&rq:*", *_WORKER)


def _hashed(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()
