"""Tickets: if a call is approved after its agent has stopped waiting, the same call passes once.

The same is so for the next event of a call which its agent announces by several events.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bus.agents import cursor
from bus.event_folder import EventFolder
from bus.events import Event
from bus.lazy.conversions import from_json
from bus.matching.exact_calls import input_text
from bus.requests import Ticket
from bus.verdicts import Approval, Part
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.approvals import held_values
from workers.approvals.questions import AskingRule


def call_hash(event: Event, folder: EventFolder, changes: Mapping[str, Any] | None) -> str:
    """The hash of a call: agent, session, tool, input and folder, and how hooks change the input."""
    subject = event.data.get("prompt") if not event.tool else None
    identity = (
        event.source,
        event.host,
        event.session,
        event.type,
        event.tool,
        input_text(event.tool, event.input),
        subject,
        event.cwd,
        folder.path,
    )
    return _hash((identity, input_text("", changes or {})))


def twin_hash(event: Event, folder: EventFolder) -> str:
    """The hash of a call whose agent announces it by several events; empty for another one.

    An approval at the first of these events counts at the next one, so that one call is one question.
    """
    identity = cursor.call_of(event) if event.source == cursor.NAME else None
    if identity is None:
        return ""
    return _hash(("twin", event.source, event.host, folder.path, identity))


def _hash(identity: object) -> str:
    """JSON in ASCII, since half of a surrogate pair, which a payload may have, has no bytes."""
    return hashlib.sha256(json.dumps(identity, default=str).encode()).hexdigest()[:32]


async def find_ticket(connections: Connections, keys: Keys, event: Event, call: str, twin: str) -> Ticket | None:
    """The ticket for a call, if there is one; raises Unreachable. A twin's ticket is for the events after its own."""
    names = [keys("ticket", name) for name in (call, twin) if name]
    with connections.lease() as connection:
        replies = await connection.exchange([("GET", name) for name in names])
    values = [checked(reply, "looking for a ticket") for reply in replies]
    for name, value in zip(names, values, strict=True):
        question, _, native = value.decode().partition(" ") if value else ("", "", "")
        if question and not (native and native == event.native):
            return Ticket(name, question, value.decode())
    return None


async def find_approval(connections: Connections, keys: Keys, ticket: Ticket, parts: Sequence[Part]) -> Approval | None:
    """The approval of a ticket's question, if it covers these hooks; None if a hook asks that did not ask then."""
    names = ("rules", "by", "via", "asked", "answered", "comment")
    with connections.lease() as connection:
        (row,) = await connection.exchange([("HMGET", keys("question", ticket.question), *names)])
    found = dict(zip(names, checked(row, "reading a question"), strict=True))
    if found["rules"] is None:
        return None
    asked = {(rule.layer, rule.hook) for rule in from_json(found["rules"], list[AskingRule])}
    if not {(part.layer, part.hook) for part in parts} <= asked:
        return None
    return held_values.approval(ticket.question, "approved", found, ticket=ticket.value == ticket.question)
