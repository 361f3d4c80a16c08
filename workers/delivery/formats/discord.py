"""Discord's webhooks: one embed that never pings anyone.

`allowed_mentions` is empty. In agents' texts every character of Discord's markdown is escaped, so that no link is hidden
behind other words. Limits: Discord's reference of embeds.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from workers.delivery.formats.card import Card, Level
from workers.delivery.formats.text import cut

TITLE: Final = 256
DESCRIPTION: Final = 4_096
NAME: Final = 256
VALUE: Final = 1_024
MOST_FIELDS: Final = 25
FOOTER: Final = 2_048
TOTAL: Final = 6_000
"""The most characters in title, description, names, values and footer of all embeds together."""

ESCAPES: Final = {ord(char): f"\\{char}" for char in "\\`*_~|>#[]()<@"}
# The limits above are Discord's, for one text each. Ours are lower, so that all texts together stay below TOTAL.
_OUR_REASON: Final = 1_200
_OUR_DETAIL: Final = 2_300
_OUR_VALUE: Final = 200
_OUR_FOOTER: Final = 200
_COLOURS: Final[dict[Level, int]] = {"error": 0x992D22, "warning": 0xE74C3C, "info": 0x3498DB}


def body(card: Card) -> bytes:
    """The body for Discord."""
    parts = [cut(card.reason, _OUR_REASON, ESCAPES)] if card.reason else []
    parts += [cut(card.detail, _OUR_DETAIL, ESCAPES)] if card.detail else []
    embed: dict[str, Any] = {
        "title": cut(card.title, TITLE, ESCAPES),
        "color": _COLOURS[card.level],
        "timestamp": card.time,
        "fields": [
            {"name": name, "value": cut(value, _OUR_VALUE, ESCAPES), "inline": True}
            for name, value in card.facts[:MOST_FIELDS]
        ],
        "footer": {"text": cut(card.show_command, _OUR_FOOTER)},
    }
    if card.page:
        embed["url"] = card.page  # the title leads there
    # The links are ours and not an agent's text. Discord shows buttons only if the webhook's URL has `?with_components=true`.
    parts += [" · ".join(f"[{label}]({link})" for label, link in card.links)] if card.links else []
    if parts:
        embed["description"] = "\n\n".join(parts)
    message: dict[str, Any] = {"embeds": [embed], "allowed_mentions": {"parse": []}}
    if card.links:
        buttons = [{"type": 2, "style": 5, "label": label, "url": link} for label, link in card.links]
        message["components"] = [{"type": 1, "components": buttons}]
    return msgspec.json.encode(message)
