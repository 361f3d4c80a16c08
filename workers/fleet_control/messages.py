"""Messages of people into running sessions: each is given to the model once, as context, and the record says when (X-12)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from bus.agents import find
from bus.errors import AmbiguousId, ConfigError, FleethookError, NotFound, PatternError
from bus.events import OWN_SOURCE, SOURCES, Event, EventType
from bus.ids import event_id, host_name
from bus.lazy.conversions import from_json
from bus.matching.scopes import scope_of
from bus.requests import Request, is_canonical
from bus.secrets.redaction import redact_text, redact_texts
from bus.verdicts import Verdict
from bus.wire.codec import encode_event
from bus.wire.connections import Connections
from bus.wire.keys import DAY, DONE_MS, Keys
from bus.wire.streams import ScriptCall, call, checked, flat, server_now
from workers.coverage.open_sessions import OpenSession, open_sessions
from workers.fleet_control.stops import Via
from workers.records.sessions import sessions

log = logging.getLogger("fleethook.messages")

MOST_TEXT: Final = 4_000
MOST_SESSIONS: Final = 1_000
"""The most sessions of one message."""
WAIT_MS: Final = DAY
"""How long a message waits for an event of its session that can carry it."""
_FACTS: Final = frozenset({"session", "source", "host", "cwd"})


class Addressee(msgspec.Struct, frozen=True, kw_only=True):
    """One session that a message is for."""

    session: str
    source: str
    host: str
    event: str = ""
    """The event whose answer brought it to the model; empty while it waits."""
    at: int = 0
    """When, in milliseconds by the server's clock."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a person."""

    id: str
    text: str
    at: int
    by: str
    via: Via = "user"
    where: Annotated[str, Meta(description="The CEL condition on the sessions; empty if one session was named.")] = ""
    to: tuple[Addressee, ...] = ()
    cannot: tuple[Addressee, ...] = ()
    """Sessions that it is not for after all: their agents have no event that can carry a text to the model."""


async def say(
    connections: Connections,
    keys: Keys,
    text: str,
    *,
    by: str,
    via: Via = "user",
    to: str = "",
    where: str = "",
) -> Message:
    """Send a message to one running session, by its id or how it begins, or to all that fulfil a condition.

    Raises ConfigError for an empty or too long text and for both or none of `to` and `where`, PatternError, NotFound if there
    is no such session, AmbiguousId, and Unreachable.
    """
    text, to, where = text.strip(), to.strip(), where.strip()
    if not text or len(text) > MOST_TEXT:
        raise ConfigError(f"a message has 1 to {MOST_TEXT} characters; this one has {len(text)}")
    if bool(to) == bool(where):
        raise ConfigError("name one session or a condition, and not both", hint="--to SESSION, or --where CEL")
    running = await _running(connections, keys)
    chosen = _named(running, to) if to else _fitting(running, where)
    able = [one for one in chosen if _hears(one.source)]
    at = await server_now(connections)
    message = Message(
        id="m" + event_id(at)[5:19],
        text=redact_text(text),
        at=at,
        by=by,
        via=via,
        where=redact_text(where),
        to=tuple(map(_addressee, able)),
        cannot=tuple(_addressee(one) for one in chosen if one not in able),
    )
    if able:
        await call(connections, "post", *_post(keys, message))
    return message


async def messages(connections: Connections, keys: Keys, most: int = 50) -> list[Message]:
    """The last messages with what came of each, newest first; raises Unreachable."""
    with connections.lease() as connection:
        (names,) = await connection.exchange([("ZREVRANGE", keys("messages"), 0, most - 1)])
        names = [name.decode() for name in checked(names, "listing messages")]
        rows = await connection.exchange([("HGETALL", keys("message", name)) for name in names]) if names else []
    found = [_read(name, flat(checked(row, "reading a message"))) for name, row in zip(names, rows, strict=True) if row]
    return [message for message in found if message is not None]


