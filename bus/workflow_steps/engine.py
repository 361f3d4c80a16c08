"""One event in one workflow: limits on tools, triggers, the person's answers, and at most one transition."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from bus.events import Event, EventType
from bus.matching.patterns import Index
from bus.memory.deeds import READ, WROTE, deeds_of
from bus.verdicts import Policy
from bus.workflow_steps.actions import run_actions
from bus.workflow_steps.approvals import may_leave, take_prompt, waiting_text
from bus.workflow_steps.effects import Effects
from bus.workflow_steps.state import Announcement, Carried, FlowRecord, FlowState
from bus.workflow_steps.tool_calls import fits_mcp, fits_tool, mcp_tool, objection
from bus.workflow_steps.work import Work
from bus.workflows.values import STEPS_AGE_MS, Action, FlowStep, Transition, Trigger, Workflow

_AFTER_TOOL: Final = frozenset({EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value})
_STOPS: Final = "_premature_stop_count"
_MOST_STOPS: Final = "premature_stop_max_attempts"
_STOPS_KEPT: Final = 3
"""Gobby's names and number: a prompt begins the count anew, and 0 keeps the agent for ever."""
_MOST_RESULT: Final = 4_000
_MOST_FILES: Final = 200


class Advance(NamedTuple):
    """What one event does to a workflow in a session."""

    state: FlowState | None
    """The new state; None where it is unchanged."""
    record: FlowRecord
    shared: Mapping[str, Any]
    """The session's variables that changed."""
    carried: tuple[Carried, ...] = ()
    published: tuple[Announcement, ...] = ()

    @property
    def is_silent(self) -> bool:
        """Whether nothing has to be written: the state is the same, and nothing was said or done."""
        record = self.record
        said = record.decision != "abstain" or record.contexts or record.notes or record.actions or record.moved
        return self.state is None and not (said or self.shared or self.carried or self.published)


async def advance(
    workflow: Workflow,
    state: FlowState | None,
    shared: Mapping[str, Any],
    event: Event,
    effects: Effects,
    *,
    now: int,
    policy: Policy = "allow",
) -> Advance | None:
    """What a workflow does at an event of a session in this state; None where the session does not have the workflow."""
    if workflow.sources and event.source not in workflow.sources:
        return None
    if state is not None and state.status == "ended":
        return None
    begins = state is None
    if state is None:
        state = new_state(workflow, event, now)
    else:
        state = copy.deepcopy(state)
        if state.step and workflow.step(state.step) is None:  # the file no longer has the step
            state.step, state.entered = workflow.steps[0].name if workflow.steps else "", now
    work = Work(workflow, state, {**shared}, event, effects, now, policy)
    if begins and not await _starts(work):
        return None
    before = "" if begins else state.step
    if begins:
        work.changed = True
        for name, value in workflow.session_variables.items():
            if name not in work.shared:
                work.shared[name] = work.shared_changes[name] = value
    await _at_event(work, enters=begins or state.pending_entry)
    return _advance(work, before)


def new_state(workflow: Workflow, event: Event, now: int) -> FlowState:
    """The state of a session that gets the workflow at an event."""
    return FlowState(
        workflow=workflow.name,
        source=event.source,
        session=event.session,
        host=event.host,
        cwd=event.cwd,
        step=workflow.steps[0].name if workflow.steps else "",
        entered=now,
        started=now,
        updated=now,
        variables=copy.deepcopy(workflow.variables),
    )


async def _starts(work: Work) -> bool:
    """Whether a session without the workflow gets it at this event."""
    start = work.workflow.start
    return start.by == "event" and _fits(start.on, "", work.event) and await work.holds(start.when)


async def _at_event(work: Work, *, enters: bool) -> None:
    """Everything that happens at one event, in order; a deny ends it."""
    state, event = work.state, work.event
    if enters and work.step is not None:
        state.pending_entry, work.changed = False, True
        await _enter(work, work.step)
    _note_files(work)
    await _observe(work)
    await _run_triggers(work)
    if work.ended:
        return
    if await _is_refused(work):
        return
    await take_prompt(work)
    if event.type == EventType.USER_PROMPT_SUBMIT and work.get(_STOPS):
        work.set(_STOPS, 0)
    if event.type in _AFTER_TOOL:
        state.step_actions, state.total_actions, work.changed = state.step_actions + 1, state.total_actions + 1, True
        await _note_mcp(work)
    await _move(work)
    if event.type == EventType.AGENT_STOP and not work.ended:
        await _check_stop(work)


