"""Reads fleethook.yaml into hooks, endpoints and guard settings, and reports every mistake with its place (F-11).

A bad entry is left out, and the others are in force. A bad pattern rejects its hook, and never matches everything (F-18).
Only a document that cannot be read at all raises.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.config import hook_file_value
from bus.config.documents import Document, PathParts, Plain, dotted, load, loads
from bus.config.endpoint_entry import EndpointEntry
from bus.config.endpoint_services import URLS, question_hint, service_checks, service_hint
from bus.config.file_types import FileFormat, GuardSettings, HookEntry, Network
from bus.config.hold_members import with_members
from bus.config.hook_file_value import HookFile, Imported, from_document, matcher_checks, rule_checks, to_document
from bus.config.model_part import prompt_problems, read_model, with_prompts
from bus.config.settings import read_section
from bus.config.validation import convert, is_extra, suggestion
from bus.errors import ConfigError, PatternError, TargetRefused
from bus.hooks import Endpoint, Hook, HttpCall, Layer
from bus.hooksets.imports import Gathered, Trail, read_imports, read_one, refused_targets, sources, url_targets
from bus.hooksets.plugins.hooks import read_plugins, with_position
from bus.hooksets.workflows.native import read_workflows
from bus.http.address_policy import never, parse_target
from bus.http.address_policy import policy as address_policy
from bus.http.proxies import MAY_NAME, check_proxy
from bus.pacing import pacing_checks
from bus.verdicts import Policy

__all__ = [
    "HookFile",
    "from_document",
    "guard_packs",
    "load_foreign",
    "load_hook_file",
    "parse_hook_file",
    "read_hook_document",
    "to_document",
]

_SLUG: Final = re.compile(r"[^a-z0-9]+")
_ENV: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


def load_hook_file(path: Path, layer: Layer) -> HookFile:
    """Read a hook file; raises ConfigError only if nothing of it can be read."""
    return _read_file(path, layer, Trail((os.path.realpath(path),)))


def load_foreign(path: Path, layer: Layer, dialect: str | None = None) -> tuple[HookFile, Imported]:
    """Read a file or folder of any dialect as `import:` would; detects the dialect if it is None.

    Raises ConfigError if nothing of it can be read.
    """
    try:
        return read_one(path, layer, _read_file, dialect=dialect)
    except ConfigError as error:
        if error.file:
            raise
        raise ConfigError(error.message, file=str(path), hint=error.hint) from error


def _read_file(path: Path, layer: Layer, trail: Trail) -> HookFile:
    return read_hook_document(load(path), layer, trail)


def parse_hook_file(text: str, layer: Layer, *, file: str = "fleethook.yaml") -> HookFile:
    """Read the text of a hook file; raises ConfigError only if nothing of it can be read."""
    return read_hook_document(loads(text, file=file), layer)


def read_hook_document(document: Document, layer: Layer, trail: Trail | None = None) -> HookFile:
    """Read a hook file from its document; an empty document is valid. `trail` names the files that imported it."""
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise document.error((), "a hook file is a mapping with hooks, endpoints, guards", hint="begin with `hooks:`")
    version = value.get("version", 1)
    if version is not True and version != 1:
        # A file of an unknown version is not read at all: its fields may mean something else.
        raise document.error(("version",), "version has to be 1", hint="a newer fleethook may read this file")
    return _HookFileReader(document, layer, trail or Trail()).read(value)


class _HookFileReader:
    """Reads the parts of one document, and collects their problems."""

    def __init__(self, document: Document, layer: Layer, trail: Trail) -> None:
        self.document, self.layer, self.trail = document, layer, trail
        self.problems: list[ConfigError] = []
        self.warnings: list[str] = list(document.warnings)
        self.ids: dict[str, int] = {}
        self.on_failure: Policy | None = None
        self.groups: dict[str, list[str]] = {}

    def read(self, value: dict[str, Plain]) -> HookFile:
        parts = self.top(value)
        self.on_failure, self.groups = parts.on_failure, parts.groups
        # Explicit ids first, so that a derived id avoids them and not the other way round.
        for name, entries in (("hooks", parts.hooks), ("endpoints", parts.endpoints)):
            self.take_ids(name, entries)
        hooks = [hook for n, entry in enumerate(parts.hooks) if (hook := self.hook(n, entry)) is not None]
        read = (self.endpoint(number, entry) for number, entry in enumerate(parts.endpoints))
        endpoints = [endpoint for endpoint in read if endpoint is not None]
        guards = {name: made for name, raw in parts.guards.items() if (made := self.guard(name, raw)) is not None}
        allow, proxy = self.network(parts.network)
        self.problems.extend(read_section(self.document, ("settings",), parts.settings)[1])
        found = read_imports(
            self.document,
            parts.imports,
            self.layer,
            _read_file,
            trail=self.trail,
            on_failure=self.on_failure,
            taken=self.ids,
        )
        model, wrong = read_model(self.document, parts.model, self.layer)
        workflows, bad = read_workflows(self.document, parts.workflows, self.layer, self.on_failure, self.ids)
        plugins = read_plugins(self.document, ("plugins",), parts.plugins, self.layer, self.on_failure)
        found.hooks, found.plugins = plugins.without_doubles(self.document, found.hooks, found.plugins)
        allow += tuple(found.network_allow)
        problems = [*self.problems, *wrong, *bad, *found.problems, *plugins.problems]
        problems.sort(key=lambda error: (error.file != self.document.file, error.file, error.line, error.column))
        urls = url_targets((*hooks, *found.hooks), (*endpoints, *found.endpoints), model, self.origin(("model",)))
        refused = refused_targets(urls, address_policy(allow))
        ordered = self.in_order(hooks, found)
        result = HookFile(
            (*ordered, *with_position((*plugins.hooks, *workflows), len(ordered))),
            (*endpoints, *found.endpoints),
            {**found.guards, **guards},
            self.on_failure,
            allow,
            tuple(problems),
            (*self.warnings, *found.warnings, *plugins.warnings, *refused),
            imports=tuple(found.imports),
            sections=found.sections,
            sources=(*sources(found), *plugins.sources.values()),
            network_proxy=proxy,
            plugins=(*found.plugins, *plugins.plugins),
            model=model,
        )
        return result.with_digest()

    def in_order(self, hooks_here: list[Hook], found: Gathered) -> tuple[Hook, ...]:
        """The file's own hooks and the imported ones, in the order of `hooks:` and `import:` in the file."""
        if not found.hooks:
            return tuple(hooks_here)
        first = self.document.place(("import",), key=True) < self.document.place(("hooks",), key=True)
        hooks = [*found.hooks, *hooks_here] if first and hooks_here else [*hooks_here, *found.hooks]
        return tuple(msgspec.structs.replace(hook, position=number) for number, hook in enumerate(hooks))

    def top(self, value: dict[str, Plain]) -> FileFormat:
        """The top level. A part of the wrong type is reported and left empty; the other parts count."""
        kept = dict(value)
        while True:
            parts, problems = convert(self.document, (), kept, FileFormat)
            if parts is not None:
                return parts
            self.problems.extend(problems)
            bad = {problem.path.split(".")[0].split("[")[0] for problem in problems}
            kept = {
                key: item for key, item in kept.items() if key not in bad and key in FileFormat.__struct_encode_fields__
            }

    def take_ids(self, name: str, entries: list[Plain]) -> None:
        for number, entry in enumerate(entries):
            entry_id = entry.get("id") if isinstance(entry, dict) else None
            if not isinstance(entry_id, str):
                continue
            line = self.document.place((name, number, "id"))[0]
            if entry_id in self.ids:
                message = f'the id "{entry_id[:64]}" is taken (line {self.ids[entry_id]})'
                self.report((name, number, "id"), message, hint="ids of hooks and endpoints are unique in a file")
            else:
                self.ids[entry_id] = line

    def is_duplicate(self, path: PathParts, entry_id: str | None) -> bool:
        return entry_id is not None and self.ids.get(entry_id) != self.document.place((*path, "id"))[0]

    def hook(self, number: int, raw: Plain) -> Hook | None:
        path: PathParts = ("hooks", number)
        before = len(self.problems)
        entry = self.entry(path, raw, HookEntry)
        if entry is None:
            return None
        kinds = [kind for kind in ("command", "http", "rule", "prompt", "agent") if getattr(entry, kind) is not None]
        if len(kinds) != 1:
            found = f"it has {' and '.join(kinds)}" if kinds else "it has none"
            self.report(path, f"a hook has exactly one of command, http, rule, prompt and agent; {found}")
        http = HttpCall(url=entry.http) if isinstance(entry.http, str) else entry.http
        if http is not None:
            place = (*path, "http") if isinstance(entry.http, str) else (*path, "http", "url")
            self.url(place, http.url)
            self.headers((*path, "http", "headers"), http.headers)
            self.secret((*path, "http", "secret"), http.secret)
            for position, old in enumerate(http.old_secrets):
                self.secret((*path, "http", "old_secrets", position, "secret"), old.secret)
        self.environment(path, entry)
        if entry.rule is not None and not entry.blocking:
            self.warn((*path, "blocking"), "a rule that is not blocking decides nothing")
        for below, check in rule_checks(entry.rule):
            self.accepts((*path, "rule", *below), check)
        on = self.patterns((*path, "on"), entry.on, entry.tool, entry.when, decides=entry.blocking)
        self.accepts((*path, "hold"), partial(with_members, entry.hold, self.groups))
        fields = {name: getattr(entry, name) for name in HookEntry.__struct_fields__}
        for field, message in prompt_problems(fields):
            self.report((*path, field), message)
        if len(self.problems) > before or self.is_duplicate(path, entry.id):
            return None
        fields |= {
            "id": entry.id or self.derive("hooks", number, entry.description),
            "on": on,
            "http": http,
            "command": entry.command or "",
            "env_pass": tuple(entry.env_pass),
            "retry": tuple(entry.retry),
            "on_failure": entry.on_failure or self.on_failure,
            "hold": with_members(entry.hold, self.groups),
            **dict(with_prompts(fields, raw)),
        }
        return Hook(**fields, layer=self.layer, position=number, origin=self.origin(path))

    def endpoint(self, number: int, raw: Plain) -> Endpoint | None:
        path: PathParts = ("endpoints", number)
        before = len(self.problems)
        entry = self.entry(path, raw, EndpointEntry)
        if entry is None:
            return None
        url = entry.url or URLS.get(entry.format, "")
        if url:
            self.url((*path, "url"), url)
        checks: list[hook_file_value.Check] = [*service_checks(entry), *pacing_checks(entry)]
        for below, check in checks:
            self.accepts((*path, *below), check)
        if hint := service_hint(entry):
            self.warn((*path, "url"), hint)
        for field, text in question_hint(entry):
            self.warn((*path, field), text)
        self.headers((*path, "headers"), entry.headers)
        self.secret((*path, "secret"), entry.secret)
        for position, old in enumerate(entry.old_secrets):
            self.secret((*path, "old_secrets", position, "secret"), old.secret)
        events = self.patterns((*path, "events"), entry.events, entry.tool, entry.when, decides=False)
        fields = {name: getattr(entry, name) for name in EndpointEntry.__struct_fields__}
        if len(self.problems) > before or self.is_duplicate(path, entry.id):
            return None
        fields |= {
            "id": entry.id or self.derive("endpoints", number, entry.description),
            "events": events,
            "retry": entry.retry if isinstance(entry.retry, str) else tuple(entry.retry),
            "url": url,
            "old_secrets": tuple(entry.old_secrets),
            "on_failure": (entry.on_failure or self.on_failure) if entry.can_block else None,
        }
        return Endpoint(**fields, layer=self.layer, origin=self.origin(path))

    def entry(self, path: PathParts, raw: Plain, kind: type[Any]) -> Any:
        entry, problems = convert(self.document, path, raw, kind)
        self.problems.extend(problems)
        return entry

    def guard(self, name: str, raw: Plain) -> GuardSettings | None:
        if is_extra(name):
            return None
        path = ("guards", name)
        packs = guard_packs()
        if packs and name not in packs:
            hint = suggestion(name, packs) or "known packs: " + ", ".join(packs)
            problem = self.document.error(path, f'no guard pack is called "{name[:64]}"', hint=hint, key=True)
            self.problems.append(problem)
            return None
        if isinstance(raw, bool):
            return GuardSettings(enabled=raw)
        if not isinstance(raw, dict):
            self.report(path, f"the guard {name[:64]} has to be true, false or a mapping (enabled, decision, disable)")
            return None
        settings, problems = convert(self.document, path, raw, GuardSettings)
        self.problems.extend(problems)
        if settings is None or not self.accepts((*path, "hold"), partial(with_members, settings.hold, self.groups)):
            return None
        held: GuardSettings = msgspec.structs.replace(settings, hold=with_members(settings.hold, self.groups))
        return held

    def network(self, raw: Plain) -> tuple[tuple[str, ...], str]:
        """The allow list, and the proxy if this layer may name one."""
        if raw is None:
            return (), ""
        network, problems = convert(self.document, ("network",), raw, Network)
        self.problems.extend(problems)
        allowed = []
        for number, text in enumerate(network.allow if network is not None else ()):
            if self.accepts(("network", "allow", number), partial(address_policy, (text,))):
                allowed.append(text)
        return tuple(allowed), self.proxy((network.proxy or "") if network is not None else "")

    def proxy(self, url: str) -> str:
        path = ("network", "proxy")
        if url and self.layer not in MAY_NAME:
            hint = "name it in your own file or in the fleet's set"
            self.report(path, f"a {self.layer}'s file may not name the proxy that webhooks go through", hint=hint)
            return ""
        return url if self.accepts(path, partial(check_proxy, url)) else ""

    def patterns(self, path: PathParts, on: str | list[str], tool: str, when: str, *, decides: bool) -> tuple[str, ...]:
        """The event patterns one by one. Reports each matcher of the entry that cannot be compiled."""
        texts = [on] if isinstance(on, str) else on
        split = tuple(part.strip() for text in texts for part in text.split(","))
        for below, check in matcher_checks(split, tool, when, decides=decides):
            self.accepts((*path[:-1], *below) if below else path, check)
        return split

    def accepts(self, path: PathParts, check: Callable[[], object]) -> bool:
        """Whether a check passes; if it raises ConfigError, the error is reported at this place."""
        try:
            check()
        except TargetRefused as error:
            self.report(path, error.reason)
        except ConfigError as error:
            kind = PatternError if isinstance(error, PatternError) else ConfigError
            line, column = self.document.place(path)
            self.problems.append(
                kind(
                    error.message, file=self.document.file, line=line, column=column, path=dotted(path), hint=error.hint
                )
            )
        else:
            return True
        return False

    def url(self, path: PathParts, url: str) -> None:
        if self.accepts(path, partial(parse_target, url)) and (why := never(parse_target(url))):
            self.report(path, why)

    def headers(self, path: PathParts, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            for message in hook_file_value.bad_headers({name: value}):
                self.report((*path, name), message)

    def environment(self, path: PathParts, entry: HookEntry) -> None:
        for name, value in entry.env.items():
            if not _ENV.match(name):
                self.report((*path, "env", name), f"{name[:64]!r} is no name of an environment variable")
            elif "\x00" in value:
                self.report((*path, "env", name), f"the variable {name} holds a NUL")
        for name, text in (("command", entry.command), ("working_dir", entry.working_dir)):
            if "\x00" in (text or ""):
                self.report((*path, name), f"{name} holds a NUL")

    def secret(self, path: PathParts, secret: str) -> None:
        """Report a secret that is not valid, and warn of one that is written in the file; no message quotes it."""
        kind, _, rest = secret.partition(":")
        if not secret or (kind == "file" and rest) or (kind == "env" and _ENV.match(rest)):
            return
        if secret.startswith("whsec_"):
            try:
                length = len(base64.b64decode(secret.removeprefix("whsec_"), validate=True))
            except (binascii.Error, ValueError):
                length = 0
            if 24 <= length <= 64:
                self.warn(path, "the secret is written in the file; write env:NAME or file:PATH to keep it elsewhere")
            else:
                self.report(path, "the secret is not whsec_ and 24 to 64 bytes in base64")
            return
        self.report(path, "a secret is written env:NAME, file:PATH or whsec_…")

    def derive(self, name: str, number: int, description: str) -> str:
        """An id for an entry without one, of its description or the file's name; unlike those of other layers' files."""
        stem = _SLUG.sub("-", description.lower()).strip("-")[:40].strip("-")
        stem = stem or _SLUG.sub("-", Path(self.document.file).stem.lower()).strip("-")[:40] or "hook"
        stem = stem if name == "hooks" else f"{stem}-endpoint"
        derived = f"{stem}-{number + 1}" if self.layer == "fleet" else f"{self.layer}-{stem}-{number + 1}"
        while derived in self.ids:
            derived += "x"
        self.ids[derived] = 0
        return derived

    def origin(self, path: PathParts) -> str:
        return f"{self.document.file}:{self.document.place(path)[0]}"

    def report(self, path: PathParts, message: str, *, hint: str = "") -> None:
        self.problems.append(self.document.error(path, message, hint=hint))

    def warn(self, path: PathParts, message: str) -> None:
        self.warnings.append(str(self.document.error(path, message)))


def guard_packs() -> tuple[str, ...]:
    """The names of the guard packs that this version ships."""
    folder = Path(__file__).parent / "guards"
    return tuple(sorted({path.name.partition(".")[0] for path in folder.glob("*.yaml")}))
