"""Asks a model one question, with or without the tools that read files, until it has answered or may ask no more."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final

from bus.errors import DecodeError
from bus.judge.answers import Judgement, read_judgement
from bus.judge.chat import Chat, ChatReply, ModelFailed
from bus.judge.file_tools import TOOLS, FileTools
from bus.judge.messages import LAST_ROUND, SHORT_OF_FORM, Message, first_messages, marked, new_marker
from bus.secrets.redaction import redact_text

MOST_CALLS: Final = 8
"""Tool calls of one answer that are carried out."""

_MOST_ARGUMENTS: Final = 8_000
_SHOWN: Final = 500


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads of their own for reading files: a disk that hangs takes none that the process needs for other work."""
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="file-tools")


async def ask(chat: Chat, text: str, event: Any) -> Judgement:
    """The judgement on an event (JSON-like data); raises ModelFailed and ConfigError."""
    reply = await chat.send(first_messages(text, event, new_marker(), tools=False))
    if reply.calls:
        raise ModelFailed("the model called a tool, and none was offered")
    return _judgement(reply)


async def ask_with_tools(chat: Chat, text: str, event: Any, tools: FileTools, rounds: int) -> Judgement:
    """As `ask`; the model may use the tools before it answers, in at most `rounds` requests."""
    marker = new_marker()
    messages = first_messages(text, event, marker, tools=True)
    for number in range(1, rounds):
        reply = await chat.send(messages, TOOLS)
        if not reply.calls:
            try:
                return read_judgement(reply.text)
            except DecodeError:
                messages += [{"role": "assistant", "content": reply.text}, {"role": "user", "content": SHORT_OF_FORM}]
                break
        if max(len(call.arguments) + len(call.name) + len(call.id) for call in reply.calls) > _MOST_ARGUMENTS:
            raise ModelFailed("the model called a tool with arguments that are too long")
        messages.append(_called(reply))
        for position, call in enumerate(reply.calls):
            if position < MOST_CALLS:
                loop = asyncio.get_running_loop()
                result = await loop.run_in_executor(_threads(), tools.call, call.name, call.arguments)
            else:
                result = f"refused: at most {MOST_CALLS} calls at once"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": marked(result, marker)})
        if number == rounds - 1:
            messages.append({"role": "user", "content": LAST_ROUND})
    reply = await chat.send(messages)
    if reply.calls:
        raise ModelFailed(f"the model used its {rounds} rounds without an answer")
    return _judgement(reply)


def _called(reply: ChatReply) -> Message:
    """The model's own message with its calls, as the endpoint wants it back."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.calls
    ]
    return {"role": "assistant", "content": reply.text or None, "tool_calls": calls}


def _judgement(reply: ChatReply) -> Judgement:
    try:
        return read_judgement(reply.text)
    except DecodeError as error:
        raise ModelFailed(f"the model's answer cannot be used: {error}", redact_text(reply.text[:_SHOWN])) from None
