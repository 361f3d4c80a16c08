"""What each action of a workflow does. An action that fails is noted, and the workflow goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bus.errors import FleethookError
from bus.events import EventType
from bus.workflow_steps import gobby_actions
from bus.workflow_steps.outside import run_command, run_plugin, run_tool, run_webhook
from bus.workflow_steps.state import Announcement, Carried
from bus.workflow_steps.tool_calls import objection
from bus.workflow_steps.work import Work
from bus.workflows.rules import read_rule
from bus.workflows.values import Action, is_carried

Do = Callable[[Work, Action], Awaitable[Mapping[str, Any] | None]]
"""Does an action; the result, if there is one, is what later actions of a trigger read as variables."""

_OWN_KEYS: Final = frozenset({"action", "when", "content", "text"})


async def run_actions(work: Work, actions: Sequence[Action], *, keeps_results: bool = False) -> None:
    """Run actions in order. A deny ends them; with `keeps_results`, later ones read what earlier ones returned.

    In Gobby's files they always do, until the last of these actions has run.
    """
    is_gobbys, outer = work.workflow.language == "python", (dict(work.extra), dict(work.results))
    await _run_each(work, actions, keeps_results=keeps_results or is_gobbys)
    if is_gobbys and not keeps_results:
        work.extra, work.results = outer


async def _run_each(work: Work, actions: Sequence[Action], *, keeps_results: bool) -> None:
    for action in actions:
        if work.ended:
            return
        if not await work.holds(action.when):
            continue
        before = dict(work.extra)
        work.extra |= {
            key: value for key, value in action.values.items() if key not in _OWN_KEYS and key.isidentifier()
        }
        try:
            result = await _run(work, action)
        except FleethookError as error:
            work.done.append(f"{action.kind} failed")
            work.note(f"workflow {work.workflow.name!r}: the action {action.kind} ({action.id}) failed: {error}")
            result = {"error": str(error)}
        work.extra = before
        if keeps_results and result:
            named = {str(key): value for key, value in result.items() if str(key).isidentifier()}
            work.extra |= named
            work.results |= named


async def _run(work: Work, action: Action) -> Mapping[str, Any] | None:
    if is_carried(action):
        work.carried.append(
            Carried(action=action.id, kind="webhook" if action.kind == "webhook" else "command", extra=_extra(work))
        )
        work.done.append(action.kind)
        return None
    do = ACTIONS.get(action.kind)
    if do is None:
        work.note(f"workflow {work.workflow.name!r}: there is no action {action.kind!r}; it does nothing")
        return None
    return await do(work, action)


def _extra(work: Work) -> dict[str, Any]:
    return {
        key: value for key, value in work.extra.items() if isinstance(value, str | int | float | bool | list | dict)
    }


async def _context(work: Work, action: Action) -> Mapping[str, Any] | None:
    text = work.text(action.values.get("text", action.values.get("content", "")))
    if text.strip():
        work.contexts.append(text)
        work.done.append("context")
    return {"inject_message": text}


async def _note(work: Work, action: Action) -> None:
    work.note(work.text(action.values.get("text", "")))
    work.done.append("note")


async def _deny(work: Work, action: Action) -> None:
    work.deny(work.reason_text(action.values.get("reason", "")))
    work.done.append("deny")


async def _ask(work: Work, action: Action) -> None:
    work.ask(work.reason_text(action.values.get("reason", "")))
    work.done.append("ask")


async def _set(work: Work, action: Action) -> None:
    shared = action.values.get("scope") == "session"
    written = action.values.get("values", {})
    for name, value in written.items():
        work.set(str(name), work.value(value), shared=shared)
        work.done.append(f"set {name}")


async def _increment(work: Work, action: Action) -> None:
    name, amount = str(action.values.get("name", "")), work.value(action.values.get("by", 1))
    known = work.get(name)
    known = known if isinstance(known, int | float) and not isinstance(known, bool) else 0
    work.set(
        name, known + (amount if isinstance(amount, int | float) else 1), shared=action.values.get("scope") == "session"
    )
    work.done.append(f"set {name}")


async def _publish(work: Work, action: Action) -> None:
    kind = work.text(action.values.get("type", "")).strip()
    data = work.rendered(action.values.get("data") or {})
    where = {
        "workflow": work.workflow.name,
        "step": work.state.step,
        "session": work.event.session,
        "event": work.event.id,
    }
    work.published.append(
        Announcement(type=kind, data={**where, **(data if isinstance(data, dict) else {"value": data})})
    )
    work.done.append(f"publish {kind}")


async def _enter(work: Work, action: Action) -> None:
    step = work.text(action.values.get("step", action.values.get("phase", ""))).strip()
    if work.workflow.step(step) is None:
        work.note(f"workflow {work.workflow.name!r}: there is no step {step!r} to enter")
        return
    work.state.wanted, work.changed = step, True
    work.done.append(f"enter {step}")


async def _end(work: Work, action: Action) -> None:  # noqa: ARG001 - as every action
    work.state.status, work.changed = "ended", True
    work.done.append("end")


async def _block_tools(work: Work, action: Action) -> None:
    """Gobby's rules about tools, as an action of a trigger."""
    if work.event.type != EventType.TOOL_PRE_EXECUTE:
        return
    rules = [read_rule(rule) for rule in action.values.get("rules") or () if isinstance(rule, dict)]
    for decision, reason in await objection(work.event, work.workflow.name, None, rules, work.holds):
        text = work.reason_text(reason)
        if decision == "deny":
            work.deny(text)
        elif decision == "ask":
            work.ask(text)
        else:
            work.contexts.append(text)
        work.done.append(f"tools: {decision}")


ACTIONS: Final[Mapping[str, Do]] = {
    "context": _context,
    "note": _note,
    "deny": _deny,
    "ask": _ask,
    "set": _set,
    "increment": _increment,
    "publish": _publish,
    "enter": _enter,
    "end": _end,
    "block_tools": _block_tools,
    "webhook": run_webhook,
    "command": run_command,
    "plugin": run_plugin,
    "mcp_tool": run_tool,
    **gobby_actions.ACTIONS,
}
