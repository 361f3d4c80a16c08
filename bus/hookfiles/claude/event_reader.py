"""Reads the hooks of one document of Claude Code or ion. Reports the place and the fix of every wrong entry (I-09)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bus.agents.claude import CAPABILITIES, NEVER
from bus.config.documents import Document, PathParts, Plain
from bus.config.hook_file_value import HookFile
from bus.config.validation import is_extra, nearest
from bus.errors import ConfigError, TargetRefused
from bus.hookfiles.claude.format import TIMEOUTS, Group, Handler
from bus.hookfiles.claude.matching import EXACT_ONLY, SUBJECTS, TOOL_EVENTS, compile_matcher, index_tool, patterns
from bus.hookfiles.claude.model_questions import MODEL_TIMEOUTS, model_question
from bus.hookfiles.claude.permission_rules import parse_rule
from bus.hookfiles.claude.plugins import (
    ClaudePlugin,
)
from bus.hookfiles.claude.run_by_claude import folder_read_by_claude
from bus.hookfiles.claude.scripts import (
    SET_HERE,
    Roots,
    filled,
    interpolated,
    script_problems,
    unset_variables,
    url_fits,
)
from bus.hookfiles.common import Reading, foreign_variables
from bus.hooks import Hook, HttpCall, Layer
from bus.http.address_policy import parse_target
from bus.lazy.regex import lazy_regex
from bus.secrets.redaction import is_secret_name, redact_text
from bus.verdicts import Policy

ION: Final = "ion"

_DEFAULT: Final = 600.0
_ION_DEFAULT: Final = 5000.0  # milliseconds (I-04)
_NO_HTTP: Final = frozenset({"SessionStart", "Setup"})
_NOT_RUN_YET: Final[Mapping[str, str]] = {"mcp_tool": "a call of an MCP tool"}
_SHELLS: Final[Mapping[str | None, str]] = {None: "", "bash": "bash", "powershell": "pwsh"}
_POLICIES: Final[Mapping[str | None, Policy | None]] = {None: None, "continue": "allow", "block": "deny"}
_ENV: Final = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_PROBABLY_MILLISECONDS: Final = 1000
"""A timeout of Claude Code from this number on is probably meant in milliseconds."""

_PROBABLY_SECONDS: Final = 100
"""A timeout of ion below this number is probably meant in seconds."""


@dataclass(slots=True)
class _MatchedHandler:
    """A handler with its place and all its matchers: Claude Code runs identical handlers once."""

    handler: Handler
    at: PathParts
    description: str
    matchers: list[str] = field(default_factory=list)


class EventReader(Reading):
    """Reads the events of one document."""

    def __init__(self, document: Document, layer: Layer, dialect: str, plugin: ClaudePlugin | None) -> None:
        super().__init__(document, layer)
        self.dialect, self.plugin = dialect, plugin
        self.roots = Roots.of(
            Path(document.file), plugin.root if plugin else "", plugin.slug if plugin else "", dialect
        )
        self.run_by_claude = (
            folder_read_by_claude(Path(document.file), self.roots.plugin, layer) if dialect != ION else ""
        )
        self.settings: Mapping[str, Plain] = {}
        self.env: dict[str, str] = {}
        self.variables_not_passed: list[str] = []

    def read(self, at: PathParts) -> HookFile:
        """The hooks at `at`: an object of events, or an object whose `hooks` is one."""
        value = self.document.value
        for part in at:
            value = value[part]
        if value is None and not at:
            return self.done()
        if not isinstance(value, dict):
            self.report(at, "hooks has to be an object of events", hint='write {"hooks": {"PreToolUse": [ … ]}}')
            return self.done()
        if "hooks" in value:
            self.settings, at, value = (value if not at else {}), (*at, "hooks"), value["hooks"]
            if value is not None and not isinstance(value, dict):
                self.report(at, "hooks has to be an object of events", hint='write {"PreToolUse": [ … ]}')
                return self.done()
        elif not at and not self.plugin and not any(name in CAPABILITIES for name in value):
            return self.done()  # settings without hooks
        if self.settings.get("disableAllHooks") is True:
            self.warn(("disableAllHooks",), "disableAllHooks is set: none of this file's hooks is in force")
            return self.done()
        self.env = self.settings_env(self.settings.get("env"))
        for name, groups in (value or {}).items():
            if name != "description" and not is_extra(name):
                self.event((*at, name), name, groups)
        if self.variables_not_passed:
            names = ", ".join(f"${name}" for name in dict.fromkeys(self.variables_not_passed))
            hint = 'name what a hook needs beside its command: "env_pass": ["NAME"]'
            self.warn(
                at, f"a hook sees PATH, HOME and the like here, not all of the environment: {names} is empty", hint=hint
            )
        return self.done()

    def settings_env(self, env: Plain) -> dict[str, str]:
        """The environment that the settings' `env` gives the hooks, without values that look like secrets."""
        if env is not None and not isinstance(env, dict):
            self.report(("env",), "env has to be an object of texts")
        found = {}
        for name, value in env.items() if isinstance(env, dict) else ():
            text = value if isinstance(value, str) else json.dumps(value)
            if is_secret_name(name) or redact_text(text) != text:
                self.warn(
                    ("env", name), f"{name} looks like a secret and is not given to the hooks", hint="use env_pass"
                )
            elif _ENV.match(name) and "\x00" not in text and not name.startswith("FLEETHOOK_"):
                found[name] = text
        return found

    def event(self, at: PathParts, name: str, groups: Plain) -> None:
        if name not in CAPABILITIES:
            near = nearest(name, CAPABILITIES)
            if near or not name.isidentifier() or len(name) > 64:
                hint = f'did you mean "{near}"?' if near else "events are written like PreToolUse"
                self.report(at, f"Claude Code has no event {name[:64]!r}", hint=hint, key=True)
                return
            self.warn(
                at, f"no event {name!r} is known here; its hooks run if an agent sends an event of that name", key=True
            )
        if name in NEVER:
            self.warn(
                at,
                f"{name} is not run here: its hook has to make a worktree, and the bus cannot return its path",
                key=True,
            )
            return
        if not isinstance(groups, list):
            self.report(at, f"{name} has to be a list", hint='write [{"matcher": "…", "hooks": [ … ]}]')
            return
        entries: dict[str, _MatchedHandler] = {}
        for number, raw in enumerate(groups):
            self.group((*at, number), name, raw, entries)
        for entry in entries.values():
            hook = self.hook(name, entry)
            if hook is not None:
                self.hooks.append(hook)

    def group(self, at: PathParts, name: str, raw: Plain, entries: dict[str, _MatchedHandler]) -> None:
        if isinstance(raw, dict) and "hooks" not in raw and "type" in raw:
            self.report(
                at,
                "a group of handlers belongs here, and not a handler",
                hint='write {"hooks": [{"type": "command", …}]}',
            )
            return
        group = self.entry(at, raw, Group)
        if group is None:
            return
        matcher = group.matcher.strip()
        if matcher not in ("", "*") and name not in TOOL_EVENTS and name not in SUBJECTS:
            self.warn((*at, "matcher"), f"{name} has no matcher: its hooks run every time")
            matcher = ""
        try:
            compile_matcher(matcher, exact=name in EXACT_ONLY)
        except ConfigError as error:
            self.report((*at, "matcher"), error.message, hint=error.hint)
            return
        for number, value in enumerate(group.hooks):
            place = (*at, "hooks", number)
            handler = self.entry(place, value, Handler)
            if handler is not None:
                alike = json.dumps(value, sort_keys=True, default=str)
                entry = entries.setdefault(alike, _MatchedHandler(handler, place, str(group.description or "")))
                if matcher not in entry.matchers:
                    entry.matchers.append(matcher)

    def hook(self, name: str, entry: _MatchedHandler) -> Hook | None:
        """The hook of a handler. Returns None, and reports why, if it cannot be used or does not run here."""
        handler, at = entry.handler, entry.at
        before = len(self.problems)
        if handler.type in _NOT_RUN_YET:
            self.warn(
                (*at, "type"),
                f"{handler.type} ({_NOT_RUN_YET[handler.type]}) is not run here yet: this handler does nothing",
            )
            return None
        if handler.rule is not None and not self.rule(name, handler.rule, at):
            return None
        if handler.once:
            self.warn((*at, "once"), "once has a meaning only in hooks of a skill; here the hook runs every time")
        question = model_question(self, name, handler, at) if handler.type in ("prompt", "agent") else None
        http = self.http(name, handler, at) if handler.type == "http" else None
        command = self.command(handler, at) if handler.type == "command" else ("", ())
        if (
            len(self.problems) > before
            or (http is None and command is None)
            or (handler.type == "http" and http is None)
            or (handler.type in ("prompt", "agent") and question is None)
        ):
            return None
        matchers = [] if any(text in ("", "*") for text in entry.matchers) else entry.matchers
        kept: dict[str, Any] = {"event": name, **({"matchers": matchers} if matchers else {})}
        kept |= {"if": handler.rule} if handler.rule is not None else {}
        kept |= {"wakes": True} if handler.wakes else {}
        kept |= {"continue": True} if question is not None and handler.go_on is True else {}
        kept |= self.roots.own() | ({"itself": self.run_by_claude} if self.run_by_claude else {})
        text, args = command or ("", ())
        return Hook(
            id=self.id(self.plugin.slug if self.plugin else self.dialect, name),
            on=patterns(name),
            tool=index_tool(matchers) if name in TOOL_EVENTS else "",
            command=text,
            args=args,
            http=http,
            prompt=question if handler.type == "prompt" else None,
            agent=question if handler.type == "agent" else None,
            shell=_SHELLS[handler.shell],
            blocking=question is not None or not (handler.async_ or handler.wakes),
            timeout=self.timeout(name, handler, at),
            on_failure=_POLICIES[handler.on_failure],
            description=(handler.description or entry.description)[:10_000],
            env=self.env if handler.type == "command" else {},
            env_pass=tuple(handler.env_pass),
            dialect=self.dialect,
            plugin=self.plugin.name if self.plugin else "",
            own=kept,
            layer=self.layer,
            origin=self.origin(at),
        )

    def rule(self, name: str, text: str, at: PathParts) -> bool:
        if name not in TOOL_EVENTS:
            self.warn((*at, "if"), f"{name} has no tool: a hook with `if` never runs there, so it is left out")
            return False
        try:
            parse_rule(text)
        except ConfigError as error:
            self.report((*at, "if"), error.message, hint=error.hint)
            return False
        return True

    def timeout(self, name: str, handler: Handler, at: PathParts) -> float:
        """The timeout in seconds: ion counts milliseconds, Claude Code seconds (I-04)."""
        timeout, place = handler.timeout, (*at, "timeout")
        if self.dialect == ION:
            if timeout is not None and timeout < _PROBABLY_SECONDS:
                self.warn(
                    place,
                    f"timeout is {timeout:g} ms; ion counts milliseconds",
                    hint=f"{timeout:g} s are {timeout * 1000:g}",
                )
            return timeout / 1000 if timeout else MODEL_TIMEOUTS.get(handler.type, _ION_DEFAULT / 1000)
        if timeout is not None and timeout >= _PROBABLY_MILLISECONDS:
            self.warn(
                place,
                f"timeout is {timeout:g} s; Claude Code counts seconds",
                hint=f"{timeout:g} ms are {timeout / 1000:g}",
            )
        return timeout or TIMEOUTS.get(name, MODEL_TIMEOUTS.get(handler.type, _DEFAULT))

    def command(self, handler: Handler, at: PathParts) -> tuple[str, tuple[str, ...]] | None:
        """The command and its arguments, with the plugin's folder filled in."""
        if handler.command is None:
            self.report(at, '"command" is missing', hint='write {"type": "command", "command": "…"}')
            return None
        texts = [((*at, "command"), handler.command)]
        texts += [((*at, "args", number), text) for number, text in enumerate(handler.args or ())]
        for number, (place, text) in enumerate(texts):
            if "\x00" in text or (not number and not text.strip()):
                self.report(place, "holds a NUL" if "\x00" in text else "command must not be empty")
                return None
        if handler.wakes:
            self.warn(
                (*at, "asyncRewake"),
                "it runs in the background and cannot wake the agent here (asyncRewake): at exit 2 the model gets its text "
                "with the session's next event that can carry it",
            )
        before = len(self.warnings), len(self.problems)
        for place, text in texts:
            for problem, message, hint in script_problems(text, self.roots):
                (self.report if problem else self.warn)(place, message, hint=hint)
            unset = unset_variables(text)
            for name in unset:
                self.warn(place, f"{name} is not set here; the command sees no value for it")
            known = {*unset, *handler.env_pass, *self.env, *SET_HERE}
            self.variables_not_passed += (
                name for name in foreign_variables(text, "CLAUDE_PLUGIN_") if name not in known
            )
        text, args = filled(handler.command, handler.args, self.roots)
        if not args and (len(self.warnings), len(self.problems)) == before:
            self.script((*at, "command"), text, self.roots.project)
        return text, args

    def http(self, name: str, handler: Handler, at: PathParts) -> HttpCall | None:
        """The HTTP call of an http handler; None if it cannot be used."""
        if handler.url is None:
            self.report(at, '"url" is missing', hint='write {"type": "http", "url": "https://…"}')
            return None
        if name in _NO_HTTP:
            self.warn(at, f"Claude Code has no http hooks at {name}: this handler does nothing", hint="use a command")
            return None
        try:
            parse_target(handler.url)
        except TargetRefused as error:
            self.report((*at, "url"), error.reason)
            return None
        allowed = self.settings.get("allowedHttpHookUrls")
        if isinstance(allowed, list) and not any(url_fits(pattern, handler.url) for pattern in allowed):
            self.warn((*at, "url"), "allowedHttpHookUrls does not list it: this handler does nothing")
            return None
        narrowed = self.settings.get("httpHookAllowedEnvVars")
        names = handler.allowed
        if names is not None and isinstance(narrowed, list):
            names = [name for name in names if name in narrowed]
        headers = {}
        for key, value in handler.headers.items():
            if names is None and "${" in value:
                self.report(
                    (*at, "headers", key), "it holds ${…}, and no variable is allowed", hint="name it in allowedEnvVars"
                )
                return None
            if "\r" in value or "\n" in value or not key or any(sign in key for sign in " :\r\n"):
                self.report((*at, "headers", key), f"the header {key[:64]!r} holds characters that HTTP does not allow")
                return None
            headers[key] = interpolated(value, names)
        return HttpCall(url=handler.url, headers=headers)
