"""The published hook set: versions in Redis that every worker reads; publish, compare and roll back (B-04, X-08)."""

from __future__ import annotations

import difflib
import getpass
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from bus.errors import ConfigError, DecodeError, FleethookError, NotFound, Unreachable
from bus.events import EventType
from bus.hooksets.guard_changes import GuardChange, event_data, list_change
from bus.hooksets.hookfile import HookFile, from_document, to_document
from bus.ids import host_name
from bus.secrets.redaction import redact_text
from bus.secrets.sealing import fingerprint, seal
from bus.wire.announcements import announced_key, announcement
from bus.wire.codec import read_json
from bus.wire.connections import Connections
from bus.wire.keys import DONE_MS, Keys
from bus.wire.streams import call, checked, flat

KEPT_VERSIONS: Final = 100
MOST_BYTES: Final = 64 * 1024 * 1024
"""Largest published set; ten thousand hooks are 2 MB."""

KEPT_LOG: Final = 1_000


class SetMoved(ConfigError):
    """Another version was published since the one that a change was made against."""


class SetChange(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the history: which version was put in force, when, by whom, and why."""

    version: int
    ms: int
    by: str
    message: str = ""
    digest: str = ""
    hooks: int = 0
    endpoints: int = 0


async def current_version(connections: Connections, keys: Keys) -> int:
    """The number of the version in force; 0 if none was ever published."""
    (reply,) = await connections.together([("GET", keys("hookset", "current"))])
    version = checked(reply, "reading the hook set's version") or b"0"
    if not version.isdigit():
        raise FleethookError(f"{keys('hookset', 'current')} holds no version number; publish the set again")
    return int(version)


async def load_version(connections: Connections, keys: Keys, version: int) -> HookFile:
    """The hook set of one version; raises NotFound if it does not exist, or not any more."""
    if version == 0:
        return HookFile()
    return from_document(await _document(connections, keys, version))


async def apply(
    connections: Connections,
    keys: Keys,
    file: HookFile,
    *,
    message: str = "",
    expected: int | None = None,
    by: str = "",
    change: GuardChange | None = None,
) -> int:
    """Publish `file` as the next version and return its number.

    `expected` is the version that the change was made against; `by` says who publishes, without it this user. `change` has
    the guards that this version weakens: it is announced in the same step, before a worker that notices it can do so without
    the name; it needs `expected`. Raises ConfigError, and changes nothing, if the set has problems, and SetMoved if another
    version was published since `expected`.
    """
    if file.problems:
        raise ConfigError(
            f"the set has {len(file.problems)} problem(s) and is not published; the first: {file.problems[0]}"
        )
    document = _change_secrets(to_document(file), seal)
    for entry in document.get("hooks", ()):
        entry.pop("pins", None)  # pins are about files of this machine
    return await _put(connections, keys, document, file, message, expected, by, change)


async def rollback(
    connections: Connections,
    keys: Keys,
    to: int | None = None,
    *,
    expected: int | None = None,
    by: str = "",
    change: GuardChange | None = None,
) -> int:
    """Put an earlier version in force again, as a new version. Default: the version before the current one.

    `expected` is the current version that the caller saw, and `change` as for `apply`; raises SetMoved if `expected` is not
    the current one any more.
    """
    now = await current_version(connections, keys) if expected is None else expected
    target = now - 1 if to is None else to
    if target < 1:
        raise NotFound(f"there is no version before {now} to roll back to")
    document = await _document(connections, keys, target)
    return await _put(connections, keys, document, from_document(document), f"rollback to {target}", now, by, change)


async def history(connections: Connections, keys: Keys, most: int = 50) -> list[SetChange]:
    """The changes of the published set, newest first."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("XREVRANGE", keys("hookset", "log"), "+", "-", "COUNT", most)])
    changes = []
    for entry, fields in checked(reply, "reading the history"):
        row = {name.decode(): value.decode("utf-8", "replace") for name, value in flat(fields).items()}
        changes.append(
            SetChange(
                version=int(row["version"]),
                ms=int(entry.partition(b"-")[0]),
                by=row.get("by", ""),
                message=row.get("message", ""),
                digest=row.get("digest", ""),
                hooks=int(row.get("hooks", 0)),
                endpoints=int(row.get("endpoints", 0)),
            )
        )
    return changes


def diff(before: HookFile, after: HookFile, names: tuple[str, str] = ("in force", "new")) -> str:
    """A unified diff of two sets for people; empty if the sets are the same."""
    left, right = (_readable(file).splitlines(keepends=True) for file in (before, after))
    return "".join(difflib.unified_diff(left, right, *names))


def _readable(file: HookFile) -> str:
    document = to_document(file)
    for entry in (*document.get("hooks", ()), *document.get("endpoints", ())):
        entry.pop("origin", None)  # a hook that moved in its file is not a difference
        entry.pop("position", None)
    _change_secrets(document, fingerprint)
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _change_secrets(document: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Change every secret in `document`, in place; returns it."""
    for entry in (*document.get("hooks", ()), *document.get("endpoints", ())):
        http = entry.get("http") or {}
        for holder in (entry, *entry.get("old_secrets", ()), http, *http.get("old_secrets", ())):
            if holder.get("secret"):
                holder["secret"] = change(holder["secret"])
    return document


async def _document(connections: Connections, keys: Keys, version: int) -> dict[str, Any]:
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("GET", keys("hookset", str(version)))])
    raw = checked(reply, f"reading version {version}")
    if raw is None:
        raise NotFound(f"version {version} of the hook set does not exist; see `fleethook hooks history`")
    try:
        document = read_json(raw, limit=MOST_BYTES)
    except DecodeError as error:
        raise FleethookError(f"version {version} of the hook set is not readable: {error}") from error
    if not isinstance(document, dict):
        raise FleethookError(f"version {version} of the hook set is not readable")
    return document


async def _put(
    connections: Connections,
    keys: Keys,
    document: dict[str, Any],
    file: HookFile,
    message: str,
    expected: int | None,
    by: str,
    change: GuardChange | None,
) -> int:
    text = json.dumps(document, separators=(",", ":"))
    if len(text) > MOST_BYTES:
        raise ConfigError(f"the set has {len(text)} bytes and is not published; at most {MOST_BYTES} are allowed")
    names = [keys("hookset", "current"), keys("hookset", "log")]
    announced: tuple[str | bytes, ...] = ()
    if change is not None and expected is not None:
        change = msgspec.structs.replace(change, where=f"version {expected + 1}", about=f"version {expected + 1}")
        kind = EventType.GUARD_CHANGED.value
        names += [keys("events"), announced_key(keys, kind, change.about)]
        announced = announcement(kind, event_data(change), host=change.host)
    row = ("by", by or f"{getpass.getuser()}@{host_name()}", "message", redact_text(message), "digest", file.digest)
    log = (*row, "hooks", len(file.hooks), "endpoints", len(file.endpoints))
    seen = "" if expected is None else expected
    args = (keys("hookset", ""), text, seen, KEPT_VERSIONS, KEPT_LOG, DONE_MS, len(log), *log, *announced)
    word, version = await call(connections, "apply", names, args)
    if word != b"ok":
        raise SetMoved(
            f"version {int(version)} was published meanwhile; look at `fleethook hooks diff` and apply again"
        )
    if announced and change is not None:
        with suppress(Unreachable):  # the version is published and announced; only `status` does not list the change
            await list_change(connections, keys, change)
    return int(version)