async def _run_triggers(work: Work) -> None:
    for trigger in work.workflow.triggers:
        if work.ended:
            return
        if _fits(trigger.on, trigger.tool, work.event) and await work.holds(trigger.when):
            await run_actions(work, trigger.actions, keeps_results=True)
    work.extra.clear()
    work.results.clear()
    work.refused = False  # nothing of a trigger keeps a step from being left


async def _is_refused(work: Work) -> bool:
    """Whether the step's limits and rules deny the tool call."""
    if work.event.type != EventType.TOOL_PRE_EXECUTE:
        return False
    if work.state.waits_for:
        work.deny(waiting_text(work))
        return True
    for decision, reason in await objection(work.event, work.workflow.name, work.step, work.workflow.rules, work.holds):
        text = work.reason_text(reason)
        if decision == "deny":
            work.deny(text)
        elif decision == "ask":
            work.ask(text)
        else:
            work.contexts.append(text)
    return work.ended


async def _move(work: Work) -> None:
    """The first transition that fits."""
    step = work.step
    if step is None:
        return
    if work.state.wanted:
        wanted, work.state.wanted = work.state.wanted, ""
        await _change(work, step, Transition(to=wanted))
        return
    if _is_too_old(work, step):
        await _change(work, step, Transition(to="reflect"))
        return
    for transition in step.transitions:
        if _fits(transition.on, transition.tool, work.event) and await work.holds(transition.when):
            if await may_leave(work, step):
                await _change(work, step, transition)
            return


def _is_too_old(work: Work, step: FlowStep) -> bool:
    """Whether a workflow of Gobby has been in a step for so long that it goes to its step `reflect`."""
    is_old = work.workflow.language == "python" and work.now - work.state.entered > STEPS_AGE_MS
    return is_old and step.name != "reflect" and work.workflow.step("reflect") is not None


async def _change(work: Work, step: FlowStep, transition: Transition) -> None:
    """Leave a step for another; if an action that may block refuses, everything stays as it was, and the event is denied."""
    new = work.workflow.step(transition.to)
    if new is None:
        work.note(f"workflow {work.workflow.name!r}: there is no step {transition.to!r}")
        return
    state, shared, changes = copy.deepcopy(work.state), dict(work.shared), dict(work.shared_changes)
    kept = (len(work.carried), len(work.published), work.changed)
    work.extra |= {"from_step": step.name, "to_step": new.name}
    await run_actions(work, step.on_exit)
    await run_actions(work, transition.actions)
    if not work.refused:
        current = work.state
        current.step, current.entered, current.step_actions = new.name, work.now, 0
        current.transitions, current.answers, current.waits_for = current.transitions + 1, {}, ""
        work.changed = work.moved = True
        await _enter(work, new, goes_on=work.ended)
    if work.refused:
        work.state, work.shared, work.shared_changes = state, shared, changes
        del work.carried[kept[0] :], work.published[kept[1] :]
        work.changed, work.moved = kept[2], False
        work.done.append(f"{step.name} -> {new.name} refused")
    work.extra.clear()


async def _enter(work: Work, step: FlowStep, *, goes_on: bool = False) -> None:
    """Run a step's `on_enter`. After a deny that did not ask first (`goes_on`) it runs too, since the step is entered."""
    if step.status:
        work.note(work.reason_text(step.status))
    decision, reason = work.decision, work.reason
    if goes_on:
        work.decision, work.reason = "abstain", ""
    spoken = len(work.contexts)
    await run_actions(work, step.on_enter)
    if goes_on and work.decision != "deny":
        work.decision, work.reason = decision, reason
    if work.workflow.language == "python" and work.state.transitions and len(work.contexts) == spoken:
        work.contexts.append(f"Transitioning to step: {step.name}")


