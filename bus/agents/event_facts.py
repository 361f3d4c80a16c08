"""The facts that hook scripts need of an event of any agent: model, messages, tokens, the tool's call and result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from bus.events import Event, EventType
from bus.tools import input_for, tool_for

_MODEL: Final = ("model", "llm_model", "model_name", "model_id", "modelId")
_MODEL_ID: Final = ("id", "modelID", "model_id", "name")
_USER: Final = ("prompt", "user_message", "user_prompt", "user_input", "initialPrompt")
_ASSISTANT: Final = ("last_assistant_message", "assistant_message", "prompt_response")
_ANSWER: Final = ("text", "response", "delta", "content")
_TURN: Final = ("turn_number", "turn", "turnNumber", "iteration")
_TOKENS: Final = ("llm_tokens", "tokens", "total_tokens", "totalTokens", "totalTokenCount")
_PARTS: Final = (("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens"))
_RESULT: Final = ("output", "llmContent", "textResultForLlm", "text", "result")
_ERROR: Final = ("error", "error_message", "errorMessage", "message")


def tool_call(agent: str, event: Event) -> tuple[str, dict[str, Any]]:
    """The name and input of the event's tool call as `agent` writes them; the canonical ones if it has no such tool."""
    tool = event.native_tool if event.source == agent and event.native_tool else tool_for(agent, event.tool)
    return tool, input_for(agent, tool, event.source, event.native_tool, event.input)


def as_json(value: object, *, compact: bool = True) -> str:
    """A value as JSON with its letters as they are; ValueError or TypeError for what JSON does not have."""
    separators = (",", ":") if compact else None
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators, default=_plain)


def model(event: Event) -> str:
    """The model that the agent uses, if the event has it."""
    for holder in (event.data, _mapping(event.data.get("llm_request"))):
        for name in _MODEL:
            value = holder.get(name)
            found = _first(value, _MODEL_ID) if isinstance(value, Mapping) else value
            if isinstance(found, str) and found:
                return found
    return ""


def user_message(event: Event) -> str:
    """The prompt of the user, if the event has it."""
    if event.type == EventType.SESSION_MESSAGE and event.data.get("message_role") == "user":
        return _first(event.data, ("message_content",))
    return _first(event.data, _USER)


def assistant_message(event: Event) -> str:
    """The last answer of the model, if the event has it."""
    if event.type == EventType.SESSION_MESSAGE and event.data.get("message_role") == "assistant":
        return _first(event.data, ("message_content",))
    names = (*_ASSISTANT, *_ANSWER) if event.type == EventType.LLM_POST_RESPONSE else _ASSISTANT
    return _first(event.data, names)


def turn_number(event: Event) -> str:
    """The number of the turn as the agent counts it; empty for most agents, which only have ids of turns."""
    return _number(event.data, _TURN)


def tokens(event: Event) -> str:
    """The tokens of an answer of the model in all, if the event has them."""
    response = _mapping(event.data.get("llm_response"))
    holders = (event.data, _mapping(event.data.get("usage")), _mapping(response.get("usageMetadata")))
    for holder in holders:
        found = _number(holder, _TOKENS)
        if found:
            return found
        for pair in _PARTS:
            parts = [_number(holder, (name,)) for name in pair]
            if all(parts):
                return str(sum(int(part) for part in parts))
    return ""


def tool_failed(event: Event) -> bool:
    """Whether the tool failed: the event is of that type, or its output names an error."""
    error = event.output.get("error") if isinstance(event.output, Mapping) else None
    return event.type == EventType.TOOL_ERROR or (isinstance(error, (str, Mapping)) and bool(error))


def error_text(event: Event) -> str:
    """Why a tool failed, in the agent's words."""
    for holder in (event.data, _mapping(event.output)):
        value = holder.get("error")
        found = _first(value, _ERROR) if isinstance(value, Mapping) else value
        if isinstance(found, str) and found:
            return found
    return ""


def output_text(event: Event, changed: object = None) -> str:
    """What a tool printed or returned, as text; of an output with many fields the one that the model reads, else all.

    `changed` takes the place of the event's own output where it is given.
    """
    text = _text(event.output if changed is None else changed)
    return text or error_text(event)


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        texts = [part["text"] for part in value if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
        return "\n".join(texts) if len(texts) == len(value) else as_json(value)
    if not isinstance(value, Mapping):
        return as_json(value)
    if isinstance(value.get("stdout"), str):
        return "\n".join(part for part in (value["stdout"], value.get("stderr")) if isinstance(part, str) and part)
    blocks = value.get("content")
    if isinstance(blocks, list):
        return _text(blocks)
    found = next((value[name] for name in _RESULT if isinstance(value.get(name), (str, list))), None)
    return as_json(value) if found is None else _text(found)


def _first(holder: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((value for name in names if isinstance(value := holder.get(name), str) and value), "")


def _number(holder: Mapping[str, Any], names: Iterable[str]) -> str:
    for name in names:
        value = holder.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return value
    return ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return msgspec.to_builtins(value)
