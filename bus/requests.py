"""One request on the stream: its fields, its deadline, and the script calls that answer, claim or defer it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from bus.agents import find
from bus.agents.reporter import UNKNOWN_REPORTER, Reporter, read_reporter
from bus.event_folder import UNKNOWN_FOLDER, EventFolder, folder_fields, read_folder
from bus.events import Event, native_type, source_name
from bus.ids import event_id
from bus.memory.charges import placed
from bus.secrets.redaction import redact_text
from bus.shim.answer import pack_answer
from bus.tools import canonical_input, canonical_tool
from bus.tracing.context import NO_CONTEXT, TraceContext, read_context
from bus.verdicts import POLICIES, Policy, Verdict
from bus.wire.codec import decode_body, pack
from bus.wire.keys import CALL_MS, KEPT_MS, MINUTE, SENT_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry

MOST_BUDGET_MS: Final = 600_000
"""No request waits longer than ten minutes (the longest default timeout of any agent)."""

_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_TEXTS: Final = frozenset({b"body", b"verdict"})
"""Fields of an entry that are bytes of msgpack, and may be large."""


Flag = Literal["", "none", "kept"]


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request with checked fields; `reply` is empty if the request named a key that is not a reply key."""

    entry: StreamEntry
    id: str
    reply: str
    deadline: int
    """Milliseconds by the server's clock: the time of its entry id plus its budget.

    Source: docs/architecture.md, "Time and failure".
    """
    latest: int
    """How long the caller waits for a hook that declares more time than the budget; else the deadline."""
    source: str
    native: str
    host: str
    body: bytes
    parent: str
    fallback: str
    """Why the shim answered by its failure policy and spooled this request; such a request runs no hook."""
    policy: Policy
    """The failure policy that the agent was installed with; a worker's stricter one wins."""
    spooled: bool = False
    """It came from a spool, perhaps more than once, so its id counts once."""
    handed: int = 1
    """How often the stream delivered it, before and after it was deferred."""
    folder: EventFolder = UNKNOWN_FOLDER
    added: int = 0
    """When it was added, in milliseconds by the server's clock."""
    flag: Flag = ""
    """Whether the hook command keeps a flag of a stop; empty for a caller that cannot keep one."""
    reporter: Reporter = UNKNOWN_REPORTER
    user: str = ""
    """The account that the sender runs as, or the name of its token at a gateway; empty from an older sender."""
    trace: TraceContext = NO_CONTEXT
    """The trace context in the entry's fields; that of a canonical event may be in its body."""


def read_request(entry: StreamEntry, keys: Keys) -> Request:
    """The request in a stream entry. Never raises: a missing or bad field gets a harmless value.

    An entry without a usable id gets one that is computed from its entry id, the same at every reading. A deadline is
    accepted only if an evaluator deferred or held the request: any other deadline would be by an agent's clock.
    """
    fields, prefix, added = entry.fields, keys("reply", ""), entry.ms
    texts = {name: str(raw, "utf-8", "replace") for name, raw in fields.items() if name not in _NO_TEXTS}
    text = texts.get
    reply, name, parent = text(b"reply", ""), text(b"id", ""), text(b"parent", "")
    if b"sent" in fields:  # a repair keeps the time of a moved entry; an agent that sets it can only lose time
        added = min(added, _number(texts[b"sent"]))
    deadline = added + min(_number(text(b"budget", "")), MOST_BUDGET_MS)
    latest = added + min(_number(texts[b"patience"]), MOST_BUDGET_MS) if b"patience" in fields else added
    handed = entry.delivered
    if not entry.stream.endswith(":requests") and entry.stream in (keys("waiting"), keys("decided")):
        deadline = _number(text(b"deadline", "")) or deadline
        latest = _number(text(b"latest", "")) or latest
        handed += _number(text(b"handed", ""))
    return Request(
        entry=entry,
        id=name if _ID.fullmatch(name) else _own_id(entry),
        reply=reply if reply.startswith(prefix) and _TOKEN.fullmatch(reply, len(prefix)) else "",
        deadline=deadline,
        latest=max(deadline, latest),
        source=source_name(text(b"source", "")),
        native=text(b"event", "")[:128],
        host=text(b"host", "")[:255],
        body=fields.get(b"body", b""),
        parent=parent if parent and _ID.fullmatch(parent) else "",
        fallback=text(b"fallback", "")[:512],
        policy=_policy(text(b"policy", "")),
        spooled=b"spooled" in fields and b"fallback" in fields,
        handed=handed,
        folder=read_folder(text(b"folder", ""), text(b"repository", "")),
        added=added,
        flag=_flag(text(b"flag", "")),
        reporter=read_reporter(text(b"by", ""), text(b"version", "")),
        user=text(b"user", "")[:128],
        trace=checked_context(texts[b"traceparent"], text(b"tracestate", ""))
        if b"traceparent" in fields
        else NO_CONTEXT,
    )


