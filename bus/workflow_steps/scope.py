"""The names that conditions and texts of workflows read: the event in Gobby's form, the state, and functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

import msgspec

from bus.events import Event, EventType
from bus.plugins.conversion import hook_event
from bus.shell import commands_if_light
from bus.workflow_steps.state import FlowState
from bus.workflow_steps.tool_discovery import is_discovery_tool, is_tool_unlocked
from bus.workflows.python_values import NamedFields
from bus.workflows.values import Workflow

_SHOWN_OUTPUT: Final = 100_000
_PLAN_FILE: Final = re.compile(r"(?:^|/)\.[a-z]+/plans/[^/]+\.md\Z")
"""A plan that an agent keeps of its own, such as `.claude/plans/x.md`."""


class _EventName(str):
    """An event's name in Gobby's form that equals its other names too: a stop is `stop` and `after_agent`."""

    __slots__ = ("_others",)
    _others: frozenset[str]

    def __new__(cls, name: str, *others: str) -> Self:
        made = super().__new__(cls, name)
        made._others = frozenset({name, *others})
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(getattr(other, "value", other)).replace("-", "_") in self._others

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    @property
    def value(self) -> str:
        """The name, as of Gobby's enum."""
        return str(self)


_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    EventType.AGENT_STOP: ("stop", "after_agent"),
    EventType.AGENT_END: ("after_agent",),
    EventType.USER_PROMPT_SUBMIT: ("before_agent", "user_prompt_submit", "prompt_submit"),
    EventType.TOOL_PRE_EXECUTE: ("before_tool", "pre_tool_use", "tool_call"),
    EventType.TOOL_POST_EXECUTE: ("after_tool", "post_tool_use", "tool_result"),
    EventType.TOOL_ERROR: ("after_tool", "post_tool_use", "tool_result"),
}


def event_names(event: Event) -> dict[str, Any]:
    """What is read of an event: `event`, `tool_name`, `tool_args`, `prompt`, and the helpers of Gobby's documents."""
    found = hook_event(event, event.type)
    names = _OTHERS.get(event.type, (found.event_type.value,))
    kind = _EventName(names[0], *names, event.type)
    data = found.data
    tool = str(data.get("tool_name") or "")
    tool_input = data.get("tool_input")
    tool_input = tool_input if isinstance(tool_input, dict) else {}
    # Both spellings of an input are read: the agent's own, and the canonical one.
    arguments = {**event.input, **tool_input}
    data = {**data, "tool_args": arguments} if tool else data
    prompt = str(event.data.get("prompt") or "")
    file = _first(arguments, "file_path", "path", "notebook_path")
    command = _first(arguments, "command")
    fields = {
        "event_type": kind,
        "type": event.type,
        "id": event.id,
        "session_id": found.session_id,
        "session": found.session_id,
        "source": found.source.value,
        "timestamp": found.timestamp,
        "time": event.time,
        "data": data,
        "machine_id": found.machine_id,
        "host": event.host,
        "cwd": found.cwd,
        "user_id": found.user_id,
        "project_id": found.project_id,
        "task_id": found.task_id,
        "workflow_id": found.workflow_id,
        "metadata": found.metadata,
        "tool": event.tool,
        "tool_name": tool,
        "input": event.input,
        "output": event.output,
        "prompt": prompt,
    }
    return {
        "event": NamedFields(fields, event.type),
        "event_type": kind,
        "event_data": data,
        "tool_name": tool,
        "tool": tool,
        "tool_args": arguments,
        "tool_input": arguments,
        "tool_output": event.output,
        "tool_result": NamedFields(
            {**_mapping(event.output), "is_error": event.type == EventType.TOOL_ERROR}, _plain(event)
        ),
        "file": file,
        "command": command,
        "prompt": prompt,
        "session_id": event.session,
        "cwd": event.cwd,
        "source": event.source,
        "timestamp": datetime.fromtimestamp(event.time / 1000, UTC).isoformat() if event.time else "",
        "project": NamedFields(
            {"path": event.cwd, "name": event.cwd.rstrip("/").rpartition("/")[2], "id": found.project_id}
        ),
        "user_says": lambda *texts: any(_says(prompt, text) for text in texts),
        "command_in": lambda *programs: _command_in(command, programs),
        "command_contains": lambda *texts: any(str(text) in command for text in texts),
        "is_plan_file": lambda path, *_: _PLAN_FILE.search(str(path)) is not None,
        "len": len,
        "bool": bool,
        "str": _text,
        "int": int,
        "list": list,
        "dict": dict,
        **{
            function.__name__: function for function in (any, all, min, max, sum, abs, round, float, sorted, set, tuple)
        },
    }


