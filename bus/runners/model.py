"""Runs prompt and agent hooks: a model judges the event (I-12, docs/prompt-hooks.md)."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Final

import msgspec

from bus.config.model_entry import ModelEntry
from bus.errors import DecodeError, FleethookError
from bus.events import STOPS, Event, EventType
from bus.hookfiles import find_http
from bus.hookfiles.command_results import hook_name, log_failure
from bus.hooks import NATIVE, Hook, ModelPrompt
from bus.http.webhook_client import WebhookClient
from bus.judge.answers import Judgement
from bus.judge.cache import AnswerCache, question_key
from bus.judge.chat import Accepting, Chat, ModelFailed
from bus.judge.conversation import ask, ask_with_tools
from bus.judge.file_tools import FileTools
from bus.matching.paths import place_of
from bus.outcomes import Outcome
from bus.runners.large_event import written
from bus.runners.per_file import run_per_file
from bus.secrets.redaction import redact_text, redact_whole
from bus.tracing.context import trace_of
from bus.verdicts import ModelUse
from bus.wire.codec import write_json

NO_MODEL: Final = "no model is configured: set `model:` in your own fleethook.yaml or in the fleet's set"

_NOT_SENT: Final = frozenset({"id", "time", "session", "host", "call", "parent", "traceparent", "tracestate", "raw"})
_NOT_SENT_OF_CLAUDE: Final = frozenset(
    {
        "session_id",
        "transcript_path",
        "agent_transcript_path",
        "tool_use_id",
        "prompt_id",
        "scratchpad_dir",
        "timestamp",
    }
)
"""Ids and the like: they say nothing to a judge, and no two events would be the same question with them."""

_ENDS_TURN: Final = frozenset(
    {EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value, EventType.TOOL_BATCH.value}
)
"""Events at which a no of Claude Code's prompt hook ends the turn, unless the hook has `continueOnBlock`."""


class ModelRunner:
    """Runs the prompt and agent hooks of one process, and remembers answers."""

    def __init__(self) -> None:
        self._cache, self._accepting = AnswerCache(), Accepting()

    async def run(
        self, hook: Hook, event: Event, seconds: float, server: ModelEntry | None, client: WebhookClient
    ) -> Outcome:
        """The model's judgement as an outcome; an imported hook asks once per file of a call about several."""

        async def judge(call: Event, left: float) -> Outcome:
            outcome = await self._run(hook, call, left, server, client)
            if outcome.failure:
                log_failure(call, outcome.failure)
            return outcome

        return await run_per_file(hook, event, seconds, judge)

    async def _run(
        self, hook: Hook, event: Event, seconds: float, server: ModelEntry | None, client: WebhookClient
    ) -> Outcome:
        name, prompt = hook_name(hook), hook.agent or hook.prompt
        if prompt is None or server is None:
            return Outcome(failure=f"{name} asks a model, and {NO_MODEL}")
        try:
            payload = await _payload(hook, event, server)
        except (DecodeError, TypeError, ValueError) as error:
            return Outcome(failure=f"{name} did not ask the model: {error}")
        model = model_name(hook, prompt, server)
        key = question_key(server, model, prompt.text, payload)
        known = self._cache.find(key) if hook.agent is None and server.cache else None
        if known is not None:
            return _outcome(hook, prompt, event, known, ModelUse(name=model, cached=True))
        deadline = time.monotonic() + seconds
        chat = Chat(client, server, model, self._accepting, deadline=deadline, trace=trace_of(event))
        failure, output = "", ""
        try:
            async with asyncio.timeout(seconds):
                answer = await _ask(hook, prompt, event, chat, payload, deadline)
            if hook.agent is None:
                self._cache.keep(key, answer, server)
            return _outcome(hook, prompt, event, answer, _use(chat, server, model))
        except ModelFailed as error:
            failure, output = str(error), error.output
        except TimeoutError:
            failure = f"the model timed out after {round(seconds, 1):g} s"
        except FleethookError as error:  # a key or a header that this machine does not have
            failure = str(error)
        return Outcome(failure=f"{name}: {failure}", output=output, model=_use(chat, server, model))


async def _ask(hook: Hook, prompt: ModelPrompt, event: Event, chat: Chat, payload: Any, deadline: float) -> Judgement:
    if hook.agent is None:
        return await ask(chat, prompt.text, payload)
    place = place_of(event.cwd) if event.cwd else None
    root = place.project if place is not None and not place.broad else ""
    return await ask_with_tools(chat, prompt.text, payload, FileTools(root, deadline), prompt.rounds)


def model_name(hook: Hook, prompt: ModelPrompt, server: ModelEntry) -> str:
    """The endpoint's name of the model that a hook asks.

    A hook of another system names that system's models (`haiku`): one that `names` lacks counts as the configured model.
    """
    if not prompt.model:
        return server.name
    return server.names.get(prompt.model, prompt.model if hook.dialect == NATIVE else server.name)


async def _payload(hook: Hook, event: Event, server: ModelEntry) -> Any:
    """What the model sees of the event: as the hook's own system gives it, without ids, redacted.

    Raises DecodeError for an event that is too large: a judge that sees a part of it could be misled.
    """
    dialect = find_http(hook.dialect)

    def plain() -> dict[str, Any]:
        if dialect is not None:
            fields = json.loads(dialect.http_body(event, None, hook))
            return {key: value for key, value in fields.items() if key not in _NOT_SENT_OF_CLAUDE}
        fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _NOT_SENT}
        return {name: value for name, value in fields.items() if value not in ("", None, {})}

    def body() -> bytes:
        fields = plain()
        if (size := len(write_json(fields))) > server.max_bytes:
            raise DecodeError(f"the event has {size} bytes, and {server.max_bytes} is the most (max_bytes)")
        return write_json(redact_whole(fields))

    return json.loads(await written(event, body))


def _use(chat: Chat, server: ModelEntry, model: str) -> ModelUse:
    price, cost = server.prices.get(model), None
    if price is not None and chat.is_counted and chat.requests:
        cost = round((chat.input_tokens * price.input + chat.output_tokens * price.output) / 1_000_000, 9)
    return ModelUse(
        name=model,
        requests=chat.requests,
        input_tokens=chat.input_tokens,
        output_tokens=chat.output_tokens,
        cost=cost,
        currency=server.currency if cost is not None else "",
    )


def _outcome(hook: Hook, prompt: ModelPrompt, event: Event, answer: Judgement, use: ModelUse) -> Outcome:
    """Not ok denies (or asks); ok is abstain and never allow, so that no model switches off the agent's own question."""
    reason = redact_text(answer.reason)
    shown = json.dumps({"ok": answer.ok, "reason": reason}, ensure_ascii=False)
    if answer.ok:
        return Outcome(output=shown, model=use)
    if answer.impossible and event.type in STOPS:
        note = f"hook {hook.id!r}: its condition cannot be met, so the agent may stop: {reason or 'no reason given'}"
        return Outcome(note=note, output=shown, model=use)
    reason = reason or f"hook {hook.id!r} says that it is not ok and gives no reason"
    dialect = find_http(hook.dialect)
    if dialect is None:
        return Outcome(decision=prompt.decision, reason=reason, output=shown, model=use)
    reply: dict[str, Any] = {"decision": "block", "reason": reason}
    if event.type in _ENDS_TURN and not hook.own.get("continue"):
        reply |= {"continue": False, "stopReason": reason}
    found = dialect.http_answer(write_json(reply), hook, event)
    return msgspec.structs.replace(found, output=shown, model=use)
