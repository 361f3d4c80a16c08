"""Actions that a workflow waits for: webhooks and commands whose answer counts, plugins' actions, MCP servers' tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from bus.errors import FleethookError
from bus.workflow_steps.requests import webhook_request
from bus.workflow_steps.work import Work
from bus.workflows.templates import render_all
from bus.workflows.values import Action

_REFUSALS = frozenset({"deny", "block"})
_MOST_STORED = 64 * 1024
_TOOL_SECONDS = 30.0
_MOST_SHOWN = 500


async def run_webhook(work: Work, action: Action) -> Mapping[str, Any]:
    """Post a request and read its answer: it may deny (`can_block`), and its parts may become variables."""
    answer = await work.effects.webhook(action, webhook_request(work.workflow, action, work.event, work.names()))
    body = _json(answer.body)
    success = not answer.error and 200 <= answer.status < 300
    work.done.append(f"webhook {answer.status or 'failed'}")
    if answer.error and not action.values.get("can_block"):
        work.note(f"workflow {work.workflow.name!r}: the webhook ({action.id}) failed: {answer.error}")
    capture = action.values.get("capture_response")
    for key, value in {"status_var": answer.status, "body_var": body, "headers_var": dict(answer.headers)}.items():
        if isinstance(capture, dict) and isinstance(capture.get(key), str):
            work.set(capture[key], _bounded(value))
    if action.values.get("can_block"):
        if isinstance(body, dict) and (success or 400 <= answer.status < 500):
            _judge(work, body, f"the webhook {action.id} refused")
        if not success and work.decision != "deny":
            _failed(work, action, answer.error or f"it was answered {answer.status}")
    found: dict[str, Any] = {"success": success, "status_code": answer.status, "error": answer.error or None}
    return {**found, "body": body} if success else found


async def run_command(work: Work, action: Action) -> Mapping[str, Any]:
    """Run a command and read how it ended: with `can_block` an exit that is not 0 denies; `save` keeps what it printed."""
    answer = await work.effects.command(action, work.names())
    work.done.append(f"command {'failed' if answer.error else f'exit {answer.exit_code}'}")
    save = action.values.get("save")
    if isinstance(save, str) and save and not answer.error:
        work.set(save, _bounded(answer.stdout.strip()))
    if action.values.get("can_block"):
        if answer.error:
            _failed(work, action, answer.error)
        elif answer.exit_code:
            work.refused = True
            work.deny(
                (answer.stderr or answer.stdout).strip() or f"the command {action.id} exited with {answer.exit_code}"
            )
        elif answer.stdout.strip():
            work.contexts.append(answer.stdout.strip())
    return {
        "stdout": answer.stdout,
        "stderr": answer.stderr,
        "exit_code": answer.exit_code,
        **({"error": answer.error} if answer.error else {}),
    }


async def run_plugin(work: Work, action: Action) -> Mapping[str, Any] | None:
    """Call an action of a plugin. What it returns may deny, bring context, and set variables by `save`."""
    values = {key: value for key, value in action.values.items() if key not in {"plugin", "name", "save", "with"}}
    kwargs = {**values, **(action.values.get("with") or {})}
    # In Gobby's files a handler may render a text itself, with names of its own.
    kwargs = render_all(kwargs, work.names(), known_only=work.workflow.language == "python")
    context = {
        "session_id": work.event.session,
        "state": {
            **msgspec.to_builtins(work.state),
            "session_id": work.event.session,
            "workflow_name": work.workflow.name,
            "variables": work.state.variables,
            "step": work.state.step,
            "phase": work.state.step,
            "step_action_count": work.state.step_actions,
            "total_action_count": work.state.total_actions,
            "artifacts": dict(work.state.artifacts),
            "observations": [],
        },
        "config": work.workflow.config,
        "event_data": work.names().get("event_data"),
    }
    returned = await work.effects.plugin(action, kwargs, context)
    name = f"plugin {action.values.get('plugin')}:{action.values.get('name')}"
    work.done.append(name)
    result, variables = returned if isinstance(returned, tuple) else (returned, None)
    for key, value in (variables or {}).items():
        if work.state.variables.get(key) != value:
            work.set(key, _bounded(value))
    save = action.values.get("save")
    if isinstance(save, str) and save:
        work.set(save, _bounded(result))
    if not isinstance(result, dict):
        return None
    if result.get("error"):
        work.note(f"workflow {work.workflow.name!r}: {name}: {result['error']}")
    take_result(work, result, f"{name} refused")
    return result


async def run_tool(work: Work, action: Action) -> Mapping[str, Any]:
    """Call a tool of an MCP server. `save` keeps its result; with `can_block` the result may deny, and a failure counts."""
    values = action.values
    server, tool = work.text(values.get("server", "")).strip(), work.text(values.get("tool", "")).strip()
    arguments = work.rendered(values.get("with") or {})
    if not isinstance(arguments, dict):
        raise FleethookError(f"the arguments of the tool {server}:{tool} are no mapping")
    answer = await work.effects.tool(server, tool, arguments, float(values.get("timeout") or _TOOL_SECONDS))
    failure = answer.error or (f"it failed: {_shown(answer.value)}" if answer.is_error else "")
    work.done.append(f"tool {server}:{tool}{' failed' if failure else ''}")
    if failure and values.get("can_block"):
        _failed(work, action, failure)
    elif failure:
        work.note(f"workflow {work.workflow.name!r}: the tool {server}:{tool} ({action.id}): {failure}")
    if failure:
        return {"result": None, "error": failure}
    save = values.get("save")
    if isinstance(save, str) and save:
        work.set(save, _bounded(answer.value))
    if values.get("can_block") and isinstance(answer.value, dict):
        _judge(work, answer.value, f"the tool {server}:{tool} refused")
    return {"result": answer.value}


def take_result(work: Work, result: Mapping[str, Any], refusal: str) -> None:
    """Read what an action returned: a decision, texts for the model and for the person."""
    for key in ("inject_context", "inject_message", "context"):
        text = result.get(key)
        if isinstance(text, str) and text.strip():
            work.contexts.append(text)
            break
    message = result.get("system_message")
    if isinstance(message, str) and message:
        work.note(message)
    _judge(work, {key: value for key, value in result.items() if key in {"decision", "reason"}}, refusal)


def _judge(work: Work, body: Mapping[str, Any], refusal: str) -> None:
    decision = str(body.get("decision") or "").lower()
    reason = body.get("reason")
    text = reason if isinstance(reason, str) and reason.strip() else refusal
    if decision in _REFUSALS:
        work.refused = True
        work.deny(text)
    elif decision == "ask":
        work.ask(text)
    context = body.get("context")
    if isinstance(context, str) and context.strip():
        work.contexts.append(context)


def _failed(work: Work, action: Action, why: str) -> None:
    """Something that may block could not be asked: the failure policy decides."""
    text = f"workflow {work.workflow.name!r}: the {action.kind} {action.id} could not be asked: {why}"
    if work.policy == "deny":
        work.refused = True
        work.deny(f"{text}; its failure policy is deny")
    elif work.policy == "ask":
        work.ask(f"{text}; its failure policy is ask")
    else:
        work.note(f"{text}; its failure policy is allow")


def _shown(value: Any) -> str:
    """A result for people."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text.strip()[:_MOST_SHOWN] or "without a reason"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _bounded(value: Any) -> Any:
    """A value from outside that a variable may keep; a long text is cut."""
    if isinstance(value, str):
        return value[:_MOST_STORED]
    try:
        raw = msgspec.msgpack.encode(value)
    except (TypeError, OverflowError, UnicodeEncodeError, RecursionError):
        return str(value)[:_MOST_STORED]
    return value if len(raw) <= _MOST_STORED else None
