"""Finds likely mistakes in valid hooks: programs that do not exist, and fields that none of the hook's events has.

Each finding is a warning with its file and line; the hook stays in force.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final

from bus.config.documents import Document, PathParts, load
from bus.config.validation import suggestion
from bus.errors import ConditionError, ConfigError, NotBoolean
from bus.events import Event, EventType
from bus.hookfiles.programs import problems
from bus.hooks import NATIVE, Endpoint, Hook
from bus.hooksets.hookfile import HookFile
from bus.matching.conditions import compile_condition
from bus.matching.patterns import Index
from bus.tool_names import CANONICAL, TABLE

_FACTS: Final = ("type", "tool", "input", "session", "host", "source", "cwd", "data")
_VERDICT: Final = ("decision", "reason")
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {"event": _FACTS, "verdict": _VERDICT}
_STRING: Final = re.compile(r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_INDEXED: Final = re.compile(r"""\[\s*["'](\w+)["']\s*\]""")
_FIELD: Final = re.compile(r"(?<![\w.])(event|verdict)\.(\w+)(?:\.(\w+))?(?!\w*\s*\()")
_WITH_INPUT: Final = ("tool:", "permission:")
_MORE_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("timeout", "description", "run_in_background", "workdir", "justification", "background"),
    "read": ("offset", "limit", "pages", "start_line", "end_line"),
    "edit": ("replace_all", "edits", "expected_replacements", "instruction"),
    "glob": ("limit", "case_sensitive", "respect_git_ignore"),
    "grep": ("glob", "output_mode", "type", "multiline", "head_limit", "include", "include_pattern"),
    "list": ("ignore", "depth", "recursive"),
    "web_fetch": ("prompt", "format", "timeout"),
    "web_search": ("allowed_domains", "blocked_domains"),
    "task": ("description", "run_in_background", "model", "resume", "isolation"),
    "notebook_edit": ("cell_id", "cell_type", "edit_mode"),
}
"""Input fields that agents send with a tool and that have no canonical name."""


def findings(read: HookFile, folder: str) -> Iterator[ConfigError]:
    """Likely mistakes in the hooks of a file; `folder` is where their commands run, empty if that is unknown."""
    documents: dict[str, Document | None] = {}
    for hook in read.hooks:
        if hook.command:
            place = _place(hook, "command", documents)
            known = [text for text in read.warnings if text.startswith(f"{place[0]}:")]
            for message, hint in _program_findings(hook, folder):
                # The readers of other dialects report files whose place they know, without the importing file.
                if hook.dialect == NATIVE or not any(message in text for text in known):
                    yield _error(place, message, hint)
        yield from (_error(_place(hook, "when", documents), *found) for found in _field_findings(hook, hook.on))
    for endpoint in read.endpoints:
        place = _place(endpoint, "when", documents)
        yield from (_error(place, *found) for found in _field_findings(endpoint, endpoint.events))


def _error(place: tuple[str, int, int], message: str, hint: str) -> ConfigError:
    return ConfigError(message, file=place[0], line=place[1], column=place[2], hint=hint)


def _place(entry: Hook | Endpoint, key: str, documents: dict[str, Document | None]) -> tuple[str, int, int]:
    """File, line and column of an entry's key; in files other than fleethook.yaml the line of the entry, and column 0."""
    file, _, text = entry.origin.rpartition(":")
    line = int(text) if text.isdigit() else 0
    if file not in documents:
        documents[file] = _document(file) if entry.dialect == NATIVE else None
    document = documents[file]
    if document is None:
        return file, line, 0
    section = "hooks" if isinstance(entry, Hook) else "endpoints"
    entries = document.value.get(section) if isinstance(document.value, dict) else None
    for number in range(len(entries) if isinstance(entries, list) else 0):
        path: PathParts = (section, number)
        if document.place(path)[0] == line:
            return file, *document.place((*path, key))
    return file, line, 0


def _document(file: str) -> Document | None:
    try:
        return load(Path(file))
    except ConfigError:
        return None


def _program_findings(hook: Hook, folder: str) -> Iterator[tuple[str, str]]:
    """Findings on the scripts and programs that a command runs, and on the scripts' interpreters."""
    base = os.path.join(folder, os.path.expanduser(hook.working_dir))
    base = base if os.path.isabs(base) else ""
    path = hook.env.get("PATH", "")
    for problem in problems(hook.command, hook.args, base=base, root=folder, path=path):
        yield problem.message, problem.hint


def check_condition(text: str) -> None:
    """Raise ConfigError for a condition that cannot be read, that reads a field which no event has, or gives no truth value."""
    condition = compile_condition(text)
    for message, hint in unknown_fields(text):
        raise ConfigError(f"{message}; {hint}")
    nothing = Event(type="", source="generic")
    try:
        condition({"event": nothing.facts(), "verdict": {"decision": "", "reason": ""}})
    except NotBoolean as error:
        raise ConfigError(str(error)) from error
    except ConditionError:  # this event lacks a field that others have
        pass


def unknown_fields(condition: str) -> Iterator[tuple[str, str]]:
    """The fields that a condition reads and no event or verdict has: for each the message, and similar names."""
    for root, field in dict.fromkeys((root, field) for root, field, _ in _fields(condition)):
        known = _KNOWN[root]
        if field not in known:
            hint = suggestion(field, known) or f"its fields are {', '.join(f'{root}.{name}' for name in known)}"
            yield f"no event has {root}.{field}, so this condition fails", hint


def _fields(condition: str) -> Iterable[tuple[str, str, str]]:
    """The fields that a condition reads, each once: `event` or `verdict`, the field, and the name below it or nothing."""
    text = _STRING.sub('""', _INDEXED.sub(r".\1", condition))
    return dict.fromkeys((match[1], match[2], match[3] or "") for match in _FIELD.finditer(text))


def _field_findings(entry: Hook | Endpoint, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Findings on fields in `when:` that no event that the entry's patterns match has."""
    if not entry.when:
        return
    yield from unknown_fields(entry.when)
    for root, field, below in _fields(entry.when):
        if field not in _KNOWN[root]:
            continue
        if (root, field) == ("event", "input") and below:
            yield from _input_findings(entry, patterns, below)
        elif (root, field) in {("event", "tool"), ("event", "input")}:
            yield from _tool_findings(entry, patterns, field)
        elif root == "verdict" and isinstance(entry, Hook) and entry.blocking:
            yield "a blocking hook runs before the verdict, so it has no field verdict", "write blocking: false"


def _tool_findings(entry: Hook | Endpoint, patterns: tuple[str, ...], field: str) -> Iterator[tuple[str, str]]:
    types = _types(entry, patterns)
    if types and not any(kind.startswith(_WITH_INPUT) for kind in types):
        yield f"events of the type {types[0]} have no {field}, so event.{field} is always empty", "see event.data"


def _types(entry: Hook | Endpoint, patterns: tuple[str, ...]) -> list[str]:
    """The named event types that an entry's patterns match."""
    fits = partial(_fits, Index([(entry, patterns)]))
    return [kind.value for kind in EventType if any(fits(kind.value, tool) for tool in ("", *CANONICAL))]


def _input_findings(entry: Hook | Endpoint, patterns: tuple[str, ...], field: str) -> Iterator[tuple[str, str]]:
    fits, types = partial(_fits, Index([(entry, patterns)])), _types(entry, patterns)
    with_input = [kind for kind in types if kind.startswith(_WITH_INPUT)]
    if types and not with_input:
        yield f"events of the type {types[0]} have no input, so event.input.{field} never exists", "see event.data"
        return
    if not with_input or any(fits(kind, tool) for kind in with_input for tool in ("mcp__x__y", "unknown")):
        return  # an unknown tool may have any field
    tools = [tool for tool in CANONICAL if any(fits(kind, tool) for kind in with_input)]
    known = dict.fromkeys(name for tool in tools for name in (*CANONICAL[tool], *_other_fields(tool)))
    if tools and field not in known:
        names = ", ".join(f"event.input.{name}" for tool in tools for name in CANONICAL[tool])
        hint = suggestion(field, list(known)) or f"its fields are {names}"
        yield f"{' and '.join(tools[:3])} {'has' if len(tools) == 1 else 'have'} no event.input.{field}", hint


def _fits(index: Index[Hook | Endpoint], kind: str, tool: str) -> bool:
    return bool(index.find(Event(type=kind, tool=tool)))


@cache
def _other_fields(tool: str) -> tuple[str, ...]:
    """The agents' own names for a tool's input fields, and the fields without a canonical name."""
    uses = [use for agent in TABLE.values() for use in agent.values() if use.tool == tool]
    agent_names = [name for use in uses for names in use.fields.values() for name in names]
    return (*dict.fromkeys(agent_names), *_MORE_FIELDS.get(tool, ()))
