"""The valid content of a hook file, as a value and as the plain data that is published in Redis."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import msgspec

from bus.config.documents import Source
from bus.config.endpoint_services import service_checks
from bus.config.field_types import ID_PATTERN
from bus.config.file_types import GuardSettings
from bus.config.model_entry import OWN_KEY, ModelEntry
from bus.config.validation import explain
from bus.errors import ConfigError, PatternError, TargetRefused
from bus.hooks import HOOK_DIALECTS, Endpoint, Hook, Layer, Plugin
from bus.http.address_policy import parse_target
from bus.http.address_policy import policy as address_policy
from bus.http.proxies import check_proxy
from bus.lazy.conversions import converted
from bus.lazy.regex import lazy_regex
from bus.matching.conditions import compile_condition
from bus.matching.patterns import check_pattern, check_tool
from bus.matching.rule_fields import Rule
from bus.matching.rules import check_rule
from bus.pacing import pacing_checks
from bus.verdicts import Policy

Check = tuple[tuple[str, ...], Callable[[], object]]
"""A path below an entry, and a function that raises where the value there is not valid."""

_PUBLISHED: Final = "published hook set"
_HEADER: Final = lazy_regex(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}\Z")
_CONTROL: Final = lazy_regex(r"[\x00-\x1f\x7f]")


def matcher_checks(on: Iterable[str], tool: str, when: str, *, decides: bool = True) -> Iterator[Check]:
    """One check each for the event patterns (their path is empty), the tool matcher and the condition.

    Only the condition of a hook that `decides` may read facts of the session.
    """
    for text in on:
        yield (), partial(check_pattern, text)
    if tool:
        yield ("tool",), partial(check_tool, tool)
    if when:
        yield ("when",), partial(_check_condition, when, decides=decides)


def _check_condition(when: str, *, decides: bool) -> None:
    if compile_condition(when).uses_session and not decides:
        raise PatternError(
            f"bad condition {when!r}: only a blocking hook reads facts of the session",
            hint="endpoints and background hooks read event.… and verdict.…",
        )


def rule_checks(rule: Rule | None) -> Iterator[Check]:
    """One check for each condition of a rule, so that the error can name the wrong one."""
    for name in Rule.__struct_fields__ if rule is not None else ():
        yield (name,), partial(check_rule, Rule(**{name: getattr(rule, name)}))
    if rule is not None and rule.limit and (rule.redact or rule.decision in {"allow", "abstain"}):
        yield ("limit",), partial(_refuse_limit, "redact" if rule.redact else rule.decision)


def _refuse_limit(decision: str) -> None:
    raise PatternError(f"a limit is for rules that deny, ask or warn; this rule has {decision}")


def bad_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """One message for each header that HTTP does not allow."""
    for name, value in headers.items():
        if not _HEADER.match(name) or _CONTROL.search(value):
            yield f"the header {name[:64]!r} has characters that HTTP does not allow"


@dataclass(frozen=True, slots=True)
class Imported:
    """One entry of `import:`: its file or folder, its dialect, and the ids of the hooks and endpoints read from it."""

    path: str
    """Absolute."""
    origin: str
    """`file:line` of the entry."""
    dialect: str = ""
    """Empty where it was not read or its dialect is unknown."""
    guessed: bool = False
    enabled: bool = True
    broken: bool = False
    """The file exists and cannot be read."""
    hooks: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    sections: Mapping[str, Any] = field(default_factory=dict)
    servers: str = ""
    """The accepted content of a plugin whose MCP servers may be started: the digest of its folder."""
    env_pass: tuple[str, ...] = ()
    """Variables that these servers get."""


@dataclass(frozen=True, slots=True)
class HookFile:
    """The valid content of one file, and its errors; entries with errors are left out.

    `digest` is the SHA-256 (hex) of the content without line numbers, so comments and moved lines do not change it.
    """

    hooks: tuple[Hook, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    guards: Mapping[str, GuardSettings] = field(default_factory=dict)
    on_failure: Policy | None = None
    network_allow: tuple[str, ...] = ()
    problems: tuple[ConfigError, ...] = ()
    warnings: tuple[str, ...] = ()
    digest: str = ""
    imports: tuple[Imported, ...] = ()
    sections: Mapping[str, Any] = field(default_factory=dict)
    """Parts of another system's file that are kept unchanged and do not run; published with the hooks."""
    network_proxy: str = ""
    plugins: tuple[Plugin, ...] = ()
    """The Python plugins that it enables; their handlers are among `hooks`."""
    model: ModelEntry | None = None
    """The chat endpoint that its prompt and agent hooks ask; None in a layer that may not name one."""
    sources: tuple[Source, ...] = field(default=(), compare=False)
    """Other files that were read for it; they are watched with it, and trust covers them."""

    def with_digest(self) -> HookFile:
        """A copy with its digest set."""
        return replace(self, digest=_digest(self))


