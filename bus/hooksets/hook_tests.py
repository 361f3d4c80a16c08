"""Reads the tests of a hook file: each is an event, the verdict that the hooks have to give, and its line.

Workers do not read them. A test has the same short fields as a test in a guard pack, or a whole event.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bus.agents import find
from bus.agents.gobby import event_types
from bus.config.documents import Document, PathParts, dotted, load
from bus.config.hook_test_entry import HookTestBefore, HookTestEntry, HookTestEvent
from bus.config.validation import convert, suggestion
from bus.errors import ConfigError, PatternError
from bus.events import SOURCES, Event, EventType, source_name
from bus.hooksets.guards import load_pack
from bus.hooksets.hookfile import HookFile
from bus.ids import event_id, host_name
from bus.matching.patterns import parse_pattern
from bus.tool_names import CANONICAL, TABLE
from bus.tools import canonical_input, canonical_tool

_INPUT: Final = ("command", "path", "content")
_SHORT: Final = ("tool", *_INPUT, "prompt", "cwd", "source", "native")

_OWN_TYPES: Final = frozenset(kind.value for kind in EventType)
_SESSION: Final = "test"
"""The session of a test with events before it, where it names none."""
_LAST_MS: Final = 1_000_000
_MOST_NAMED: Final = 5
"""The most hooks that a hint names."""


class HookTest(NamedTuple):
    """One test of a hook file: the event, what is expected, and its place."""

    expected: HookTestEntry
    event: Event
    file: str
    line: int
    before: tuple[Event, ...] = ()
    """What happens before, in order."""

    @property
    def name(self) -> str:
        """The test's name, or else what it is about."""
        return self.expected.name


def read_hook_tests(document: Document, file: HookFile, folder: Path) -> tuple[list[HookTest], list[ConfigError]]:
    """The valid tests of a hook file, and the errors of the others with line and column.

    `file` is the hook file that was read from the document; `folder` is the directory of events that name none.
    """
    value = document.value.get("tests") if isinstance(document.value, dict) else None
    if not isinstance(value, list):
        return [], []  # the reader of the hook file has reported that `tests:` is not a list
    tests: list[HookTest] = []
    problems: list[ConfigError] = []
    lines: dict[str, int] = {}
    known = hook_ids(file)
    for number, raw in enumerate(value):
        path: PathParts = ("tests", number)
        entry, wrong = convert(document, path, raw, HookTestEntry)
        problems += wrong
        if entry is None:
            continue
        line = document.place(path)[0]
        try:
            _check(document, path, entry, known, lines)
            event = _event(document, path, entry, folder)
            if entry.after:
                event = msgspec.structs.replace(event, session=event.session or _SESSION, time=_LAST_MS)
            before = tuple(_before(document, path, entry, event, folder))
            tests.append(HookTest(entry, event, document.file, line, before))
            lines[entry.name] = line
        except ConfigError as error:
            problems.append(error)
    return tests, problems


def load_hook_tests(path: Path, file: HookFile, folder: Path | None = None) -> tuple[list[HookTest], list[ConfigError]]:
    """As `read_hook_tests`, for a path; without `folder`, events happen in the file's folder."""
    return read_hook_tests(load(path), file, folder or path.absolute().parent)


def hook_ids(file: HookFile) -> list[str]:
    """The ids of all hooks of a file, including those of its guard packs."""
    packs = [name for name, settings in file.guards.items() if settings.enabled]
    return [hook.id for hook in file.hooks] + [rule.id for name in packs for rule in load_pack(name).rules]


def event_of_type(kind: str, *, source: str, tool: str = "") -> Event:
    """A new event of a canonical type (`tool:pre_execute:bash`), or by an agent's own name of it (`PreToolUse`).

    `claude:PreToolUse` names the agent too; Gobby's names are known in any spelling (`before-tool`). Raises PatternError if
    `kind` is no event type, or fits several.
    """
    agent, name = native_event(kind)
    if agent:
        source, kind = agent, name
    native = find(source).capabilities.get(kind)
    event_type = native.type if native is not None else ""
    if native is None:
        kind = next(iter(event_types(kind)), kind)
        (pattern, *others) = parse_pattern(kind)
        if others or not pattern.exact:
            raise PatternError(f"{kind!r} names more than one event type", hint="write e.g. tool:pre_execute:bash")
        event_type, tool = pattern.type, tool or pattern.tool
    return Event(
        type=event_type,
        id=event_id(),
        source=source,
        native=kind,
        host=host_name(),
        tool=canonical_tool(source, tool) if tool else "",
        native_tool=tool,
    )


