"""Forge's event, which programs for Forge create (F-02)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from bus.agents.forge import DIALECT
from bus.events import Event, EventType
from bus.sdk.plain_values import plain

_NOT_A_NAME: Final = re.compile(r"[^A-Z0-9_]")
_OWN: Final = frozenset({"FORGE_EVENT", "FORGE_TIMESTAMP", "FORGE_SESSION_ID", "FORGE_TOOL_NAME", "FORGE_WORKING_DIR"})


@dataclass
class HookEvent:
    """One event: its type, time (seconds since 1970) and data."""

    type: EventType
    timestamp: float = field(default_factory=time.time)
    data: dict[str, Any] = field(default_factory=dict)
    tool_name: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        """Accepts a type's name too; raises ValueError for an unknown one."""
        self.type = EventType(self.type)

    def to_env(self) -> dict[str, str]:
        """The variables that a hook gets: FORGE_EVENT, FORGE_TOOL_NAME …, and each field of `data` as FORGE_<FIELD> (F-07).

        A field of `data` never replaces a variable of the event's own.
        """
        variables = {"FORGE_EVENT": self.type.value, "FORGE_TIMESTAMP": str(self.timestamp)}
        if self.session_id:
            variables["FORGE_SESSION_ID"] = self.session_id
        if self.tool_name:
            variables["FORGE_TOOL_NAME"] = self.tool_name
        for name, value in self.data.items():
            variable = f"FORGE_{_NOT_A_NAME.sub('_', str(name).upper())}"
            if variable not in _OWN:
                variables[variable] = value if isinstance(value, str) else _worded(value)
        return {name: value.replace("\0", "") for name, value in variables.items()}

    def to_json(self) -> str:
        """type, timestamp, data, tool_name and session_id as a JSON object; values that JSON lacks become text."""
        return json.dumps(
            {
                "type": self.type.value,
                "timestamp": self.timestamp,
                "data": _jsonable(plain(self.data)),
                "tool_name": self.tool_name,
                "session_id": self.session_id,
            }
        )

    @classmethod
    def tool_pre_execute(cls, tool_name: str, arguments: dict[str, Any], session_id: str | None = None) -> Self:
        """Before a tool runs."""
        return cls._made(EventType.TOOL_PRE_EXECUTE, session_id, tool_name, tool_args=arguments)

    @classmethod
    def tool_post_execute(
        cls, tool_name: str, arguments: dict[str, Any], result: dict[str, Any], session_id: str | None = None
    ) -> Self:
        """After a tool has run."""
        return cls._made(EventType.TOOL_POST_EXECUTE, session_id, tool_name, tool_args=arguments, tool_result=result)

    @classmethod
    def tool_error(cls, tool_name: str, arguments: dict[str, Any], error: str, session_id: str | None = None) -> Self:
        """After a tool has failed."""
        return cls._made(EventType.TOOL_ERROR, session_id, tool_name, tool_args=arguments, error=error)

    @classmethod
    def llm_pre_request(cls, model: str, message_count: int, session_id: str | None = None) -> Self:
        """Before a model is called."""
        return cls._made(EventType.LLM_PRE_REQUEST, session_id, llm_model=model, message_count=message_count)

    @classmethod
    def llm_post_response(cls, model: str, tokens: int, session_id: str | None = None) -> Self:
        """After a model has answered."""
        return cls._made(EventType.LLM_POST_RESPONSE, session_id, llm_model=model, llm_tokens=tokens)

    @classmethod
    def llm_stream_start(cls, model: str, session_id: str | None = None) -> Self:
        """A model begins to answer."""
        return cls._made(EventType.LLM_STREAM_START, session_id, llm_model=model)

    @classmethod
    def llm_stream_end(cls, model: str, tokens: int, session_id: str | None = None) -> Self:
        """A model ends its answer."""
        return cls._made(EventType.LLM_STREAM_END, session_id, llm_model=model, llm_tokens=tokens)

    @classmethod
    def session_start(cls, session_id: str) -> Self:
        """A session begins."""
        return cls._made(EventType.SESSION_START, session_id)

    @classmethod
    def session_end(cls, session_id: str) -> Self:
        """A session ends."""
        return cls._made(EventType.SESSION_END, session_id)

    @classmethod
    def session_message(cls, session_id: str, role: str, content: str) -> Self:
        """A message is added."""
        return cls._made(EventType.SESSION_MESSAGE, session_id, message_role=role, message_content=content)

    @classmethod
    def permission_check(
        cls, tool_name: str, level: str, rule: str | None = None, session_id: str | None = None
    ) -> Self:
        """A permission is looked up."""
        return cls._made(EventType.PERMISSION_CHECK, session_id, tool_name, perm_level=level, perm_rule=rule or "")

    @classmethod
    def permission_prompt(cls, tool_name: str, level: str, session_id: str | None = None) -> Self:
        """A person is about to be asked."""
        return cls._made(EventType.PERMISSION_PROMPT, session_id, tool_name, perm_level=level)

    @classmethod
    def permission_granted(cls, tool_name: str, session_id: str | None = None) -> Self:
        """A person granted a permission."""
        return cls._made(EventType.PERMISSION_GRANTED, session_id, tool_name)

    @classmethod
    def permission_denied(cls, tool_name: str, session_id: str | None = None) -> Self:
        """A person denied a permission."""
        return cls._made(EventType.PERMISSION_DENIED, session_id, tool_name)

    @classmethod
    def user_prompt_submit(cls, content: str, session_id: str | None = None) -> Self:
        """A user sends a prompt."""
        return cls._made(EventType.USER_PROMPT_SUBMIT, session_id, user_input=content)

    @classmethod
    def user_interrupt(cls, session_id: str | None = None) -> Self:
        """A user interrupts the agent."""
        return cls._made(EventType.USER_INTERRUPT, session_id)

    @classmethod
    def _made(cls, kind: EventType, session: str | None, tool: str | None = None, **data: object) -> Self:
        return cls(type=kind, data=data, tool_name=tool, session_id=session)


def canonical(event: HookEvent, cwd: str) -> Event:
    """The event in the form that hooks of the bus get, with the program's working directory."""
    given = json.loads(event.to_json())
    return DIALECT.read(event.type.value, json.dumps({**given, "working_dir": cwd}).encode())


def _worded(value: object) -> str:
    made = plain(value)
    return json.dumps(_jsonable(made)) if isinstance(made, dict | list) else str(made)


def _jsonable(value: Any) -> Any:
    """Bytes as text: the wire accepts them, JSON does not."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {name: _jsonable(item) for name, item in value.items()}
    return [_jsonable(item) for item in value] if isinstance(value, list) else value