class Contents(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a hook file as it is published in Redis."""

    hooks: tuple[Hook, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    guards: dict[str, GuardSettings] = msgspec.field(default_factory=dict)
    on_failure: Policy | None = None
    network_allow: tuple[str, ...] = ()
    network_proxy: str = ""
    plugins: tuple[Plugin, ...] = ()
    model: ModelEntry | None = None
    sections: dict[str, Any] = msgspec.field(default_factory=dict)


def to_document(file: HookFile) -> dict[str, Any]:
    """The content of a hook file as plain data for JSON; `from_document` reads it."""
    plain: dict[str, Any] = msgspec.to_builtins(_contents(file))
    return plain


def from_document(plain: Mapping[str, Any], *, layer: Layer = "fleet") -> HookFile:
    """The hook file in a published set; ConfigError where any part is not valid, so that none of it is in force."""
    found = explain(dict(plain), Contents)
    if found is not None:
        raise ConfigError(found[0], file=_PUBLISHED, hint=found[1])
    contents = converted(dict(plain), Contents)
    _check_published(contents)
    hooks = tuple(msgspec.structs.replace(hook, layer=layer) for hook in contents.hooks)
    endpoints = tuple(msgspec.structs.replace(endpoint, layer=layer) for endpoint in contents.endpoints)
    file = HookFile(
        hooks,
        endpoints,
        contents.guards,
        contents.on_failure,
        contents.network_allow,
        sections=contents.sections,
        network_proxy=contents.network_proxy,
        plugins=contents.plugins,
        model=contents.model,
    )
    return file.with_digest()


def _check_published(contents: Contents) -> None:
    """Check what the types cannot express: ids, kinds, patterns and the allow list. Raises for the first error."""
    seen: set[str] = set()
    entries: tuple[Hook | Endpoint, ...] = (*contents.hooks, *contents.endpoints)
    for entry in entries:
        on = entry.on if isinstance(entry, Hook) else entry.events
        wrong = entry.dialect not in HOOK_DIALECTS or (isinstance(entry, Hook) and _kinds(entry) != 1)
        if wrong or entry.id in seen or not re.fullmatch(ID_PATTERN, entry.id):
            raise ConfigError(f"the entry {entry.id[:64]!r} is not valid", file=_PUBLISHED)
        seen.add(entry.id)
        http = entry.http if isinstance(entry, Hook) else entry
        try:
            if http is not None:
                parse_target(http.url)
            rule = entry.rule if isinstance(entry, Hook) else None
            decides = isinstance(entry, Hook) and entry.blocking
            checks: list[Check] = [*matcher_checks(on, entry.tool, entry.when, decides=decides), *rule_checks(rule)]
            if isinstance(entry, Endpoint):
                checks += [*service_checks(entry), *pacing_checks(entry)]
            for _, check in checks:
                check()
        except TargetRefused as error:
            raise ConfigError(f"{entry.id}: {error.reason}", file=_PUBLISHED) from error
        except PatternError as error:
            raise PatternError(f"{entry.id}: {error.message}", file=_PUBLISHED, hint=error.hint) from error
    address_policy(contents.network_allow)
    check_proxy(contents.network_proxy)
    if contents.model is not None:
        if contents.model.key.startswith(OWN_KEY):
            raise ConfigError("model: a variable of Fleethook itself is not sent as a key", file=_PUBLISHED)
        try:
            parse_target(contents.model.url)
        except TargetRefused as error:
            raise ConfigError(f"model: {error.reason}", file=_PUBLISHED) from error


def _kinds(hook: Hook) -> int:
    others = (hook.http, hook.rule, hook.handler, hook.prompt, hook.agent, hook.workflow)
    return bool(hook.command) + sum(part is not None for part in others)


def _contents(file: HookFile) -> Contents:
    return Contents(
        hooks=file.hooks,
        endpoints=file.endpoints,
        guards=dict(file.guards),
        on_failure=file.on_failure,
        network_allow=file.network_allow,
        network_proxy=file.network_proxy,
        plugins=file.plugins,
        model=file.model,
        sections=dict(file.sections),
    )


def _digest(file: HookFile) -> str:
    """SHA-256 of the content; independent of layer and line numbers."""
    contents = _contents(file)
    bare = msgspec.structs.replace(
        contents,
        hooks=tuple(msgspec.structs.replace(hook, origin="", layer="fleet", version="") for hook in contents.hooks),
        endpoints=tuple(
            msgspec.structs.replace(entry, origin="", layer="fleet", version="") for entry in contents.endpoints
        ),
        plugins=tuple(msgspec.structs.replace(plugin, origin="") for plugin in contents.plugins),
    )
    return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()
