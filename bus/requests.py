"""One request as it lies on the stream: what its fields mean, when it expires, and how its answer is given."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from bus.agents import find
from bus.event_folder import NOT_SAID, EventFolder, folder_fields, read_folder
from bus.events import Event, native_type, source_name
from bus.ids import event_id
from bus.shim.answer import pack_answer
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import POLICIES, Policy, Verdict
from bus.wire.codec import decode_body, encode_verdict, pack
from bus.wire.keys import CALL_MS, KEPT_MS, MINUTE, SENT_MS, Keys
from bus.wire.streams import Call, Entry

MOST_BUDGET_MS: Final = 600_000
"""No request waits longer than ten minutes (the longest default timeout of any agent)."""

_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request, its fields checked; `reply` is empty where the name it gave may not be written to."""

    entry: Entry
    id: str
    reply: str
    deadline: int
    """Milliseconds by the server's clock: the time of its entry id plus its budget.

    Source: docs/architecture.md, "Time and failure".
    """
    latest: int
    """Until when who asked waits for a hook that declares more than the budget; the deadline where it does not."""
    source: str
    native: str
    host: str
    body: bytes
    parent: str
    fallback: str
    """Why the shim answered by policy before this came out of its spool; such a request runs no hook."""
    policy: Policy
    """The failure policy that the agent was installed with; a worker's stricter one wins."""
    spooled: bool = False
    """It came out of a spool, perhaps not for the first time: its id counts once."""
    handed: int = 1
    """How often it was handed out, put aside or not."""
    folder: EventFolder = NOT_SAID
    added: int = 0
    """When it was added, in milliseconds by the server's clock."""


def read_request(entry: Entry, keys: Keys) -> Request:
    """The request in a stream entry; never raises: what is missing or odd gets a harmless value.

    An entry without a usable id gets one from its entry's, the same at every reading. A deadline is believed only where
    an evaluator put the request aside: elsewhere it would be by an agent's clock.
    """
    aside = entry.stream == keys("waiting")
    said = {name: str(raw, "utf-8", "replace") for name, raw in entry.fields.items() if name != b"body"}.get
    reply, prefix = said(b"reply", ""), keys("reply", "")
    writable = reply.startswith(prefix) and _TOKEN.fullmatch(reply, len(prefix)) is not None
    # An entry that was moved says when it was sent; what says so by itself can only lose time.
    added = min(entry.ms, _number(said(b"sent", "")) if b"sent" in entry.fields else entry.ms)
    name, parent = said(b"id", ""), said(b"parent", "")
    deadline = (aside and _number(said(b"deadline", ""))) or added + min(_number(said(b"budget", "")), MOST_BUDGET_MS)
    latest = (aside and _number(said(b"latest", ""))) or added + min(_number(said(b"patience", "")), MOST_BUDGET_MS)
    return Request(
        entry=entry,
        id=name if _ID.fullmatch(name) else _own_id(entry),
        reply=reply if writable else "",
        deadline=deadline,
        latest=max(deadline, latest),
        source=source_name(said(b"source", "")),
        native=said(b"event", "")[:128],
        host=said(b"host", "")[:255],
        body=entry.fields.get(b"body", b""),
        parent=parent if parent and _ID.fullmatch(parent) else "",
        fallback=said(b"fallback", "")[:512],
        policy=_policy(said(b"policy", "")),
        spooled=b"spooled" in entry.fields and b"fallback" in entry.fields,
        handed=entry.delivered + (_number(said(b"handed", "")) if aside else 0),
        folder=read_folder(said(b"folder", ""), said(b"repository", "")),
        added=added,
    )


def sent_by_now(request: Request, now: int) -> Request:
    """The request as one that was sent now where its entry's id is of the future: no id makes a deadline of next year."""
    if request.added <= now + MINUTE:
        return request
    return msgspec.structs.replace(request, added=now, deadline=now + request.deadline - request.added)


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 16 and digits.isascii() and digits.isdigit() else 0


def _policy(text: str) -> Policy:
    return text if text in POLICIES else "allow"


def _own_id(entry: Entry) -> str:
    """An event id for an entry that brought none: with its body, since two streams may use one entry id."""
    whole = hashlib.sha256(entry.id.encode() + entry.fields.get(b"body", b"")).hexdigest()
    return f"e{entry.ms:012x}{whole[:20]}"


def event_type(request: Request, event: Event | None) -> str:
    """The type of a request's event, also where its payload could not be read."""
    if event is not None:
        return event.type
    known = find(request.source).capabilities.get(request.native)
    return known.type if known is not None else request.native


def read_event(request: Request) -> Event:
    """The canonical event in a request (or an event entry); raises DecodeError.

    Id, host, parent and time come from the entry and not from the payload, so nobody can speak for another event.
    """
    body = decode_body(request.body)
    event = _canonical(body) if isinstance(body, Event) else _native(request, body)
    return msgspec.structs.replace(
        event, id=request.id, host=request.host or event.host, parent=request.parent, time=request.added
    )