def checked_context(traceparent: str, tracestate: str) -> TraceContext:
    """The context in two texts of an agent or program; NO_CONTEXT for bad ones. A state with a secret is dropped."""
    if not traceparent:
        return NO_CONTEXT
    context = read_context(traceparent, tracestate)
    if context.tracestate and redact_text(context.tracestate) != context.tracestate:
        return TraceContext(context.traceparent)  # it would be in webhooks and in the environment of hooks
    return context


def sent_by_now(request: Request, now: int) -> Request:
    """The request with the time `now` if its entry id is from the future, which would put its deadline in the future too."""
    if request.added <= now + MINUTE:
        return request
    return msgspec.structs.replace(request, added=now, deadline=now + request.deadline - request.added)


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 16 and digits.isascii() and digits.isdigit() else 0


def _policy(text: str) -> Policy:
    return text if text in POLICIES else "allow"


def _flag(text: str) -> Flag:
    return "kept" if text == "kept" else "none" if text == "none" else ""


def _own_id(entry: StreamEntry) -> str:
    """An event id for an entry without one: it covers the body, because two streams may have the same entry id."""
    whole = hashlib.sha256(entry.id.encode() + entry.fields.get(b"body", b"")).hexdigest()
    return f"e{entry.ms:012x}{whole[:20]}"


def event_type(request: Request, event: Event | None) -> str:
    """The type of a request's event, even if its payload could not be read."""
    if event is not None:
        return event.type
    known = find(request.source).capabilities.get(request.native)
    return known.type if known is not None else request.native


def read_event(request: Request) -> Event:
    """The canonical event in a request (or an event entry); raises DecodeError.

    Id, host, parent and time come from the entry and not from the payload, so no payload can pose as another event. The trace
    context comes from the entry if it has one, else from a canonical event.
    """
    body = decode_body(request.body)
    event = _canonical(body) if isinstance(body, Event) else _native(request, body)
    context = request.trace
    if not context.traceparent and event.traceparent and isinstance(body, Event):
        context = checked_context(event.traceparent, event.tracestate)
    return msgspec.structs.replace(
        event,
        id=request.id,
        host=request.host or event.host,
        parent=request.parent,
        time=request.added,
        traceparent=context.traceparent,
        tracestate=context.tracestate,
    )


def _native(request: Request, payload: bytes) -> Event:
    """The event in an agent's own payload. For an agent without a dialect, its event's name becomes the type."""
    dialect = find(request.source)
    event = dialect.read(request.native, payload, host=request.host)
    if dialect.name == request.source:
        return event
    kind = event.type if ":" in event.type else native_type(request.source, event.type)
    return msgspec.structs.replace(event, source=request.source, type=kind)


def _canonical(event: Event) -> Event:
    """A program's own event with the canonical tool name (X-01): `shell` of Codex is `bash` to every hook."""
    if not event.tool or event.native_tool:
        return event
    tool, native = canonical_tool(event.source, event.tool), event.tool
    if tool == native:
        return event
    tool_input = canonical_input(event.source, native, event.input)
    return msgspec.structs.replace(event, tool=tool, native_tool=native, input=tool_input)


def is_canonical(request: Request) -> bool:
    """Whether the body is a canonical event, answered with a Verdict, and not an agent's payload, answered with an Answer."""
    return bool(request.body) and request.body[0] not in _BIN_HEADS


_BIN_HEADS: Final = frozenset({0xC4, 0xC5, 0xC6})
"""First bytes of a msgpack `bin`."""


def render(request: Request, verdict: Verdict, event: Event | None, flag: bytes = b"") -> tuple[bytes, Verdict]:
    """The answer in the agent's own form, which the shim only copies, and the verdict to record.

    The answer is empty if the verdict itself is the answer. The verdict's `lost` names what the form could not carry.
    `flag` is what a hook command keeps while a stop is in force.
    """
    if is_canonical(request):
        return b"", verdict
    answer = find(request.source).render(request.native, verdict, event)
    return pack_answer(answer, flag), msgspec.structs.replace(verdict, lost=answer.lost) if answer.lost else verdict


def call_key(event: Event | None, keys: Keys) -> str:
    """The key that identifies the same hook call for 60 s: agent, session, event, tool call and input; empty if there is none.

    The input is part of it because some agents number their calls anew each turn.
    """
    if event is None or not event.call:
        return ""
    identity = (event.source, event.session, event.type, event.call, event.tool, event.cwd, event.input)
    return keys("call", hashlib.sha256(pack(identity)).hexdigest()[:32])


_COUNTS_FROM: Final = 17
"""The argument of answer.lua that is the first of what to count; limits and the event's fields come after it."""


