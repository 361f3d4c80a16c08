"""The requests of a workflow's webhooks: address, headers and body with their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import Hook
from bus.secrets.redaction import redact, redact_text
from bus.wire.codec import write_json
from bus.workflows.templates import command_line, header_text, render, render_all
from bus.workflows.values import Action, Workflow


def webhook_request(workflow: Workflow, action: Action, event: Event, names: Mapping[str, Any]) -> dict[str, Any]:
    """`url`, `method`, `headers`, `body` (bytes) and `timeout` of a webhook; raises ConfigError."""
    values = dict(action.values)
    name = values.get("webhook_id")
    if name:
        known = workflow.webhooks.get(str(name))
        if not isinstance(known, dict):
            raise ConfigError(f"no webhook has the id {str(name)[:64]!r}")
        values = {**known, **{key: value for key, value in values.items() if key not in {"webhook_id", "url"}}}
    url = render(str(values.get("url") or ""), names).strip()
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{url[:200]!r} is no address that begins with http:// or https://")
    written = values.get("headers") or {}
    headers = {str(key): render(header_text(str(value)), names) for key, value in written.items()}
    body, kind = _body(workflow, values, event, names)
    if kind and not any(key.lower() == "content-type" for key in headers):
        headers["Content-Type"] = kind
    return {
        "url": url,
        "method": str(values.get("method") or "POST").upper(),
        "headers": headers,
        "body": body,
        "timeout": float(values.get("timeout") or 30.0),
    }


def command_hook(hook: Hook, action: Action, names: Mapping[str, Any]) -> Hook:
    """The command of an action as a hook, with its values in the environment; raises ConfigError.

    Its id, and so FLEETHOOK_HOOK, is the same at every run for an event.
    """
    values, workflow = action.values, hook.workflow
    line, variables = command_line(str(values.get("command") or ""), names)
    return Hook(
        id=f"{hook.id}/{action.id}",
        on=hook.on,
        command=line,
        blocking=False,
        timeout=float(values.get("timeout") or 30.0),
        working_dir=render(str(values.get("cwd") or ""), names),
        env=variables,
        env_pass=() if workflow is None else workflow.env_pass,
        layer=hook.layer,
        origin=hook.origin,
        version=hook.version,
        pins=hook.pins,
    )


def _body(workflow: Workflow, values: Mapping[str, Any], event: Event, names: Mapping[str, Any]) -> tuple[bytes, str]:
    """The body, and its type where it has to be said. A text is sent as it is, anything else as JSON."""
    payload = values.get("payload")
    if isinstance(payload, str):
        return redact_text(render(payload, names)).encode("utf-8", "replace"), ""
    if payload is not None:
        return write_json(redact(render_all(payload, names))), "application/json"
    variables = names.get("variables") or {}
    body = {
        "event": render(str(values.get("event") or "workflow"), names),
        "workflow": workflow.name,
        "step": names.get("step") or "",
        "session_id": event.session,
        "source": event.source,
        "machine_id": event.host,
        "cwd": event.cwd,
        "event_id": event.id,
        "event_type": event.type,
        "timestamp": names.get("timestamp") or "",
        "variables": variables,
    }
    return write_json(redact(body)), "application/json"