def expression_names(workflow: Workflow, state: FlowState, shared: Mapping[str, Any], event: Event) -> dict[str, Any]:
    """What is read of the state: variables at top level, `state`, `step`, the counters, and functions."""
    variables = {**workflow.session_variables, **shared, **state.variables}
    view = state_names(state, variables)
    session = {
        "id": state.session or event.session,
        "session_id": state.session or event.session,
        "source": event.source,
        "cwd": event.cwd,
        "machine_id": event.host,
        "status": state.session_status,
        "files_read": _Files(state.files_read),
        "files_written": _Files(state.files_written),
        **shared,
    }
    return {
        **{name: value for name, value in variables.items() if name.isidentifier()},
        "variables": variables,
        "vars": state.variables,
        "shared": dict(shared),
        "state": view,
        "workflow_state": view,
        "workflow": {"name": workflow.name, "step": state.step, "description": workflow.description},
        "context": {**session, "variables": variables},
        "session": session,
        "config": workflow.config,
        "artifacts": state.artifacts,
        "observations": [],
        "step": state.step,
        "phase": state.step,
        "step_action_count": state.step_actions,
        "phase_action_count": state.step_actions,
        "total_action_count": state.total_actions,
        "handoff": variables.get("handoff"),
        "summary": variables.get("summary"),
        "has_handoff": _Fact(bool(variables.get("handoff"))),
        "has_previous_session": _Fact(bool(variables.get("summary"))),
        "mcp_called": lambda server, tool=None: bool(_calls(state, server, tool)),
        "mcp_failed": lambda server, tool: any(call.get("failed") for call in _calls(state, server, tool)),
        "mcp_result_is_null": lambda server, tool: any(
            call.get("result") is None for call in _calls(state, server, tool)
        ),
        "mcp_result_has": lambda server, tool, field, value: any(
            _mapping(call.get("result")).get(field) == value for call in _calls(state, server, tool)
        ),
        "task_tree_complete": lambda *ids: not any(ids),
        "task_needs_user_review": lambda *_: False,
        "artifact_exists": lambda *names: all(str(name) in state.artifacts for name in names),
        "has_stop_signal": lambda *_: False,
        "is_discovery_tool": is_discovery_tool,
        "is_tool_unlocked": lambda tool_input=None, *_: is_tool_unlocked(tool_input, variables),
    }


def state_names(state: FlowState, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The state as expressions and texts read it."""
    return {
        **msgspec.to_builtins(state),
        "variables": dict(variables),
        "step": state.step,
        "phase": state.step,
        "session_id": state.session,
        "workflow_name": state.workflow,
        "artifacts": dict(state.artifacts),
        "observations": [],
        "step_action_count": state.step_actions,
        "phase_action_count": state.step_actions,
        "total_action_count": state.total_actions,
    }


class _Files(list[str]):
    """Paths; one is among them by its whole path, its path below the event's folder, or its end (`plan.md`)."""

    def __contains__(self, path: object) -> bool:
        wanted = str(path).removeprefix("./")
        return any(known == wanted or known.endswith(f"/{wanted}") for known in self)


def _command_in(line: str, programs: Sequence[Any]) -> bool:
    """Whether a command of the line is one of these: a program, or the first words of its command."""
    wanted = [str(each) for group in programs for each in (group if isinstance(group, list | tuple) else [group])]
    read = commands_if_light(line)
    commands = [(command.program, command.line) for command in read.items] if read is not None else []
    commands = commands or [(line.split(maxsplit=1)[0] if line.strip() else "", line)]
    return any(
        program == text.lower() or f"{whole} ".startswith(f"{text} ") for program, whole in commands for text in wanted
    )


class _Fact:
    """A fact that conditions name or call: `has_handoff` and `has_handoff()`."""

    __slots__ = ("_holds",)

    def __init__(self, holds: bool) -> None:
        self._holds = holds

    def __bool__(self) -> bool:
        return self._holds

    def __call__(self) -> bool:
        return self._holds


def _calls(state: FlowState, server: object, tool: object) -> list[dict[str, Any]]:
    wanted = f"{server}:{tool}" if tool else f"{server}:"
    return [call for name, call in state.mcp.items() if (name == wanted if tool else name.startswith(wanted))]


def _says(prompt: str, text: object) -> bool:
    return re.search(rf"(?<!\w){re.escape(str(text))}(?!\w)", prompt, re.IGNORECASE) is not None


def _first(fields: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str)), "")


def _mapping(value: object) -> dict[str, Any]:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def _plain(event: Event) -> str:
    return event.output[:_SHOWN_OUTPUT] if isinstance(event.output, str) else ""


def _text(value: object = "") -> str:
    return str(value)