class PostBoxes:
    """Gives an evaluator's verdicts the messages for their sessions. `refresh` reads which sessions have some."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._boxes: frozenset[bytes] = frozenset()

    async def refresh(self) -> None:
        """Read which sessions have messages; raises Unreachable."""
        with self._connections.lease() as connection:
            (found,) = await connection.exchange([("ZRANGE", self._keys("mail"), 0, -1)])
        self._boxes = frozenset(checked(found, "looking for messages"))

    async def add_to(self, request: Request, event: Event, verdict: Verdict) -> Verdict:
        """The verdict with the messages of its session, if this event can carry them and the call goes on."""
        if not self._boxes or not request.reply or not event.session or verdict.decision in {"deny", "ask"}:
            return verdict
        box = _box(event.session, event.source, event.host)
        if box.encode() not in self._boxes:
            return verdict
        can = find(event.source).capabilities.get(request.native)
        if not is_canonical(request) and (can is None or not can.context):
            return verdict
        keys = self._keys
        try:
            at = await server_now(self._connections)
            rows = await call(
                self._connections,
                "collect",
                (keys("mail"), keys("mail", box)),
                (keys.prefix, box, request.id, at, request.latest),
            )
        except FleethookError as error:  # the verdict counts more; the message waits for the next event
            log.error("the messages for session %s: %s", event.session, error)
            return verdict
        found = [[part.decode("utf-8", "replace") for part in row] for row in rows]
        texts = tuple(f"A message from {by}, a person who runs this fleet: {text}" for _, by, text in found)
        return msgspec.structs.replace(
            verdict, contexts=(*verdict.contexts, *texts), messages=tuple(name for name, _, _ in found)
        )


def carried_calls(keys: Keys, request: Request, event: Event, verdict: Verdict, now: int) -> list[ScriptCall]:
    """The call that records, with the answer, that it carries messages; none if it carries no message.

    Before it the messages are only reserved for the request: if its evaluator dies, or the answer comes too late (`now` is
    the server's time in ms), they wait for the next event of the session.
    """
    if not verdict.messages:
        return []
    box = _box(event.session, event.source, event.host)
    names = (keys("mail"), keys("mail", box), keys("events"), keys("late"))
    about = (keys.prefix, box, request.id, now, event.host, event.session, event.source)
    return [ScriptCall("carried", names, (*about, *verdict.messages))]


async def _running(connections: Connections, keys: Keys) -> list[OpenSession]:
    """The sessions that run: those of the newest events, and those whose last event is older; raises Unreachable."""
    found: dict[tuple[str, str, str], OpenSession] = {}
    newest = {(one.id, one.source, one.host): one for one in await sessions(connections, keys)}
    for one in await open_sessions(connections, keys):
        found[one.id, one.source, one.host] = one
    for name, seen in newest.items():
        found.pop(name, None)
        if not seen.ended:
            found[name] = OpenSession(id=seen.id, source=seen.source, host=seen.host, cwd=seen.cwd)
    return list(found.values())


def _named(running: Sequence[OpenSession], to: str) -> list[OpenSession]:
    whole = [one for one in running if one.id == to]
    found = whole or [one for one in running if one.id.startswith(to)]
    if not found:
        raise NotFound(
            f"no session {to[:60]!r} has sent an event in the last day and not ended; `fleethook watch` shows sessions"
        )
    if len({one.id for one in found}) > 1:
        raise AmbiguousId(f"{to[:60]!r} begins {len(found)} sessions: {', '.join(one.id for one in found[:3])}")
    return found


def _fitting(running: Sequence[OpenSession], where: str) -> list[OpenSession]:
    scope = scope_of(where)
    if scope.fields is None or not scope.fields <= _FACTS:
        raise PatternError(
            f"bad condition {where!r}: a session has no other facts than these",
            hint="read event.session, event.source, event.host and event.cwd, without has(…)",
        )
    facts = [{"session": one.id, "source": one.source, "host": one.host, "cwd": one.cwd} for one in running]
    found = [one for one, known in zip(running, facts, strict=True) if scope.of_known(known)]
    if not found:
        raise NotFound(f"no running session fulfils {where!r}")
    if len(found) > MOST_SESSIONS:
        raise ConfigError(f"{len(found)} sessions fulfil the condition; a message is for {MOST_SESSIONS} at most")
    return found


def _hears(source: str) -> bool:
    """Whether an agent has an event that carries a text to its model. Users' own programs always have one."""
    known = find(source).capabilities.values() if source in SOURCES else ()
    return not known or any(can.context and can.waits for can in known)


def _addressee(session: OpenSession) -> Addressee:
    return Addressee(session=session.id, source=session.source, host=session.host)


def _box(session: str, source: str, host: str) -> str:
    """The post box of a session, by its names as lists show them: without what looks like a secret."""
    name = "\n".join(redact_texts({"source": source, "host": host, "id": session}).values())
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]


def _post(keys: Keys, message: Message) -> tuple[tuple[str, ...], list[str | bytes | int]]:
    """Keys and arguments of post.lua."""
    boxes = [part for one in message.to for part in (_box(one.session, one.source, one.host), msgspec.json.encode(one))]
    fields = ("text", message.text, "at", message.at, "by", message.by, "via", message.via, "where", message.where)
    data: dict[str, Any] = {
        "message": message.id,
        "text": message.text,
        "by": message.by,
        "via": message.via,
        "where": message.where,
        "sessions": [one.session for one in message.to],
    }
    kind, host, name = EventType.MESSAGE_SENT.value, host_name(), event_id()
    event = Event(type=kind, id=name, source=OWN_SOURCE, host=host, time=message.at, data=data)
    said = ("id", name, "source", OWN_SOURCE, "event", kind, "host", host, "body", encode_event(event))
    names = (keys("messages"), keys("message", message.id), keys("mail"), keys("events"), keys("late"))
    head: list[str | bytes | int] = [keys.prefix, message.id, message.at, DONE_MS, WAIT_MS, len(message.to)]
    return names, [*head, *boxes, len(fields), *fields, *said]


def _read(name: str, row: dict[bytes, bytes]) -> Message | None:
    text = {key: row.get(key.encode(), b"").decode("utf-8", "replace") for key in ("text", "at", "by", "via", "where")}
    if not text["at"].isdigit():
        return None
    return Message(
        id=name,
        text=text["text"],
        at=int(text["at"]),
        by=text["by"],
        via="token" if text["via"] == "token" else "user",
        where=text["where"],
        to=tuple(_addressees(row)),
    )


def _addressees(row: dict[bytes, bytes]) -> Iterable[Addressee]:
    for key, raw in sorted(row.items()):
        if key.startswith(b"to:"):
            event, _, at = row.get(b"got:" + key[3:], b"").decode().partition(" ")
            yield msgspec.structs.replace(from_json(raw, Addressee), event=event, at=int(at or 0))
