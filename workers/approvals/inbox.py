"""The inbox: the sessions of all hosts that wait for a person, by held calls, agents' own prompts and notifications."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from bus.errors import DecodeError
from bus.events import Event, EventType
from bus.requests import read_event, read_request
from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.approvals.questions import waiting_questions
from workers.approvals.summary import shortened, summary
from workers.records.events import newest_entries

MOST_EVENTS: Final = 5_000
"""How many of the newest events are read for agents' own prompts and notifications."""

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


async def inbox(connections: Connections, keys: Keys) -> list[InboxItem]:
    """Everything that waits for a person, the oldest first; raises Unreachable."""
    held = [
        InboxItem(
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
        for question in await waiting_questions(connections, keys)
    ]
    own = await _own_prompts(connections, keys)
    return sorted((*held, *own), key=lambda item: (item.since, item.event))


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

    def add(self, event: Event, verdict: Verdict | None, at: int) -> None:
        """Look at the next older event."""
        if self.ended:
            return
        kind = _kind(event, verdict)
        if kind is None:
            self.ended = event.type in _ENDS
            self.moved_on = True
            if event.call and event.type != EventType.TOOL_PRE_EXECUTE.value:
                self.done.add(event.call)
            return
        if (event.call in self.done) if event.call else self.moved_on:
            return
        # Of a prompt and the notification about it, the prompt says more; it waits since the older of them.
        if self.item is None or self.item.kind == "notification":
            self.item = _item(event, kind, at)
        else:
            self.item = msgspec.structs.replace(self.item, since=at)


async def _own_prompts(connections: Connections, keys: Keys) -> list[InboxItem]:
    sessions: dict[tuple[str, str, str], _Session] = {}
    async for entry in newest_entries(connections, keys, MOST_EVENTS):
        _look(entry, keys, sessions)
    return [session.item for session in sessions.values() if session.item is not None]


def _look(entry: StreamEntry, keys: Keys, sessions: dict[tuple[str, str, str], _Session]) -> None:
    if b"of" in entry.fields:
        return
    try:
        event = read_event(read_request(entry, keys))
        verdict = decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
    except DecodeError:
        return
    if event.session and event.source != "fleethook":
        sessions.setdefault((event.session, event.source, event.host), _Session()).add(event, verdict, entry.ms)


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
