"""Runs the tests of workflows, and made-up events of a session through one: in this process, without effects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bus.config.documents import Document
from bus.config.hook_file_value import HookFile
from bus.config.validation import convert
from bus.config.workflow_test_entry import WorkflowTestEntry, WorkflowTestEvent
from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.hook_tests import event_of_type
from bus.hooksets.in_force import HookSet
from bus.hooksets.layers import Layered
from bus.tools import canonical_input
from bus.workflow_steps.memory import MemoryFlows
from bus.workflow_steps.state import FlowState

SESSION: Final = "test"


class TestedEvent(NamedTuple):
    """What came of one event."""

    event: Event
    decision: str
    reason: str
    before: str
    after: str
    actions: tuple[str, ...]
    contexts: tuple[str, ...]
    notes: tuple[str, ...]
    would: tuple[str, ...]
    variables: dict[str, Any]
    wrong: tuple[str, ...] = ()
    """What is not as the test expects it."""


class WorkflowTestResult(NamedTuple):
    """How a test went."""

    name: str
    line: int
    events: tuple[TestedEvent, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """What is wrong, with the number of the event."""
        return tuple(
            f"event {number} ({tested.event.type}): {text}"
            for number, tested in enumerate(self.events, 1)
            for text in tested.wrong
        )


def read_tests(document: Document, number: int) -> list[tuple[WorkflowTestEntry, int]]:
    """The tests of the workflow with this number in a hook file, each with its line."""
    value = document.value if isinstance(document.value, dict) else {}
    entries = (value.get("workflows") or [])[number].get("tests") or []
    found = []
    for place, raw in enumerate(entries):
        entry, problems = convert(document, ("workflows", number, "tests", place), raw, WorkflowTestEntry)
        if problems:
            raise problems[0]
        if entry is not None:
            found.append((entry, document.place(("workflows", number, "tests", place))[0]))
    return found


def read_events(document: Document) -> list[WorkflowTestEvent]:
    """The events of a file: a list of mappings. Raises ConfigError with the first that is wrong."""
    if not isinstance(document.value, list):
        raise document.error((), "events are a list", hint="write e.g. `- {on: session:start}`")
    found = []
    for number, raw in enumerate(document.value):
        entry, problems = convert(document, (number,), raw, WorkflowTestEvent)
        if problems:
            raise problems[0]
        if entry is not None:
            found.append(entry)
    return found


async def run_events(hook: Hook, entries: Sequence[WorkflowTestEvent], cwd: Path) -> tuple[TestedEvent, ...]:
    """What a workflow does in a new session at these events, one after the other."""
    flows, found = MemoryFlows(), list[TestedEvent]()
    started = _by_event(hook)
    matching = HookSet([Layered("user", "test", HookFile(hooks=(started,)))])
    state: FlowState | None = None
    for entry in entries:
        event = made_event(entry, cwd)
        before = state.step if state is not None else ""
        done = await flows.handle(started, event) if matching.blocking(event) else None
        state = next(iter(flows.states.values()), None)
        record = None if done is None else done.record
        tested = TestedEvent(
            event,
            "abstain" if record is None else record.decision,
            "" if record is None else record.reason,
            before,
            state.step if state is not None else "",
            () if record is None else record.actions,
            () if record is None else record.contexts,
            () if record is None else record.notes,
            tuple(flows.would) if done is not None else (),
            dict(state.variables) if state is not None else {},
        )
        found.append(tested._replace(wrong=tuple(_wrong(entry, tested))))
    return tuple(found)


async def run_test(hook: Hook, entry: WorkflowTestEntry, line: int, cwd: Path) -> WorkflowTestResult:
    """How one test goes."""
    return WorkflowTestResult(entry.name, line, await run_events(hook, entry.events, cwd))


def made_event(entry: WorkflowTestEvent, cwd: Path) -> Event:
    """The event that a test describes; raises ConfigError."""
    tool = entry.tool or ("bash" if entry.command else "")
    kind = entry.on or ("user:prompt_submit" if entry.prompt else "tool:pre_execute" if tool else "")
    if not kind:
        raise ConfigError("an event of a test has on, prompt, tool or command")
    event = event_of_type(kind, source=entry.source or "claude", tool=tool)
    given = {"command": entry.command, "path": entry.path}
    fields = {**entry.input, **{name: value for name, value in given.items() if value}}
    if event.native_tool:
        fields = canonical_input(event.source, event.native_tool, fields)
    data = {**entry.data, **({"prompt": entry.prompt} if entry.prompt else {})}
    return msgspec.structs.replace(event, session=SESSION, cwd=str(cwd), input=fields, output=entry.output, data=data)


def _by_event(hook: Hook) -> Hook:
    """The workflow as if a person had started it, where only that starts it."""
    workflow = hook.workflow
    if workflow is None or workflow.start.by == "event":
        return hook
    start = msgspec.structs.replace(workflow.start, by="event")
    return msgspec.structs.replace(hook, workflow=msgspec.structs.replace(workflow, start=start))


def _wrong(entry: WorkflowTestEvent, tested: TestedEvent) -> list[str]:
    found = []
    decision = "allow" if tested.decision == "abstain" else tested.decision
    if entry.expect is not None and decision != entry.expect:
        found.append(f"the decision is {decision}{f': {tested.reason}' if tested.reason else ''}, not {entry.expect}")
    if entry.step and tested.after != entry.step:
        found.append(f"the step is {tested.after or 'none'}, not {entry.step}")
    if entry.reason and entry.reason not in tested.reason:
        found.append(f"the reason is {tested.reason!r}, and does not contain {entry.reason!r}")
    if entry.context and not any(entry.context in text for text in tested.contexts):
        found.append(f"the context is {' / '.join(tested.contexts)!r}, and does not contain {entry.context!r}")
    for name, value in entry.variables.items():
        if tested.variables.get(name) != value:
            found.append(f"the variable {name} is {tested.variables.get(name)!r}, not {value!r}")
    return found
