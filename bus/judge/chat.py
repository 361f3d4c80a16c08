"""One exchange with an OpenAI-compatible chat endpoint: the body of the request, and its answer read strictly."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bus.config.model_entry import ModelEntry
from bus.errors import ConfigError, DecodeError, FleethookError
from bus.http.webhook_client import Reply, WebhookClient
from bus.judge.answers import SCHEMA
from bus.judge.messages import Message
from bus.lazy.conversions import converted
from bus.secrets.redaction import redact_text
from bus.secrets.references import fill, recent_secret
from bus.tracing.context import TraceContext
from bus.tracing.post_spans import note_reply, post_span
from bus.wire.codec import read_json

CAP: Final = 512 * 1024
"""The most bytes of an endpoint's answer that are read."""

_PATH: Final = "/chat/completions"
_ENDINGS: Final = frozenset({"stop", "tool_calls", "function_call", "eos", "eos_token", "end_turn", "stop_sequence"})
"""How servers say that the model came to its own end."""
_NOT_SENT: Final = frozenset({"refused", "dns"})
_SHOWN: Final = 500
Form = Literal["json_schema", "json_object", "text"]
_FORMS: Final[tuple[Form, ...]] = ("json_schema", "json_object", "text")
_MOST_KNOWN: Final = 256
_MOST_TOKENS: Final = 10**9


class ModelFailed(FleethookError):
    """A model gave no answer that can be used; `output` has details for the trace alone."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class ModelToolCall(NamedTuple):
    """A tool that the model wants to use; its arguments are the text that the model wrote."""

    id: str
    name: str
    arguments: str


class ChatReply(NamedTuple):
    """The model's message: its text, or the tools that it wants to use, and what it cost in tokens."""

    text: str
    calls: tuple[ModelToolCall, ...]
    input_tokens: int
    output_tokens: int


class _Function(msgspec.Struct):
    name: str
    arguments: Any = ""
    """JSON as text; some servers give the object itself."""


class _Call(msgspec.Struct):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: Any = None


class Accepted(NamedTuple):
    """What a server accepts of a request."""

    form: Form = "json_schema"
    limit: str = "max_tokens"
    """The name of the field with the most tokens; newer models of OpenAI refuse the older one."""


class Accepting:
    """What each endpoint's model accepts, learnt from its refusals; one for a process."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Accepted] = {}

    def of(self, server: ModelEntry, model: str) -> Accepted:
        """What to send first."""
        known = self._known.get((server.url, model), Accepted())
        return known if server.answers == "auto" else known._replace(form=server.answers)

    def note(self, server: ModelEntry, model: str, accepted: Accepted) -> None:
        """Remember what was accepted."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[server.url, model] = accepted


def _weaker(server: ModelEntry, sent: Accepted, reply: Reply) -> Accepted | None:
    """What to send after a refusal; None if nothing else is left."""
    if sent.limit == "max_tokens" and b"max_completion_tokens" in reply.body:
        return sent._replace(limit="max_completion_tokens")
    if server.answers != "auto" or sent.form == "text":
        return None
    return sent._replace(form=_FORMS[_FORMS.index(sent.form) + 1])