class Ticket(NamedTuple):
    """What lets a call pass once: a question about the same call that was approved."""

    key: str
    question: str
    value: str
    """What is in the key; the verdict rests on it."""


def answer_call(
    request: Request,
    keys: Keys,
    group: str,
    verdict: Verdict,
    answer: bytes,
    call: str,
    owner: str = "",
    decided: int = 0,
    ticket: Ticket | None = None,
    counts: Sequence[str | int] = (),
    *,
    ends_question: bool = False,
    limits: Sequence[str | int] = (),
) -> ScriptCall:
    """The script call that acknowledges the entry, records the event with its verdict, and gives the answer.

    If `answer` is empty, the verdict itself is the answer. `owner` is the consumer that ran hooks with effects: its answer
    counts only if no other consumer has claimed the entry. `decided` is the time of the verdict (ms, server's clock). If
    the `ticket` that the verdict rests on was used by another call, nothing is answered, and the entry stays pending.
    `counts`, in turn fields and numbers, are added to the fleet's metrics if this call answers (`bus/wire/counts.py`).
    `limits` are what the call counts for (`bus/memory/charges.py`); one of them may refuse it, and then nothing is answered.
    Without `ends_question`, the request waits for the answer to a question that was asked under its id.
    """
    encoded, limits = placed(verdict, limits)
    about: list[str | bytes] = ["source", request.source, "event", request.native, "host", request.host]
    about += (*folder_fields(request.folder), *request.reporter.fields)
    fields: list[str | bytes] = ["id", request.id, *about, "body", request.body, "verdict", encoded]
    report: list[str | bytes] = []
    place = _COUNTS_FROM + len(counts) + len(limits) + len(fields) - 1
    fields += ["asked", str(request.added)]  # a trace separates the time before the verdict by it
    if decided:
        fields += ["decided", str(decided)]
    if request.parent:
        fields += ["parent", request.parent]
    if request.trace.traceparent:
        fields += request.trace.pairs()
    if request.user:
        fields += ["user", request.user]
    if request.fallback:
        fields += ["fallback", request.fallback]
        report = ["id", event_id(), "of", request.id, "fallback", request.fallback, *about]
    return ScriptCall(
        "answer",
        (
            request.entry.stream,
            keys("events"),
            keys("verdict", request.id),
            request.reply or keys("reply", "nobody"),
            call or keys("call", "none"),
            keys("first", request.id),
            keys("moved", request.entry.stream.rpartition(":")[2]),
            *((ticket.key,) if ticket is not None else ()),
        ),
        (
            group,
            request.entry.id,
            answer,
            KEPT_MS,
            CALL_MS,
            "1" if request.reply else "0",
            "1" if call else "0",
            place,
            owner,
            len(fields),
            SENT_MS if request.spooled else 0,
            ticket.value if ticket is not None else "",
            keys.prefix,
            len(counts),
            "1" if ends_question else "0",
            len(limits),
            *counts,
            *limits,
            *fields,
            *report,
        ),
    )


def claim_call(request: Request, keys: Keys, group: str, consumer: str, call: str, hooks: Sequence[str]) -> ScriptCall:
    """The script call that claims the right to run hooks with effects, for somewhat longer than they may run."""
    kept = KEPT_MS + max(0, request.deadline - request.added)
    return ScriptCall(
        "claim",
        (
            request.entry.stream,
            keys("claim", request.id),
            keys("verdict", request.id),
            request.reply or keys("reply", "nobody"),
            keys("join", request.id),
            call or keys("call", "none"),
            keys("lineage", request.id),
            keys("question", request.id),
        ),
        (
            group,
            request.entry.id,
            consumer,
            kept,
            "1" if request.reply else "0",
            "1" if call else "0",
            request.parent,
            *hooks,
        ),
    )


def defer_call(request: Request, keys: Keys, group: str) -> ScriptCall:
    """The script call that defers a request until an evaluator has a free slot; its deadline does not change."""
    fields: list[str | bytes | int] = [
        "id",
        request.id,
        "reply",
        request.reply,
        "deadline",
        request.deadline,
        "source",
        request.source,
        "event",
        request.native,
        "host",
        request.host,
        "body",
        request.body,
        "latest",
        request.latest,
        "handed",
        request.handed - 1,  # a deferral is no step towards a poison entry
    ]
    fields += (*folder_fields(request.folder), *request.reporter.fields, *request.trace.pairs())
    if request.parent:
        fields += ["parent", request.parent]
    if request.policy != "allow":
        fields += ["policy", request.policy]
    if request.flag:
        fields += ["flag", request.flag]
    if request.user:
        fields += ["user", request.user]
    return ScriptCall(
        "defer",
        (request.entry.stream, keys("waiting"), keys("claim", request.id)),
        (group, request.entry.id, *fields),
    )
