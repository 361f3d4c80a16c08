"""The address of an event's page at a gateway, for the messages of webhooks."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from bus.events import Event
from workers.delivery.formats.approval_card import TYPES

_LONGEST: Final = 128
"""The most characters of an id; no id of ours is longer, but a publisher may send any text."""


def event_page(public_url: str, event: Event) -> str:
    """The page of an event, or of the held call that it is about; empty without a public address.

    The id is quoted, so an agent's text cannot lead the link to another place.
    """
    view, name = "events", event.id
    question = event.data.get("question")
    if event.type in TYPES and isinstance(question, str):
        view, name = "approvals", question
    if not (public_url and name) or len(name) > _LONGEST:
        return ""
    return f"{public_url.rstrip('/')}/#/{view}/{quote(name.encode('utf-8', 'replace'), safe='')}"