class Chat:
    """Sends the requests of one hook's run, and adds up what they use. One for each run."""

    def __init__(
        self,
        client: WebhookClient,
        server: ModelEntry,
        model: str,
        accepting: Accepting,
        *,
        deadline: float,
        trace: TraceContext,
    ) -> None:
        """`deadline` is by the monotonic clock; the requests belong to `trace`."""
        self._client, self._server, self._model, self._accepting = client, server, model, accepting
        self._deadline, self._trace = deadline, trace
        self.requests = self.input_tokens = self.output_tokens = 0
        self._uncounted = 0
        """Requests that may have cost something, and whose tokens are not known."""

    @property
    def is_counted(self) -> bool:
        """Whether the tokens of every request are known."""
        return not self._uncounted

    async def send(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> ChatReply:
        """One answer of the model; with `tools`, it may be calls of them. Raises ModelFailed and ConfigError."""
        known = self._accepting.of(self._server, self._model)
        sent: Accepted | None = known._replace(form="text") if tools else known
        while sent is not None:
            accepted, reply = sent, await self._post(messages, tools, sent)
            sent = _weaker(self._server, sent, reply) if not reply.error and reply.status in {400, 422} else None
        read = self._read(reply)
        if accepted != known and not tools:
            self._accepting.note(self._server, self._model, accepted)
        return read

    async def _post(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sent: Accepted) -> Reply:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ModelFailed("the model timed out")
        body = _body(self._server, self._model, messages, tools, sent)
        url = chat_url(self._server.url)
        self.requests += 1
        self._uncounted += 1
        with post_span(url, self._trace) as span:
            headers = self._headers() | span.context.headers()
            reply = await self._client.post(url, body, headers, seconds=min(left, self._server.timeout), cap=CAP)
            note_reply(span, reply.status, reply.error)
        if reply.error in _NOT_SENT or 300 <= reply.status < 500:  # it was not carried out
            self._uncounted -= 1
        return reply

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._server.key:
            headers["Authorization"] = f"Bearer {recent_secret(self._server.key)}"
        written = fill(self._server.headers)
        ours = {name.lower() for name in headers}
        headers |= {name: value for name, value in written.items() if name.lower() not in ours}
        return headers

    def _read(self, reply: Reply) -> ChatReply:
        shown = redact_text(reply.body[: 2 * _SHOWN].decode("utf-8", "replace"))[:_SHOWN]
        if reply.error == "refused":
            raise ModelFailed("the address policy refuses the model's endpoint (see network.allow)", reply.detail)
        if reply.error == "timeout":
            raise ModelFailed(f"the model timed out: {reply.detail}", shown)
        if reply.error:
            raise ModelFailed(f"the model's endpoint gave no answer ({reply.error}): {reply.detail}", shown)
        if not 200 <= reply.status < 300:
            more = ", a redirect, and none is followed" if 300 <= reply.status < 400 else ""
            raise ModelFailed(f"the model's endpoint answered {reply.status}{more}", shown)
        heads = {name.lower(): value for name, value in reply.headers}
        encoding = heads.get("content-encoding", "identity")
        if encoding not in ("", "identity"):
            raise ModelFailed(f"the model's endpoint answered in {encoding[:40]} encoding, which was not accepted")
        if heads.get("content-type", "").startswith("text/event-stream") or reply.body.startswith(b"data:"):
            raise ModelFailed("the model's endpoint streams its answer, although `stream: false` was asked for", shown)
        if len(reply.body) >= CAP:
            raise ModelFailed(f"the model's endpoint answered with more than {CAP // 1024} KiB", shown)
        try:
            answer = converted(read_json(reply.body), _Answer)
        except (DecodeError, msgspec.ValidationError) as error:
            raise ModelFailed(f"the model's endpoint gave no chat completion: {error}", shown) from None
        self._count(answer.usage)
        if len(answer.choices) != 1:
            raise ModelFailed(f"the model's endpoint gave {len(answer.choices)} answers, and not one", shown)
        return self._message(answer.choices[0])

    def _message(self, choice: _Choice) -> ChatReply:
        message, why = choice.message, choice.finish_reason
        if message.refusal:
            raise ModelFailed("the model refuses to answer", redact_text(message.refusal[:_SHOWN]))
        if why == "length":
            raise ModelFailed("the model's answer was cut off (max_tokens)")
        if why and why not in _ENDINGS:
            raise ModelFailed(f"the model ended without an answer ({why[:40]})")
        calls = tuple(_tool_call(call) for call in message.tool_calls or ())
        return ChatReply(message.content or "", calls, self.input_tokens, self.output_tokens)

    def _count(self, usage: Any) -> None:
        found = [
            usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")
        ]
        numbers = [
            n if isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= _MOST_TOKENS else None for n in found
        ]
        self._uncounted -= None not in numbers
        self.input_tokens += numbers[0] or 0
        self.output_tokens += numbers[1] or 0


def chat_url(base: str) -> str:
    """The URL of the chat endpoint below a base URL, whose query stays at the end."""
    path, mark, query = base.partition("?")
    path = path.rstrip("/")
    return f"{path if path.endswith(_PATH) else path + _PATH}{mark}{query}"


def _tool_call(call: _Call) -> ModelToolCall:
    given = call.function.arguments
    return ModelToolCall(call.id, call.function.name, given if isinstance(given, str) else json.dumps(given))


def _body(
    server: ModelEntry, model: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sent: Accepted
) -> bytes:
    fields: dict[str, Any] = {"model": model, "messages": list(messages), "stream": False}
    fields[sent.limit] = server.max_tokens
    if server.temperature is not None:
        fields["temperature"] = server.temperature
    if tools:
        fields["tools"] = list(tools)
    elif sent.form == "json_schema":
        schema = {"name": "judgement", "strict": True, "schema": SCHEMA}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif sent.form == "json_object":
        fields["response_format"] = {"type": "json_object"}
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def check_key(server: ModelEntry) -> str:
    """Why a request could not be made on this machine: a key or a header's variable is missing; else empty."""
    try:
        if server.key:
            recent_secret(server.key)
        fill(server.headers)
    except ConfigError as error:
        return str(error)
    return ""
