"""ntfy: a notification on phones and desktops, as JSON for the server's root.

The endpoint's URL is that of the topic (`https://ntfy.sh/TOPIC`). Limits: ntfy's page "Publishing", which cuts a longer
message into an attachment.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from workers.delivery.formats.card import Card
from workers.delivery.formats.text import cut

TITLE: Final = 200
MESSAGE: Final = 1_200
"""Characters. ntfy's limit is 4,096 bytes, and a character has up to three."""
_PRIORITIES: Final = {"error": 5, "warning": 4, "info": 3}


def body(card: Card, url: str) -> bytes:
    """The body for ntfy."""
    facts = " · ".join(f"{name}: {value}" for name, value in card.facts)
    parts = [text for text in (card.reason, card.detail, facts, card.show_command) if text]
    message: dict[str, Any] = {
        "topic": topic_of(url),
        "title": cut(card.title, TITLE),
        "message": cut("\n".join(cut(part, MESSAGE // 3) for part in parts), MESSAGE),
        "priority": max(_PRIORITIES[card.level], 4 if card.links else 0),
    }
    if card.buttons:
        message["actions"] = [{"action": "view", "label": label, "url": link} for label, link in card.buttons]
        message["click"] = card.buttons[0][1]
    return msgspec.json.encode(message)


def topic_of(url: str) -> str:
    """The topic in an endpoint's URL; empty if it has none."""
    return unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])


def post_url(url: str) -> str:
    """Where the body goes: the root of the server of a topic."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/").rpartition("/")[0] + "/", parts.query, ""))
