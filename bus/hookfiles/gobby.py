"""Reads Gobby's `hook_extensions`: webhooks become endpoints and blocking hooks; `plugins` is kept.

A gateway reads what is kept of `websocket` (`workers/gateway/gobby/config.py`); `bus/hooksets/plugin_hooks.py` reads `plugins`.

The format is that of Gobby's plan for hook extensions and of its later configuration module (both public). The two differ in
the default of `enabled` for all webhooks; the plan's default is used (G-06, G-23).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from bus.agents.gobby import ALIASES, EVENTS, event_types
from bus.config.documents import Document, PathParts, Plain, load
from bus.config.hook_file_value import HookFile, bad_headers
from bus.config.validation import convert, nearest
from bus.errors import ConfigError, DecodeError, TargetRefused
from bus.events import Event, EventType
from bus.hookfiles.command_results import failure, output
from bus.hookfiles.gobby_variables import expanded_section, variables_in
from bus.hookfiles.gobby_workflows import FOLDER, is_workflow, read_workflows
from bus.hooks import DEFAULT_TIMEOUT, Endpoint, Hook, HttpCall, Layer
from bus.http.address_policy import parse_target
from bus.lazy.conversions import converted
from bus.lazy.regex import lazy_regex
from bus.outcomes import Outcome
from bus.system.processes import Finished
from bus.tools import input_for, tool_for
from bus.verdicts import Decision, Verdict
from bus.wire.codec import read_json, write_json

NAME: Final = "gobby"
CONFIGS: Final = ("config.yaml", "config.yml")
"""Gobby's configuration in its folder."""

_KEY: Final = "hook_extensions"
_SLUG: Final = lazy_regex(r"[^a-z0-9]+")
_NAMES: Final[Mapping[str, str]] = {str(type_): name for name, types in EVENTS.items() for type_ in types}

_Seconds = Annotated[float, Meta(gt=0, le=600)]


