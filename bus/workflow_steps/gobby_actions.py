"""Gobby's own actions, as far as they mean something here; the others are known and do nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from bus.workflow_steps.tool_discovery import UNLOCKED, called_tool
from bus.workflow_steps.work import Work
from bus.workflows.values import Action

_MOST_READ: Final = 32_000
_MOST_UNLOCKED: Final = 500


async def _inject_context(work: Work, action: Action) -> Mapping[str, Any] | None:
    """Context from what is known: a variable of the source's name, the artifacts, or the state."""
    sources = action.values.get("source")
    names = [str(name) for name in (sources if isinstance(sources, list) else [sources]) if name]
    found = {name: text for name in names if (text := _source(work, name))}
    template = action.values.get("template")
    work.extra |= {
        **found,
        "handoff": found.get("handoff") or found.get("compact_handoff", ""),
        "summary": found.get("previous_session_summary", ""),
    }
    text = work.text(template) if template else "\n\n".join(found.values())
    if names and not found:
        if action.values.get("require"):
            work.deny(f"the workflow {work.workflow.name!r} needs {', '.join(names)}, and there is none")
            return {"decision": "block", "reason": work.reason}
        if "{%" not in str(template or ""):  # nothing is known, and the text has no case for that
            return None
    if text.strip():
        work.contexts.append(text)
        work.done.append("context")
    return {"inject_context": text}


def _source(work: Work, name: str) -> str:
    state = work.state
    if name == "artifacts":
        return "\n".join(f"{label}: {path}" for label, path in state.artifacts.items())
    if name == "workflow_state":
        variables = ", ".join(f"{key}={value}" for key, value in state.variables.items())
        return f"workflow {work.workflow.name}, step {state.step or '-'}, {state.step_actions} actions; {variables}"
    short = {"previous_session_summary": "summary", "compact_handoff": "handoff"}.get(name, name)
    value = work.get(name) or work.get(short)
    return str(value) if value else ""


async def _capture_artifact(work: Work, action: Action) -> None:
    found = work.effects.read_file(work.text(action.values.get("pattern", "")))
    label = str(action.values.get("as") or action.values.get("save_as") or action.values.get("pattern"))
    if found is None:
        work.note(f"workflow {work.workflow.name!r}: no file fits {action.values.get('pattern')!r}")
        return
    work.state.artifacts[label], work.changed = found[0], True
    work.done.append(f"artifact {label}")


async def _read_artifact(work: Work, action: Action) -> Mapping[str, Any] | None:
    pattern = work.text(action.values.get("pattern", ""))
    found = work.effects.read_file(work.state.artifacts.get(pattern, pattern))
    if found is None:
        work.note(f"workflow {work.workflow.name!r}: no file fits {pattern!r}")
        return None
    name = str(action.values.get("as") or action.values.get("variable") or "artifact")
    work.set(name, found[1][:_MOST_READ])
    work.done.append(f"set {name}")
    return None


async def _write_todos(work: Work, action: Action) -> None:
    todos = work.rendered(action.values.get("todos") or [])
    lines = [f"- [ ] {text}" for text in (todos if isinstance(todos, list) else [todos])]
    name = work.text(action.values.get("filename") or "TODO.md")
    append = str(action.values.get("mode") or "w").startswith("a")
    head = "" if append else "# TODOs\n\n"
    work.effects.write_file(name, head + "\n".join(lines) + "\n", append=append)
    work.done.append(f"write {name}")


async def _mark_todo(work: Work, action: Action) -> None:
    name = work.text(action.values.get("filename") or "TODO.md")
    text = work.text(action.values.get("todo_text") or action.values.get("todo") or "")
    found = work.effects.read_file(name)
    if found is None or f"- [ ] {text}" not in found[1]:
        work.note(f"workflow {work.workflow.name!r}: {name} has no open entry {text!r}")
        return
    work.effects.write_file(name, found[1].replace(f"- [ ] {text}", f"- [x] {text}", 1), append=False)
    work.done.append(f"write {name}")


async def _call_model(work: Work, action: Action) -> None:
    answer = await work.effects.model(work.text(action.values.get("prompt", "")))
    work.set(str(action.values.get("output_as") or "llm_output"), answer[:_MOST_READ])
    work.done.append("model")


async def _session_status(work: Work, action: Action) -> None:
    work.state.session_status, work.changed = work.text(action.values.get("status", "")), True
    work.done.append("status")


async def _switch_mode(work: Work, action: Action) -> None:
    work.contexts.append(f"Switch to the mode {work.text(action.values.get('mode', ''))!r} now.")
    work.done.append("context")


async def _loop_complete(work: Work, action: Action) -> None:  # noqa: ARG001 - as every action
    work.set("stop_reason", "completed")
    work.done.append("set stop_reason")


async def _handoff(work: Work, action: Action) -> Mapping[str, Any]:
    """Keep a text about the work so far for a later `inject_context`: the template's, else the workflow's state in words."""
    name = "summary" if action.kind == "generate_summary" else "handoff"
    template = action.values.get("template")
    parts = [_source(work, "workflow_state"), _source(work, "artifacts")]
    text = work.text(template) if template else "\n".join(filter(None, parts))
    work.set(name, text[:_MOST_READ], shared=True)
    work.done.append(name)
    return {name: text}


async def _schema_lookup(work: Work, action: Action) -> None:  # noqa: ARG001 - as every action
    """Remember that the tool whose schema was looked up may be called (`is_tool_unlocked`)."""
    name = called_tool(work.event.input)
    known = work.get(UNLOCKED)
    known = known if isinstance(known, list) else []
    if name and name not in known:
        work.set(UNLOCKED, [*known, name][-_MOST_UNLOCKED:])
        work.done.append(f"unlock {name}")


ACTIONS: Final[Mapping[str, Callable[[Work, Action], Awaitable[Mapping[str, Any] | None]]]] = {
    "inject_context": _inject_context,
    "capture_artifact": _capture_artifact,
    "read_artifact": _read_artifact,
    "write_todos": _write_todos,
    "mark_todo_complete": _mark_todo,
    "call_llm": _call_model,
    "mark_session_status": _session_status,
    "switch_mode": _switch_mode,
    "mark_loop_complete": _loop_complete,
    "generate_handoff": _handoff,
    "generate_summary": _handoff,
    "track_schema_lookup": _schema_lookup,
}
