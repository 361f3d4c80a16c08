"""What waits for a person: held calls, agents' own prompts and notifications. `inbox_reader.py` reads it from Redis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from bus.errors import DecodeError
from bus.events import OWN_SOURCE, Event, EventType
from bus.requests import read_event, read_request
from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.approvals.questions import Question
from workers.approvals.summary import shortened, summary

_MOST_TEXT: Final = 500

Kind = Literal["question", "permission", "notification"]

_PROMPTS: Final = frozenset({EventType.PERMISSION_PROMPT.value, EventType.PERMISSION_REQUEST.value})
_DECIDED: Final = frozenset({"allow", "deny"})
_ENDS: Final = frozenset(
    {
        EventType.SESSION_START.value,
        EventType.SESSION_END.value,
        EventType.USER_PROMPT_SUBMIT.value,
        EventType.USER_INTERRUPT.value,
        EventType.AGENT_STOP.value,
        EventType.AGENT_END.value,
        EventType.TURN_END.value,
    }
)
"""After these a session waits for none of its earlier tool calls."""
_NO_WAIT: Final = frozenset({"auth_success"})
"""Claude Code's notifications that ask for nothing."""


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person is waited for; its texts are redacted."""

    kind: Kind
    """`question`: a held call, which can be answered here; `permission`: the agent's own prompt; `notification`."""
    since: int
    """Milliseconds since 1970."""
    session: str
    source: str
    host: str
    cwd: str
    tool: str
    text: str
    """The call, or the notification's message."""
    event: str
    """The id of the event, and of the question of a held call."""


class Fact(NamedTuple):
    """What one event says about whether its session waits for a person."""

    session: tuple[str, str, str]
    kind: Kind | None
    """What it waits for; None if the event shows that the session goes on."""
    ends: bool
    """Whether the session waits for nothing older at all."""
    call: str
    """The tool call of the event."""
    decided: bool
    """Whether the call was decided."""
    at: int
    item: InboxItem | None
    """What the inbox shows; None without a kind."""


def question_item(question: Question) -> InboxItem:
    """A held call in the inbox."""
    return InboxItem(
        kind="question",
        since=question.asked,
        session=question.session,
        source=question.source,
        host=question.host,
        cwd=question.cwd,
        tool=question.tool,
        text=shortened(question.summary, _MOST_TEXT),
        event=question.id,
    )


def prompts(newest_first: Iterable[Fact]) -> list[InboxItem]:
    """Agents' own prompts and notifications that still wait, by the facts of the newest events."""
    sessions: dict[tuple[str, str, str], _Session] = {}
    for fact in newest_first:
        session = sessions.get(fact.session)
        if session is None:
            session = sessions[fact.session] = _Session()
        session.add(fact)
    return [session.item for session in sessions.values() if session.item is not None]


def fact_of(entry: StreamEntry, keys: Keys) -> Fact | None:
    """What an event says; None for one that says nothing about a session."""
    if b"of" in entry.fields:
        return None
    try:
        event = read_event(read_request(entry, keys))
        verdict = decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
    except DecodeError:
        return None
    if not event.session or event.source == OWN_SOURCE:
        return None
    kind = _kind(event, verdict)
    return Fact(
        session=(event.session, event.source, event.host),
        kind=kind,
        ends=kind is None and event.type in _ENDS,
        call=event.call,
        decided=kind is None and bool(event.call) and event.type != EventType.TOOL_PRE_EXECUTE.value,
        at=entry.ms,
        item=_item(event, kind, entry.ms) if kind is not None else None,
    )


class _Session:
    """What is known of one session, reading its events from the newest to the oldest."""

    def __init__(self) -> None:
        self.moved_on = False
        """A newer event shows that the session waits for nothing that has no call of its own."""
        self.ended = False
        """A newer event shows that it waits for nothing older at all."""
        self.done: set[str] = set()
        """The calls of newer events that show that they were decided."""
        self.item: InboxItem | None = None

    def add(self, fact: Fact) -> None:
        """Look at the next older event."""
        if self.ended:
            return
        if fact.item is None:
            self.ended = fact.ends
            self.moved_on = True
            if fact.decided:
                self.done.add(fact.call)
            return
        if (fact.call in self.done) if fact.call else self.moved_on:
            return
        # Of a prompt and the notification about it, the prompt says more; it waits since the older of them.
        if self.item is None or self.item.kind == "notification":
            self.item = fact.item
        else:
            self.item = msgspec.structs.replace(self.item, since=fact.at)


def _kind(event: Event, verdict: Verdict | None) -> Kind | None:
    """Whether the agent asks a person at this event."""
    decision = verdict.decision if verdict is not None else ""
    if event.type in _PROMPTS:
        return None if decision in _DECIDED else "permission"
    if event.type == EventType.TOOL_PRE_EXECUTE.value:
        return "permission" if decision == "ask" else None
    if event.type == EventType.NOTIFICATION.value:
        return None if event.data.get("notification_type") in _NO_WAIT else "notification"
    return None


def _item(event: Event, kind: Kind, at: int) -> InboxItem:
    message = event.data.get("message") or event.data.get("title")
    text = redact_text(message) if kind == "notification" and isinstance(message, str) else summary(event)
    return InboxItem(
        kind=kind,
        since=at,
        session=redact_text(event.session),
        source=event.source,
        host=event.host,
        cwd=redact_text(event.cwd),
        tool=event.tool,
        text=shortened(text, _MOST_TEXT),
        event=event.id,
    )