def _native(request: Request, payload: bytes) -> Event:
    """The event in an agent's own payload; an agent without a dialect keeps its name, and its event's as a type."""
    dialect = find(request.source)
    event = dialect.read(request.native, payload, host=request.host)
    if dialect.name == request.source:
        return event
    kind = event.type if ":" in event.type else native_type(request.source, event.type)
    return msgspec.structs.replace(event, source=request.source, type=kind)


def _canonical(event: Event) -> Event:
    """A program's own event, its tool in the one vocabulary (X-01): `shell` of Codex is `bash` to every hook."""
    if not event.tool or event.native_tool:
        return event
    tool, native = canonical_tool(event.source, event.tool), event.tool
    if tool == native:
        return event
    given = canonical_input(event.source, native, event.input)
    return msgspec.structs.replace(event, tool=tool, native_tool=native, input=given)


def is_canonical(request: Request) -> bool:
    """Whether the body is an event of our own (answered with a Verdict) and no agent's payload (an Answer)."""
    return bool(request.body) and request.body[0] not in _BIN_HEADS


_BIN_HEADS: Final = frozenset({0xC4, 0xC5, 0xC6})
"""First bytes of a msgpack `bin`."""


def render(request: Request, verdict: Verdict, event: Event | None) -> tuple[bytes, Verdict]:
    """The answer in the agent's own form, rendered here so that the shim only copies, and the verdict as it is recorded.

    Empty where the verdict itself is the answer. What the form could not carry stands in the verdict's `lost`.
    """
    if is_canonical(request):
        return b"", verdict
    answer = find(request.source).render(request.native, verdict, event)
    return pack_answer(answer), msgspec.structs.replace(verdict, lost=answer.lost) if answer.lost else verdict


def call_key(event: Event | None, keys: Keys) -> str:
    """The key by which the same hook call is known for 60 s: agent, session, event, tool call and input; else empty.

    The input is part of it since some agents number their calls anew each turn: another command is another call.
    """
    if event is None or not event.call:
        return ""
    said = (event.source, event.session, event.type, event.call, event.tool, event.cwd, event.input)
    return keys("call", hashlib.sha256(pack(said)).hexdigest()[:32])


_FIELDS_FROM: Final = 12
"""Which argument of answer.lua the event's first field is."""


def answer_call(
    request: Request, keys: Keys, group: str, verdict: Verdict, answer: bytes, call: str, owner: str = ""
) -> Call:
    """The one script call that acknowledges, records the event with its verdict, and gives the answer.

    An empty `answer` is the verdict itself. `owner` is the consumer that ran hooks with effects: its answer counts only
    while nobody has taken the entry over.
    """
    said = encode_verdict(verdict)
    about: list[str | bytes] = ["source", request.source, "event", request.native, "host", request.host]
    about += folder_fields(request.folder)
    fields: list[str | bytes] = ["id", request.id, *about, "body", request.body, "verdict", said]
    report: list[str | bytes] = []
    place = _FIELDS_FROM + len(fields) - 1
    if request.parent:
        fields += ["parent", request.parent]
    if request.fallback:
        fields += ["fallback", request.fallback]
        report = ["id", event_id(), "of", request.id, "fallback", request.fallback, *about]
    return Call(
        "answer",
        (
            request.entry.stream,
            keys("events"),
            keys("verdict", request.id),
            request.reply or keys("reply", "nobody"),
            keys("join", request.id),
            call or keys("call", "none"),
            keys("lineage", request.id),
            keys("first", request.id),
            keys("moved", request.entry.stream.rpartition(":")[2]),
            keys("late"),
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
            *fields,
            *report,
        ),
    )


def claim_call(request: Request, keys: Keys, group: str, consumer: str, call: str, hooks: Sequence[str]) -> Call:
    """The script call that takes the right to run hooks with effects, for as long as they may run and a while more."""
    kept = KEPT_MS + max(0, request.deadline - request.added)
    return Call(
        "claim",
        (
            request.entry.stream,
            keys("claim", request.id),
            keys("verdict", request.id),
            request.reply or keys("reply", "nobody"),
            keys("join", request.id),
            call or keys("call", "none"),
            keys("lineage", request.id),
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


def defer_call(request: Request, keys: Keys, group: str) -> Call:
    """The script call that puts a request aside until somebody has a free slot, with its deadline unchanged."""
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
        request.handed - 1,  # who puts it aside has not died of it
    ]
    fields += folder_fields(request.folder)
    if request.parent:
        fields += ["parent", request.parent]
    if request.policy != "allow":
        fields += ["policy", request.policy]
    return Call(
        "defer",
        (request.entry.stream, keys("waiting"), keys("claim", request.id)),
        (group, request.entry.id, *fields),
    )
