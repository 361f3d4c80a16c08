"""One-time links to answer a held call, in the webhooks that announce it.

A link's token is 256 random bits, made for one attempt of one delivery; only its hash is kept, in Redis. Endpoints get links
only if their `events` name `approval:…`; `*` is not enough. A question for named persons has no links, because anybody may
hold a link.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Final, NamedTuple

from bus.events import Event, EventType
from bus.hooks import Endpoint
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked

PREFIX: Final = "fha_"
PATH: Final = "/answer/"
_LEAST_MS: Final = 1_000


class AnswerLinks(NamedTuple):
    """The links of one message; each opens a page that asks, and changes nothing."""

    approve: str
    deny: str


class LinkMaker:
    """Makes links below a gateway's public address; none if that is empty."""

    def __init__(self, connections: Connections, keys: Keys, public_url: str = "") -> None:
        self._connections, self._keys, self.public_url = connections, keys, public_url.rstrip("/")

    async def links(self, event: Event, endpoint: Endpoint) -> AnswerLinks | None:
        """The links for a delivery, or None where it has none; raises Unreachable."""
        if not self.public_url or event.type != EventType.APPROVAL_REQUESTED.value or not _is_named(endpoint):
            return None
        question, until = event.data.get("question"), event.data.get("until")
        if not isinstance(question, str) or not isinstance(until, int):
            return None
        left = until - int(time.time() * 1000)
        with self._connections.lease() as connection:
            (row,) = await connection.exchange(
                [("HMGET", self._keys("question", question), "state", "announced", "named")]
            )
        # A made-up event is not the event that announced the question.
        if checked(row, "reading a question") != [b"waiting", event.id.encode(), b"0"] or left < _LEAST_MS:
            return None
        token = PREFIX + secrets.token_urlsafe(32)
        with self._connections.lease() as connection:
            (kept,) = await connection.exchange([("SET", link_key(self._keys, token), question, "PX", left)])
        checked(kept, "making a link")
        page = f"{self.public_url}{PATH}{token}"
        return AnswerLinks(f"{page}?answer=approve", f"{page}?answer=deny")


def link_key(keys: Keys, token: str) -> str:
    """The key of a link by its token."""
    return keys("link", hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())


def _is_named(endpoint: Endpoint) -> bool:
    return any(pattern.strip().startswith("approval:") for pattern in endpoint.events)