async def _check_stop(work: Work) -> None:
    """Keep the agent from stopping before the workflow is done."""
    workflow, stop = work.workflow, work.workflow.premature_stop
    if workflow.exit_condition and await work.holds(workflow.exit_condition):
        work.state.status, work.changed = "ended", True
        work.done.append("end")
        return
    if stop is None or not await work.holds(stop.when):
        return
    if workflow.language == "python" and _gives_up(work):
        return
    text = work.reason_text(stop.message) or f"the workflow {workflow.name!r} is not done (step {work.state.step})"
    if stop.decision == "deny":
        work.deny(text)
    else:
        work.contexts.append(text)


def _gives_up(work: Work) -> bool:
    """Whether a workflow of Gobby lets the agent stop after so many stops in a row that it kept from it."""
    most, count = work.get(_MOST_STOPS), work.get(_STOPS)
    most = most if isinstance(most, int) and not isinstance(most, bool) else _STOPS_KEPT
    count = count + 1 if isinstance(count, int) else 1
    work.set(_STOPS, count)
    if 0 < most <= count:
        work.note(f"workflow {work.workflow.name!r}: the agent may stop after {count} attempts ({_MOST_STOPS})")
        return True
    return False


async def _observe(work: Work) -> None:
    for observer in work.workflow.observers:
        if not _fits(observer.on, "", work.event):
            continue
        if (observer.tools or observer.mcp_tools) and not (
            fits_tool(work.event, observer.tools) or fits_mcp(work.event, observer.mcp_tools)
        ):
            continue
        await run_actions(work, [Action(kind="set", id="observer", values={"values": dict(observer.values)})])


def _note_files(work: Work) -> None:
    """Remember the files that a tool has read and changed, where a condition or a text asks for them."""
    if work.event.type not in _AFTER_TOOL or not work.workflow.notes_files:
        return
    state = work.state
    for deed in deeds_of(work.event):
        if deed.kind in {READ, WROTE}:
            known = state.files_read if deed.kind == READ else state.files_written
            if deed.text in known:
                known.remove(deed.text)
            known.append(deed.text)
            del known[:-_MOST_FILES]
            work.changed = True


async def _note_mcp(work: Work) -> None:
    """Remember the result of an MCP tool, and set the variables that depend on it."""
    called = mcp_tool(work.event)
    if called is None:
        return
    failed = work.event.type == EventType.TOOL_ERROR
    work.state.mcp[f"{called[0]}:{called[1]}"] = {"failed": failed, "result": _small(work.event.output)}
    step = work.step
    for action in () if step is None else (step.on_mcp_error if failed else step.on_mcp_success):
        server, tool = action.values.get("server", "*"), action.values.get("tool", "*")
        if fits_mcp(work.event, [f"{server}:{tool}"]):
            await run_actions(work, [action])


def _small(value: Any) -> Any:
    try:
        return value if len(msgspec.msgpack.encode(value)) <= _MOST_RESULT else str(value)[:_MOST_RESULT]
    except (TypeError, OverflowError, UnicodeEncodeError, RecursionError):
        return None


class _Entry(NamedTuple):
    id: str
    tool: str


@lru_cache(maxsize=4096)
def _index(on: tuple[str, ...], tool: str) -> Index[_Entry]:
    return Index([(_Entry("", tool), on)])


def _fits(on: tuple[str, ...], tool: str, event: Event) -> bool:
    return not (on or tool) or bool(_index(on or ("*",), tool).find(event))


def _advance(work: Work, before: str) -> Advance:
    state = work.state
    if work.changed:
        state.updated = work.now
        state.host, state.cwd = work.event.host or state.host, work.event.cwd or state.cwd
    record = FlowRecord(
        workflow=work.workflow.name,
        event=work.event.id,
        ms=work.now,
        source=work.event.source,
        session=work.event.session,
        before=before,
        after=state.step,
        moved=work.moved,
        actions=tuple(work.done),
        decision=work.decision,
        reason=work.reason,
        contexts=tuple(work.contexts),
        notes=tuple(dict.fromkeys(work.notes)),
        names=work.plain_names() if work.carried else {},
        extras={each.action: each.extra for each in work.carried if each.extra},
    )
    return Advance(
        state if work.changed else None,
        record,
        work.shared_changes,
        tuple(work.carried),
        tuple(work.published),
    )


def trigger_events(triggers: tuple[Trigger, ...]) -> tuple[str, ...]:
    """The event patterns of some triggers."""
    return tuple(dict.fromkeys(pattern for trigger in triggers for pattern in trigger.on))
