"""Adds, changes and removes endpoints in the text of a fleethook.yaml or in the published set.

The functions return the new text or set, already validated, and write nothing; only `keep_secret` writes a file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import inspect

from bus.config.documents import loads, read_file
from bus.config.edit_add import flow, with_entry
from bus.config.edit_change import with_values, without_entry
from bus.config.endpoint_entry import EndpointEntry
from bus.errors import ConfigError, NotFound
from bus.hooks import NATIVE, Endpoint, OldSecret
from bus.hooksets.hookfile import HookFile, parse_hook_file
from bus.lazy.conversions import converted
from bus.secrets.sealing import PREFIX

Entry = dict[str, Any]
Change = Callable[[Entry], Entry]

LONGEST_OVERLAP: Final = 7 * 86_400.0
"""The longest time (seconds) for which webhooks may be signed with the old secret as well as the new one."""

_FIELDS: Final = {each.encode_name: each for each in msgspec.structs.fields(EndpointEntry)}
_SLUG: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Edited:
    """The text of a file before and after an edit, and the parsed text after it."""

    file: Path
    before: str
    after: str
    read: HookFile


def assigned(pairs: Iterable[str]) -> Entry:
    """The values of `FIELD=VALUE` pairs: fields of text take the text as it is, others read it as YAML; `FIELD=` is None.

    `headers.NAME=VALUE` sets one header. Raises ValueError for a pair without `=`; the command line checks that before.
    """
    values: Entry = {}
    for pair in pairs:
        name, text = pair.split("=", 1)
        plain = name.startswith("headers.") or (
            name in _FIELDS and _is_text(_FIELDS[name].type) and text[:1] not in "[{"
        )
        values[name] = None if not text else text if plain else loads(text, file=f"{name}=").value
    return values


def applied(entry: Entry, values: Entry) -> Entry:
    """An entry with some values changed; None removes a value."""
    inner = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
    values = {name: value for name, value in values.items() if "." not in name}
    if inner:
        values["headers"] = applied(entry.get("headers") or {}, inner) or None
    return {name: value for name, value in {**entry, **values}.items() if value is not None or name not in values}


def derived_id(url: str, taken: Iterable[str]) -> str:
    """An id for a new endpoint: its host, followed by a number if that id is taken."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # the check of the URL reports what is wrong
        host = ""
    stem = _SLUG.sub("-", host.lower().removeprefix("www.")).strip("-")[:50].strip("-") or "endpoint"
    known, number, name = set(taken), 1, stem
    while name in known:
        number += 1
        name = f"{stem}-{number}"
    return name


def ids_in(path: Path) -> frozenset[str]:
    """The ids of a file's hooks and endpoints."""
    if not path.exists():
        return frozenset()
    return ids_of(parse_hook_file(read_file(path), "user", file=str(path)))


def ids_of(file: HookFile) -> frozenset[str]:
    """The ids of all hooks and endpoints of a parsed hook file or set."""
    return frozenset(hook.id for hook in file.hooks) | {endpoint.id for endpoint in file.endpoints}


def file_with(path: Path, entry: Entry, allow: str = "") -> Edited:
    """The edit that adds an endpoint to a file, and `allow` to its allow list unless that is empty."""
    before = read_file(path) if path.exists() else ""
    lines = [f"{name}: {flow(value)}" for name, value in entry.items()]
    after = with_entry(before, str(path), "endpoints", entry, "- " + "\n  ".join(lines))
    return _edited(path, before, opened(after, str(path), allow), len(_entries(after, path)) - 1)


def opened(text: str, file: str, allow: str) -> str:
    """The text of a hook file with one more entry in `network.allow`."""
    if not allow:
        return text
    value = loads(text, file=file).value or {}
    network = value.get("network")
    if network is None and "network" not in value:
        if text.lstrip().startswith("{"):
            return with_values(text, file, (), {**value, "network": {"allow": [allow]}})
        return text + ("" if text.endswith("\n") else "\n") + f"\nnetwork:\n  allow: [{json.dumps(allow)}]\n"
    if not isinstance(network, dict):
        raise ConfigError(
            "network is not a mapping", file=file, path="network", hint="correct it first; nothing was changed"
        )
    listed = network.get("allow") or []
    return (
        with_values(text, file, ("network",), {**network, "allow": [*listed, allow]}) if allow not in listed else text
    )


def file_changed(path: Path, name: str, change: Change) -> Edited:
    """The edit that changes one endpoint of a file; raises NotFound if it has no endpoint of that name."""
    before = read_file(path)
    number = _number(path, before, name)
    entry = _entries(before, path)[number]
    if not isinstance(entry, dict):
        raise ConfigError(
            f"endpoints[{number}] is not a mapping", file=str(path), hint="correct it first; nothing was changed"
        )
    return _edited(path, before, with_values(before, str(path), ("endpoints", number), change(entry)), number)


def file_without(path: Path, name: str) -> Edited:
    """The edit that removes one endpoint of a file; raises NotFound if it has no endpoint of that name."""
    before = read_file(path)
    return _edited(path, before, without_entry(before, str(path), "endpoints", _number(path, before, name)), None)


def set_with(file: HookFile, entry: Entry, allow: str = "") -> HookFile:
    """The published set with one more endpoint."""
    new = _read(entry, ids_of(file))
    network = (*file.network_allow, allow) if allow and allow not in file.network_allow else file.network_allow
    return replace(file, endpoints=(*file.endpoints, new), network_allow=network).with_digest()


