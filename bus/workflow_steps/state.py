"""The state of a workflow in one session, and the record of what it did at one event."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, Literal

import msgspec

from bus.errors import DecodeError
from bus.events import Event
from bus.lazy.conversions import msgpack_decoder
from bus.outcomes import Outcome

MOST_STATE: Final = 256 * 1024
"""The most bytes of a workflow's state; a value that would make it larger is not stored."""


class FlowState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where one session is in one workflow."""

    workflow: str
    source: str = ""
    session: str = ""
    host: str = ""
    cwd: str = ""
    step: str = ""
    """Empty for a workflow without steps."""
    status: Literal["active", "ended"] = "active"
    entered: int = 0
    """When the step began, in milliseconds since 1970."""
    started: int = 0
    updated: int = 0
    transitions: int = 0
    """How often it changed its step."""
    step_actions: int = 0
    """Tool calls that have run in this step."""
    total_actions: int = 0
    variables: dict[str, Any] = msgspec.field(default_factory=dict)
    waits_for: str = ""
    """The exit condition that waits for the person's answer; empty if none does."""
    asked: int = 0
    """When that question was asked."""
    answers: dict[str, bool] = msgspec.field(default_factory=dict)
    """The person's answers in this step, by exit condition."""
    pending_entry: bool = False
    """Whether the actions of its first step have not run yet: a person started it."""
    artifacts: dict[str, str] = msgspec.field(default_factory=dict)
    mcp: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """The last call of each MCP tool, by `server:tool`: whether it failed, and its result."""
    session_status: str = ""
    wanted: str = ""
    """The step that an action wants to enter, at this event or the next one."""
    files_read: list[str] = msgspec.field(default_factory=list)
    files_written: list[str] = msgspec.field(default_factory=list)
    """The last files that tools have read and changed, where a condition asks for them."""
    unclear: list[str] = msgspec.field(default_factory=list)
    """The rules that could not be evaluated, where the person has been told so."""


class Carried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action that becomes a delivery."""

    action: str
    """The action's id in its workflow."""
    kind: Literal["webhook", "command"]
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    """Names that its texts can read beside the record's."""


class Announcement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event that a workflow announces."""

    type: str
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class FlowRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a workflow did at one event."""

    workflow: str
    event: str
    ms: int
    source: str = ""
    session: str = ""
    before: str = ""
    """The step before the event; empty if it began with it."""
    after: str = ""
    """The step after it."""
    moved: bool = False
    """Whether the step was left, also for itself."""
    actions: tuple[str, ...] = ()
    """What it did, in order, for people."""
    decision: Literal["abstain", "deny", "ask"] = "abstain"
    reason: str = ""
    contexts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    names: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the texts of carried actions read: the variables as they were."""
    extras: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Further names, by action."""

    @property
    def summary(self) -> str:
        """What it did as one line."""
        way = f"{self.before or 'start'} -> {self.after}" if self.moved or self.before != self.after else self.after
        done = ", ".join(self.actions)
        return f"workflow {self.workflow}: {'; '.join(part for part in (way, done) if part)}"


def outcome_of(record: FlowRecord) -> Outcome:
    """What a workflow says to an event."""
    return Outcome(
        decision=record.decision,
        reason=record.reason,
        contexts=record.contexts,
        note="; ".join(record.notes),
        output=record.summary,
    )


_STATE: Final = msgpack_decoder(FlowState)
_RECORD: Final = msgpack_decoder(FlowRecord)
_ENCODE: Final = msgspec.msgpack.Encoder().encode


def session_key(event: Event) -> str:
    """The name of an event's session in Redis: a hash, since an agent may send any text."""
    return session_name(event.source, event.session)


def session_name(source: str, session: str) -> str:
    """The name of an agent's session in Redis."""
    return sha256(f"{source}\n{session}".encode("utf-8", "surrogatepass")).hexdigest()[:24]


def encode(value: FlowState | FlowRecord) -> bytes:
    """A state or record as it is stored."""
    return _ENCODE(value)


def decode_state(raw: bytes) -> FlowState:
    """A stored state; raises DecodeError."""
    try:
        return _STATE.decode(raw)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"the state of a workflow cannot be read: {error}") from error


def decode_record(raw: bytes) -> FlowRecord:
    """A stored record; raises DecodeError."""
    try:
        return _RECORD.decode(raw)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"the record of a workflow cannot be read: {error}") from error
