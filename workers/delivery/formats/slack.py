"""Slack's incoming webhooks: a text for notifications, and blocks.

An agent's texts go only into plain_text objects, with & < > escaped, so Slack finds no markup, mention or link in them;
`parse` and `link_names` say so too for the text of the notification, whatever the webhook's app is set to.
Links are not unfurled, since Slack would fetch a URL that an agent made up. Limits: Slack's Block Kit reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from workers.delivery.formats.card import Card
from workers.delivery.formats.text import cut, line

HEADER: Final = 150
SECTION: Final = 3_000
FIELD: Final = 2_000
MOST_FIELDS: Final = 10
MOST_BLOCKS: Final = 50
TEXT: Final = 1_000
"""The most characters of a notification's text; Slack accepts 40,000 and advises 4,000."""

ESCAPES: Final = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def body(card: Card) -> bytes:
    """The body for Slack."""
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(card.title, HEADER)}]
    blocks += [{"type": "section", "text": _plain(text, SECTION)} for text in (card.reason, card.detail) if text]
    if card.facts:
        fields = [_plain(f"{name}: {value}", FIELD) for name, value in card.facts[:MOST_FIELDS]]
        blocks.append({"type": "section", "fields": fields})
    if card.buttons:
        blocks.append({"type": "actions", "elements": list(_buttons(card))})
    blocks.append({"type": "context", "elements": [_plain(f"{card.show_command} · {card.time}", FIELD)]})
    summary = f"{card.title}: {line(card.reason)}" if card.reason else card.title
    return msgspec.json.encode(
        {
            "text": cut(summary, TEXT, ESCAPES),
            "blocks": blocks,
            "mrkdwn": False,
            "parse": "none",
            "link_names": False,
            "unfurl_links": False,
            "unfurl_media": False,
        }
    )


def _buttons(card: Card) -> Iterator[dict[str, Any]]:
    for (label, link), style in zip(card.links, ("primary", "danger"), strict=False):
        yield {**_button(label, link), "style": style, "action_id": f"answer-{style}"}
    for label, link in card.buttons[len(card.links) :]:
        yield {**_button(label, link), "action_id": "show"}


def _button(label: str, link: str) -> dict[str, Any]:
    return {"type": "button", "text": _plain(label, 75), "url": link}


def _plain(text: str, most: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": cut(text, most, ESCAPES), "emoji": False}
