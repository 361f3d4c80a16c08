"""Microsoft Teams (Workflows and the older incoming webhooks): one Adaptive Card.

An agent's texts go into text runs, which have no markdown, so they can make no link and no mention. Teams takes 28 KB
a message; the limits of our texts keep every message below that, whatever the texts contain.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from workers.delivery.formats.card import Card
from workers.delivery.formats.text import cut

MOST_BYTES: Final = 21_000
"""Bytes. Teams' own figure is 28 KB; it refused some messages that were longer than this."""

_TITLE: Final = 200
_REASON: Final = 1_200
_DETAIL: Final = 2_200
_COMMAND: Final = 200


def body(card: Card) -> bytes:
    """The body for Teams."""
    colour = {"color": "Attention"} if card.level != "info" else {}
    blocks = [_block(cut(card.title, _TITLE), size="Medium", weight="Bolder", **colour)]
    if card.reason:
        blocks.append(_block(cut(card.reason, _REASON)))
    if card.detail:
        blocks.append(_block(cut(card.detail, _DETAIL), fontType="Monospace"))
    for name, value in card.facts:
        run = {"type": "TextRun", "text": f"{name}: ", "weight": "Bolder"}
        blocks.append({"type": "RichTextBlock", "inlines": [run, {"type": "TextRun", "text": value}]})
    blocks.append(_block(f"{cut(card.show_command, _COMMAND)} · {card.time}", size="Small", isSubtle=True))
    content: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "body": blocks,
    }
    if card.buttons:
        content["actions"] = [{"type": "Action.OpenUrl", "title": label, "url": link} for label, link in card.buttons]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": content}
    return msgspec.json.encode({"type": "message", "attachments": [attachment]})


def _block(text: str, **style: Any) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}
