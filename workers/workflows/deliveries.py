"""Deliveries of workflows: an event that no verdict was asked for, and the webhooks and commands among actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.errors import ConfigError, FleethookError, Unreachable
from bus.events import Event
from bus.hooks import Endpoint, Hook, Schedule
from bus.hooksets.workflows.carried import find_action
from bus.secrets.redaction import redact_text
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.delivery.later_context import LateContexts
from workers.delivery.results import AttemptDetails, AttemptResult, Undeliverable
from workers.delivery.retries import SCHEDULES
from workers.workflows.at_work import Workflows

if TYPE_CHECKING:  # only a fleet with workflows imports it
    from bus.workflow_steps.state import FlowRecord

_SHOWN: Final = 4096
_GOBBY_STATUS: Final = (429, 500, 502, 503, 504)


class WorkflowDeliveries:
    """What a carrier needs for deliveries of workflows."""

    def __init__(self, connections: Connections, keys: Keys, workflows: Workflows, late_contexts: LateContexts) -> None:
        self._connections, self._keys = connections, keys
        self._workflows, self._late_contexts = workflows, late_contexts

    async def run(self, hook: Hook, event: Event) -> AttemptResult:
        """Let a workflow advance at an event. Its contexts come with the session's next event; nothing is denied any more."""
        schedule = SCHEDULES["fast"]
        try:
            record = await self._workflows.runner().handle(hook, event, hook.timeout)
        except Unreachable:
            raise
        except FleethookError as error:
            return AttemptResult("retry", f"workflow {hook.id!r}: {error}", schedule=schedule)
        if record is None:
            return AttemptResult("delivered", evidence=AttemptDetails(output=f"workflow {hook.id}: nothing to do"))
        await self._late_contexts.keep(event, "\n\n".join(record.contexts))
        said = f"; it would {record.decision}: {record.reason}" if record.decision != "abstain" else ""
        text = redact_text("; ".join(filter(None, (record.summary + said, *record.notes))))
        return AttemptResult("delivered", evidence=AttemptDetails(output=text[:_SHOWN]))

    async def command(self, hook: Hook, name: str, event: Event) -> Hook:
        """The command of an action, with the values of its event; raises Undeliverable."""
        from bus.workflow_steps.requests import command_hook

        action = find_action(hook, name)
        names = await self._names(hook, name, event)
        try:
            assert action is not None  # noqa: S101 - the delivery was looked up by it
            return command_hook(hook, action, names)
        except ConfigError as error:
            raise Undeliverable(f"{hook.id}/{name}: {error}") from error

    async def request(self, hook: Hook, name: str, event: Event) -> tuple[Endpoint, bytes, str]:
        """The endpoint, the body and the method of a webhook among the actions; raises Undeliverable."""
        from bus.workflow_steps.requests import webhook_request

        action, workflow = find_action(hook, name), hook.workflow
        names = await self._names(hook, name, event)
        try:
            assert action is not None and workflow is not None  # noqa: S101, PT018 - as above
            request = webhook_request(workflow, action, event, names)
        except ConfigError as error:
            raise Undeliverable(f"{hook.id}/{name}: {error}") from error
        endpoint = Endpoint(
            id=f"{hook.id}/{name}",
            url=request["url"],
            headers=request["headers"],
            timeout=request["timeout"],
            retry=_schedule(workflow.language, action.values.get("retry")),
            layer=hook.layer,
            origin=hook.origin,
            version=hook.version,
        )
        return endpoint, request["body"], request["method"]

    async def _names(self, hook: Hook, name: str, event: Event) -> dict[str, Any]:
        """What the action's texts read, as it was at the event."""
        from bus.workflow_steps.work import names_of

        record = await self._record(hook, event)
        if record is None or hook.workflow is None:
            raise Undeliverable(f"{hook.id}/{name}: the values of its event are no longer kept")
        return names_of(hook.workflow, record, event, name)

    async def _record(self, hook: Hook, event: Event) -> FlowRecord | None:
        from bus.workflow_steps.state import decode_record

        with self._connections.lease() as connection:
            (reply,) = await connection.exchange([("HGET", self._keys("flowed", event.id), hook.id)])
        raw = checked(reply, "reading what a workflow did")
        return decode_record(raw) if raw else None


def _schedule(language: str, retry: object) -> tuple[float, ...] | Schedule:
    """Seconds before each further attempt: those that a file of Gobby names, else the default schedule."""
    if language == "cel":
        return ()
    if not isinstance(retry, dict):
        return "once"
    pause, tries = float(retry.get("backoff_seconds") or 1.0), int(retry.get("max_attempts") or 3)
    return tuple(pause * 2**number for number in range(max(0, min(tries, 10) - 1))) or "once"
