"""The canonical JSON, for programs that have no dialect of their own: an event in, a verdict out."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.errors import DecodeError
from bus.events import GATES, OWN, STOPS, Event, EventType, source_name
from bus.lazy.conversions import converted
from bus.shim.answer import HookAnswer
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Verdict
from bus.wire.codec import read_payload, write_json

_T = EventType

_WAITING: Final = (
    GATES
    | STOPS
    | {
        _T.TOOL_POST_EXECUTE,
        _T.TOOL_ERROR,
        _T.TOOL_BATCH,
        _T.LLM_PRE_REQUEST,
        _T.SESSION_START,
        _T.SUBAGENT_START,
        _T.CONTEXT_PRE_COMPACT,
        _T.MODEL_PRE_SWITCH,
        _T.CONFIG_CHANGE,
        _T.TASK_CREATED,
        _T.TASK_COMPLETED,
        _T.TOOL_SELECT,
        _T.TURN_START,
        _T.AGENT_START,
    }
)

_FIELDS: Final = frozenset(Event.__struct_fields__)


CAPABILITIES: Final[dict[str, Capability]] = {
    kind.value: Capability(
        type=kind.value,
        waits=waits,
        block=waits,
        ask=waits,
        rewrite=waits,
        context=waits,
        output="field" if waits else "",
        halts=waits,
        grants=waits,
        interrupts=waits,
    )
    for kind in EventType
    if kind not in OWN
    for waits in (kind.value in _WAITING,)
}


class _Dialect:
    """Canonical JSON in both directions; it has no state."""

    name = "generic"
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a JSON object of its fields; unknown fields go to `data`.

        `native` is the type if the object has none. Raises DecodeError if there is no type, or a field has the wrong shape.
        """
        fields = read_payload(payload)
        if not isinstance(fields, dict):
            raise DecodeError(f"event is not a JSON object but a {type(fields).__name__}")
        known: dict[str, Any] = {name: value for name, value in fields.items() if name in _FIELDS}
        known.setdefault("type", native)
        try:
            event = converted(known, Event)
        except msgspec.ValidationError as error:
            raise DecodeError(f"not a valid event: {error}") from error
        if not event.type.strip():
            raise DecodeError("event has no type; write e.g. tool:pre_execute")
        source, tool = source_name(event.source), event.native_tool or event.tool
        others = {name: value for name, value in fields.items() if name not in _FIELDS}
        return msgspec.structs.replace(
            event,
            source=source,
            native=event.native or native,
            host=event.host or host,
            tool=canonical_tool(source, tool),
            native_tool=tool,
            input=canonical_input(source, tool, event.input),
            data={**others, **event.data},
        )

    def render(
        self,
        native: str,  # noqa: ARG002 - the protocol's argument; here every event is answered the same
        verdict: Verdict,
        event: Event | None = None,
    ) -> HookAnswer:
        """The verdict as one line of JSON. The exit code is always 0, even for a deny."""
        reply = {"decision": verdict.decision, "reason": verdict.reason, **msgspec.to_builtins(verdict)}
        reply["event"] = verdict.event or (event.id if event is not None else "")
        return HookAnswer(0, write_json(reply) + b"\n")


DIALECT: Final = _Dialect()