def set_changed(file: HookFile, name: str, change: Change) -> HookFile:
    """The published set with one endpoint changed; its sealed secrets stay sealed."""
    old = _published(file, name)
    if old.dialect != NATIVE:
        raise ConfigError(
            f"endpoint {name!r} came from a file of {old.dialect}",
            hint=f"change it there ({old.origin}), and apply it again",
        )
    changed = change(_as_entry(old))
    hidden = {key: changed.pop(key) for key in ("secret", "old_secrets", "routing_key") if _sealed(changed.get(key))}
    new = msgspec.structs.replace(_read(changed, ids_of(file) - {name}), layer=old.layer, origin=old.origin)
    if "old_secrets" in hidden:
        hidden["old_secrets"] = converted(hidden["old_secrets"], tuple[OldSecret, ...])
    new = msgspec.structs.replace(new, **hidden)
    return replace(
        file, endpoints=tuple(new if endpoint is old else endpoint for endpoint in file.endpoints)
    ).with_digest()


def set_without(file: HookFile, name: str) -> HookFile:
    """The published set with one endpoint removed."""
    old = _published(file, name)
    return replace(file, endpoints=tuple(endpoint for endpoint in file.endpoints if endpoint is not old)).with_digest()


def rotated(entry: Entry, secret: str, overlap: float, now: datetime) -> Entry:
    """An entry with a new secret; for `overlap` seconds webhooks are signed with the old secret too.

    With an overlap of 0 the old secrets are removed at once; use that for a leaked secret.
    """
    if not 0 <= overlap <= LONGEST_OVERLAP:
        raise ConfigError("an overlap is between 0 and 7 days", hint="24 hours are usual")
    olds = entry.get("old_secrets") or [] if overlap else []
    kept = [old_secret for old_secret in olds if datetime.fromisoformat(old_secret["until"]) > now]
    if overlap and entry.get("secret"):
        until = (now.astimezone(UTC) + timedelta(seconds=overlap)).strftime("%Y-%m-%dT%H:%M:%SZ")
        kept = [{"secret": entry["secret"], "until": until}, *kept]
    return applied(entry, {"secret": secret, "old_secrets": kept or None})


def secret_file(folder: Path, name: str) -> Path:
    """The path for a new secret of an endpoint; no file has that name yet."""
    number, path = 1, folder / "secrets" / f"{name}.key"
    while path.exists():
        number += 1
        path = path.with_name(f"{name}-{number}.key")
    return path


def keep_secret(path: Path, secret: str) -> None:
    """Write a secret into a new file that only this user can read; raises ConfigError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(f"{secret}\n")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", file=str(path)) from error


def _is_text(kind: Any) -> bool:
    """Whether a field's type allows any text."""
    info = inspect.type_info(kind)
    while isinstance(info, inspect.Metadata):
        info = info.type
    parts = info.types if isinstance(info, inspect.UnionType) else (info,)
    return any(isinstance(part, inspect.StrType) for part in parts)


def _edited(path: Path, before: str, after: str, number: int | None) -> Edited:
    """The edit if the edited entry is valid, else its ConfigError; errors in other parts of the file do not matter."""
    read = parse_hook_file(after, "user", file=str(path))
    edited_parts = ("network", *((f"endpoints[{number}]",) if number is not None else ()))
    for problem in read.problems:
        if problem.file == str(path) and re.split(r"(?<=\])\.|\.", problem.path)[0] in edited_parts:
            # Its line number is of the new text, which is not written. It is shown only if the old text has the same problem.
            known = parse_hook_file(before, "user", file=str(path)).problems if before else ()
            if any(
                (known_problem.path, known_problem.message) == (problem.path, problem.message)
                for known_problem in known
            ):
                raise problem
            raise type(problem)(problem.message, path=problem.path, hint=problem.hint)
    return Edited(path, before, after, read)


def _entries(text: str, path: Path) -> list[Any]:
    value = loads(text, file=str(path)).value
    found = value.get("endpoints") if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _number(path: Path, text: str, name: str) -> int:
    """The index of an endpoint in its file's list, also if the entry has no `id` or is not valid."""
    entries = _entries(text, path)
    for number, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("id") == name:
            return number
    document = loads(text, file=str(path))
    read = parse_hook_file(text, "user", file=str(path))
    origin = next((endpoint.origin for endpoint in read.endpoints if endpoint.id == name), "")
    for number, entry in enumerate(entries):
        named = isinstance(entry, dict) and "id" in entry
        if not named and origin == f"{path}:{document.place(('endpoints', number))[0]}":
            return number
    if origin:
        raise NotFound(f"endpoint {name!r} comes from {origin}, which {path} imports; change it there")
    raise NotFound(f"{path} has no endpoint {name!r}; see `fleethook webhooks list`")


def _read(entry: Mapping[str, Any], taken: Iterable[str]) -> Endpoint:
    """One endpoint for the published set."""
    read = parse_hook_file(json.dumps({"endpoints": [entry]}), "fleet", file="published.json")
    if read.problems:
        first = read.problems[0]
        raise ConfigError(first.message, path=first.path, hint=first.hint)
    (endpoint,) = read.endpoints
    if endpoint.id in set(taken):
        raise ConfigError(f"the published set has an entry {endpoint.id!r} already", hint="choose another --id")
    return endpoint


def _published(file: HookFile, name: str) -> Endpoint:
    for endpoint in file.endpoints:
        if endpoint.id == name:
            return endpoint
    raise NotFound(f"the published set has no endpoint {name!r}; see `fleethook webhooks list`")


def _as_entry(endpoint: Endpoint) -> Entry:
    plain = msgspec.to_builtins(endpoint)
    return {name: _listed(plain[name]) for name in _FIELDS if name in plain}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _sealed(value: Any) -> bool:
    if isinstance(value, list):
        return any(_sealed(item.get("secret")) for item in value if isinstance(item, dict))
    return isinstance(value, str) and value.startswith(PREFIX)