class _Socket(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    broadcast_events: list[str] = msgspec.field(
        default_factory=lambda: ["session_start", "session_end", "before_tool", "after_tool"]
    )
    include_payload: bool = True


class _Plugins(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False
    plugin_dirs: list[str] = msgspec.field(default_factory=lambda: ["~/.gobby/plugins", ".gobby/plugins"])
    auto_discover: bool = True
    plugins: dict[str, Any] = msgspec.field(default_factory=dict)


class _Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False
    endpoints: list[Any] = msgspec.field(default_factory=list)
    default_timeout: _Seconds | None = None
    timeout: _Seconds | None = None
    """`default_timeout` in Gobby's own guide."""
    async_dispatch: bool = True
    log_deliveries: bool = False


class _Webhook(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    name: str = ""
    events: list[str] = msgspec.field(default_factory=list)
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    timeout: _Seconds | None = None
    retry_count: Annotated[int, Meta(ge=0, le=20)] = 3
    retry_delay: Annotated[float, Meta(gt=0, le=600)] = 1.0
    can_block: bool = False
    fail_closed: bool = False
    enabled: bool = True


def event_name(event: Event) -> str:
    """Gobby's name of an event."""
    return _NAMES.get(event.type, event.type.replace(":", "_"))


class _GobbyReader:
    """Reads one document, and collects its problems."""

    def __init__(self, document: Document, layer: Layer) -> None:
        self.document, self.layer = document, layer
        self.problems: list[ConfigError] = []
        self.warnings: list[str] = list(document.warnings)
        self.hooks: list[Hook] = []
        self.endpoints: list[Endpoint] = []
        self.sections: dict[str, Any] = {}

    def read(self, value: dict[str, Plain]) -> HookFile:
        parts = value.get(_KEY)
        parts = {} if parts is None else parts
        if self.layer != "project":  # a project's file does not read the person's environment
            parts = expanded_section(parts, os.environ)
        if not isinstance(parts, dict):
            raise self.document.error((_KEY,), f"{_KEY} has to be a mapping with websocket, webhooks, plugins")
        for name in parts:
            if name not in {"websocket", "webhooks", "plugins"}:
                self.warn((_KEY, name), f"{_KEY}.{name} is not known and ignored")
        self.section(parts, "websocket", _Socket, "")
        self.section(parts, "plugins", _Plugins, "")
        webhooks = self.part((_KEY, "webhooks"), parts.get("webhooks") or {}, _Webhooks)
        if webhooks is not None:
            self.webhooks(webhooks, "webhooks" in parts)
        return HookFile(
            tuple(self.hooks),
            tuple(self.endpoints),
            problems=tuple(self.problems),
            warnings=tuple(self.warnings),
            sections=self.sections,
        ).with_digest()

    def section(self, parts: Mapping[str, Plain], name: str, kind: type[Any], why: str) -> None:
        """Keep a section with its defaults; `why` warns about one that is switched on and does nothing."""
        if name not in parts:
            return
        found = self.part((_KEY, name), parts[name] or {}, kind)
        if found is not None:
            self.sections[name] = {**msgspec.to_builtins(found), **(parts[name] or {})}
            if found.enabled and why:
                self.warn((_KEY, name), why)

    def webhooks(self, settings: _Webhooks, written: bool) -> None:
        if not settings.enabled:
            if written and settings.endpoints:
                count = len(settings.endpoints)
                self.warn(
                    (_KEY, "webhooks"), f"webhooks are switched off (`enabled: true` is missing): {count} not used"
                )
            return
        for number, raw in enumerate(settings.endpoints):
            path = (_KEY, "webhooks", "endpoints", number)
            before = len(self.problems)
            entry = self.part(path, raw, _Webhook)
            if entry is None:
                continue
            self.check_url(path, entry.url)
            for message in bad_headers(entry.headers):
                self.report((*path, "headers"), message)
            on = self.patterns(path, entry.events)
            if len(self.problems) == before and on:
                self.take(path, number, entry, on, settings)

    def take(self, path: PathParts, number: int, entry: _Webhook, on: tuple[str, ...], settings: _Webhooks) -> None:
        name = _SLUG.sub("-", entry.name.lower()).strip("-")[:60].strip("-")
        if not name:
            host = _SLUG.sub("-", parse_target(entry.url).host).strip("-")[:40].strip("-")
            name = f"gobby-{host}-{number + 1}"
        origin = f"{self.document.file}:{self.document.place(path)[0]}"
        timeout = entry.timeout or settings.default_timeout or settings.timeout or DEFAULT_TIMEOUT
        own = {"log_deliveries": settings.log_deliveries}
        retry = tuple(entry.retry_delay * 2**n for n in range(entry.retry_count))
        if not entry.can_block:
            self.endpoints.append(
                Endpoint(
                    id=name,
                    url=entry.url,
                    events=on,
                    headers=entry.headers,
                    timeout=timeout,
                    retry=retry,
                    enabled=entry.enabled,
                    dialect=NAME,
                    own=own,
                    layer=self.layer,
                    origin=origin,
                )
            )
            return
        self.hooks.append(
            Hook(
                id=name,
                on=on,
                http=HttpCall(url=entry.url, headers=entry.headers),
                timeout=timeout,
                retry=retry,
                on_failure="deny" if entry.fail_closed else None,
                enabled=entry.enabled,
                dialect=NAME,
                own=own,
                layer=self.layer,
                position=len(self.hooks),
                origin=origin,
            )
        )

    def patterns(self, path: PathParts, names: list[str]) -> tuple[str, ...]:
        """The patterns of an endpoint's events; of all events if it names none. Reports names that do not exist."""
        found: list[str] = [] if names else ["*"]
        for number, name in enumerate(names):
            types = ("*",) if name == "*" else event_types(name)
            if not types:
                near = nearest(name.replace("-", "_").lower(), [*EVENTS, *ALIASES])
                hint = f'did you mean "{near}"?' if near else "known: " + ", ".join(EVENTS)
                self.report((*path, "events", number), f"Gobby has no event {name[:64]!r}", hint=hint)
            found += types
        return tuple(dict.fromkeys(found))

    def check_url(self, path: PathParts, url: str) -> None:
        if "${" in url:
            if self.layer == "project":
                message, hint = "a URL in a project's file cannot have a variable", "write the address"
            else:
                name = next(variables_in(url), "")
                message = f"the URL needs the variable {name}, which is not set here"
                hint = f"set it where `fleethook up` starts, or write a default: ${{{name}:-…}}"
            self.report((*path, "url"), message, hint=hint)
            return
        try:
            parse_target(url)
        except TargetRefused as error:
            self.report((*path, "url"), error.reason)

    def part(self, path: PathParts, raw: Plain, kind: type[Any]) -> Any:
        """The value as a `kind`. Unknown keys may be from another version: they are reported and ignored."""
        known = raw
        if isinstance(raw, dict):
            known = {key: value for key, value in raw.items() if key in kind.__struct_fields__}
            for key in raw.keys() - known.keys():
                self.warn((*path, key), f"the key {key[:64]!r} is not known and ignored")
        found, problems = convert(self.document, path, known, kind)
        self.problems.extend(problems)
        return found

    def report(self, path: PathParts, message: str, *, hint: str = "") -> None:
        self.problems.append(self.document.error(path, message, hint=hint))

    def warn(self, path: PathParts, message: str) -> None:
        self.warnings.append(str(self.document.error(path, message, key=True)))


class _PolicyReply(msgspec.Struct, frozen=True):
    """A policy server's answer; other fields are ignored."""

    decision: str | None = None
    reason: str | None = None
    context: str | None = None
    modified_input: dict[str, Any] | None = None


_DECISIONS: Final[Mapping[str, Decision]] = {
    "allow": "abstain",
    "approve": "abstain",
    "continue": "abstain",
    "modify": "abstain",
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
}
"""Decisions by Gobby's words. Its `allow` is abstain here: it does not skip the agent's permission question."""


class _Gobby:
    """Webhooks and workflows in Gobby's form; it has no commands."""

    name = NAME
    policy: Final = "allow"
    one_stream: Final = False

    def read(self, path: Path, layer: Layer) -> HookFile:
        """The webhooks of a config.yaml, whose other keys are only for Gobby; a workflow, or a folder of workflows.

        A folder may have both: a config.yaml, and workflows below `workflows/`.
        """
        if path.is_dir():
            return self._read_folder(path, layer)
        document = load(path)
        if is_workflow(document.value):
            return read_workflows(path, layer)
        value = {} if document.value is None else document.value
        if not isinstance(value, dict):
            raise document.error((), f"Gobby's configuration is a mapping with {_KEY}")
        return _GobbyReader(document, layer).read(value)

    def _read_folder(self, path: Path, layer: Layer) -> HookFile:
        config = next((path / name for name in CONFIGS if (path / name).is_file()), None)
        below = path / FOLDER if (path / FOLDER).is_dir() else path
        workflows = read_workflows(below, layer)
        if config is None:
            return workflows
        file = self.read(config, layer)
        hooks = (*file.hooks, *workflows.hooks)
        return replace(
            file,
            hooks=tuple(msgspec.structs.replace(hook, position=number) for number, hook in enumerate(hooks)),
            problems=(*file.problems, *workflows.problems),
            warnings=(*file.warnings, *workflows.warnings),
            sources=(*file.sources, *workflows.sources),
        ).with_digest()

    def applies(self, hook: Hook, event: Event) -> bool:  # noqa: ARG002 - the protocol's arguments
        """Always true: the patterns have all conditions."""
        return True

    def variables(self, hook: Hook, event: Event) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's arguments
        """None."""
        return {}

    def stdin(self, hook: Hook, event: Event) -> bytes:  # noqa: ARG002 - the protocol's arguments
        """The body that a webhook gets."""
        return self.http_body(event, None)

    def outcome(self, hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:  # noqa: ARG002 - as above
        """No decision; an exit that is not 0 is a failure."""
        return Outcome(failure=failure(hook, done, seconds), exit_code=done.exit_code, output=output(done))

    def http_body(self, event: Event, verdict: Verdict | None, hook: Hook | None = None) -> bytes:  # noqa: ARG002 - the protocol's arguments
        """Event, timestamp, session_id, source, project_id, machine_id and data (G-07); tools have Claude Code's names.

        project_id is the id in the event's data, else the event's folder, because the bus does not know Gobby's project ids.
        """
        moment = datetime.fromtimestamp(event.time / 1000, UTC).isoformat(timespec="milliseconds")
        data: dict[str, Any] = {**event.data, "cwd": event.cwd}
        if event.tool:
            tool = event.native_tool if event.source == "claude" else tool_for("claude", event.tool)
            tool_input = input_for("claude", tool, event.source, event.native_tool, event.input)
            data |= {"tool_name": tool, "tool_input": tool_input}
        if event.output is not None:
            data["tool_output"] = event.output
        name = event_name(event)
        body = {
            "event": name,
            "event_type": name,  # as in Gobby's code, where the plan has `event`
            "timestamp": moment.replace("+00:00", "Z"),
            "session_id": event.session,
            "source": event.source,
            "project_id": event.data.get("project_id") or event.cwd or None,
            "machine_id": event.host,
            "cwd": event.cwd or None,
            "task_id": event.data.get("task_id") or None,
            "metadata": {"is_failure": True} if event.type == EventType.TOOL_ERROR else {},
            "data": data,
        }
        if verdict is not None:
            body["response"] = {
                "decision": "allow" if verdict.decision == "abstain" else verdict.decision,
                "reason": verdict.reason,
            }
        return write_json(body)

    def http_headers(self, event: Event) -> Mapping[str, str]:
        """Gobby's name as the sender, and the event's name, by which receivers sort what they get."""
        return {"User-Agent": "Gobby-Webhook/1.0", "X-Gobby-Event": event_name(event)}

    def http_refusal(self, raw: bytes, hook: Hook, event: Event) -> Outcome | None:
        """A deny in a 4xx answer: Gobby reads the decision there too."""
        try:
            found = self.http_answer(raw, hook, event)
        except DecodeError:
            return None
        return found if found.decision == "deny" else None

    def http_answer(self, raw: bytes, hook: Hook, event: Event) -> Outcome:  # noqa: ARG002 - as above
        """`{"decision": "deny", "reason": …}` blocks; `allow` or no decision is abstain (G-08)."""
        value = read_json(raw)
        if not isinstance(value, dict):
            raise DecodeError(f"the answer is a JSON {type(value).__name__}, not an object")
        try:
            reply = converted(value, _PolicyReply)
        except msgspec.ValidationError as error:
            raise DecodeError(f"the answer does not fit: {error}") from error
        decision = _DECISIONS.get((reply.decision or "allow").lower())
        if decision is None:
            raise DecodeError("the answer's decision is not allow, deny or ask")
        reason = (reply.reason or "").strip()
        if not reason and decision != "abstain":
            reason = f"hook {hook.id!r} says {decision} and gives no reason"
        contexts = (reply.context,) if reply.context and reply.context.strip() else ()
        return Outcome(decision=decision, reason=reason, contexts=contexts, updated_input=reply.modified_input)


HOOKS: Final = {NAME: _Gobby()}