def _check(
    document: Document, path: PathParts, entry: HookTestEntry, known: Sequence[str], lines: dict[str, int]
) -> None:
    """Checks what the types cannot express: only one form of event, a unique name, a hook that exists."""
    short = [name for name in _SHORT if getattr(entry, name)]
    whole = isinstance(entry.event, HookTestEvent)
    if whole and short:
        raise document.error((*path, short[0]), f"write {short[0]} inside `event`, which describes the event", key=True)
    if not short and entry.event is None:
        raise document.error(path, "a test needs an event", hint="write e.g. command: git push --force")
    if entry.prompt and any(name in short for name in ("tool", *_INPUT)):
        raise document.error((*path, "prompt"), "a prompt is about no tool", hint="make two tests of it", key=True)
    if entry.name in lines:
        raise document.error((*path, "name"), f"the name is taken (line {lines[entry.name]})")
    if entry.hook and entry.hook not in known:
        more = " and others" if len(known) > _MOST_NAMED else ""
        hint = suggestion(entry.hook, known) or f"it has {', '.join(known[:_MOST_NAMED]) or 'none'}{more}"
        raise document.error((*path, "hook"), f'the file has no hook "{entry.hook[:64]}"', hint=hint)


def _event(document: Document, path: PathParts, entry: HookTestEntry, folder: Path) -> Event:
    """The event that a test describes."""
    if isinstance(entry.event, HookTestEvent):
        place: PathParts = (*path, *(() if "after" in path else ("event",)), "type")
        whole = entry.event
    else:
        place = (*path, "event" if entry.event else "native")
        whole = _whole_event(entry)
    kind = entry.native or whole.type
    agent = source_name(whole.source) if whole.source else native_event(kind)[0] or agent_with_event(kind)
    source = agent or _agent_with_tool(whole.tool)
    if entry.native and entry.native not in find(source).capabilities:
        names = find(source).capabilities
        hint = suggestion(entry.native, names) or f"its events are {', '.join(names)}"
        raise document.error((*path, "native"), f'{source} has no event "{entry.native[:64]}"', hint=hint)
    try:
        event = event_of_type(kind, source=source, tool=whole.tool)
    except PatternError as error:
        line, column = document.place(place)
        raise PatternError(
            error.message, file=document.file, line=line, column=column, path=dotted(place), hint=error.hint
        ) from error
    return msgspec.structs.replace(
        event,
        session=whole.session,
        host=whole.host or event.host,
        cwd=os.path.normpath(folder / os.path.expanduser(whole.cwd)),
        input=canonical_input(source, whole.tool, whole.input) if whole.tool else whole.input,
        output=whole.output,
        data=whole.data,
    )


def _before(document: Document, path: PathParts, entry: HookTestEntry, event: Event, folder: Path) -> Iterator[Event]:
    """The events before that of a test, a millisecond apart."""
    every = [(number, whole) for number, whole in enumerate(entry.after) for _ in range(whole.times)]
    for place, (number, whole) in enumerate(every):
        alone = HookTestEntry(name=entry.name, expect=entry.expect, event=_same_agent(whole, event))
        made = _event(document, (*path, "after", number), alone, folder)
        yield msgspec.structs.replace(
            made, session=made.session or event.session, time=_LAST_MS - len(every) + place, call=f"call-{place}"
        )


def _same_agent(whole: HookTestBefore, event: Event) -> HookTestEvent:
    fields = {name: getattr(whole, name) for name in HookTestEvent.__struct_fields__}
    return HookTestEvent(**fields | {"source": whole.source or event.source})


def _whole_event(entry: HookTestEntry) -> HookTestEvent:
    """The event that the short fields describe."""
    tool_input: dict[str, Any] = {name: getattr(entry, name) for name in _INPUT if getattr(entry, name)}
    kind = entry.event if isinstance(entry.event, str) else ""
    if entry.prompt:
        return HookTestEvent(
            type=kind or EventType.USER_PROMPT_SUBMIT.value,
            source=entry.source,
            cwd=entry.cwd,
            data={"prompt": entry.prompt},
        )
    about_tool = not kind or bool(tool_input) or kind.startswith(("tool:", "permission:"))
    named = kind.count(":") > 1  # `tool:pre_execute:write` names the tool itself
    tool = entry.tool or ("bash" if about_tool and not named else "")
    return HookTestEvent(
        type=kind or EventType.TOOL_PRE_EXECUTE.value, source=entry.source, cwd=entry.cwd, tool=tool, input=tool_input
    )


def native_event(kind: str) -> tuple[str, str]:
    """The agent and its own name of the event in `claude:PreToolUse`; two empty texts if `kind` has another form."""
    agent, _, name = kind.partition(":")
    known = agent in SOURCES and agent != "generic" and name in find(agent).capabilities
    return (agent, name) if known else ("", "")


def agent_with_event(native: str) -> str:
    """The first agent that has an event of this name; empty for canonical event types and for unknown names."""
    agents = () if native in _OWN_TYPES else SOURCES
    return next((agent for agent in agents if native in find(agent).capabilities), "")


def _agent_with_tool(tool: str) -> str:
    """The agent that has a tool of this name; `generic` for canonical names."""
    agents = () if not tool or tool in CANONICAL else TABLE.items()
    return next((agent for agent, names in agents if tool in names), "generic")


def matching(tests: Iterable[HookTest], text: str) -> list[HookTest]:
    """The tests whose name contains a text; upper and lower case are the same."""
    return [test for test in tests if text.lower() in test.name.lower()]
