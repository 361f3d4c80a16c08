"""What hooks in the background had to say: context for the next event of their session that can carry it, once."""

from __future__ import annotations

import hashlib
import time

import msgspec

from bus.connections import Links
from bus.dialects import find
from bus.events import Event
from bus.keys import LATER_MS, Keys
from bus.streams import checked
from bus.verdicts import Verdict

_MOST: str = "-32"
_CHARACTERS = 4_000


class Afterwords:
    """Keeps and gives what was said late; which sessions have something is looked up now and then, not at each event."""

    def __init__(self, links: Links, keys: Keys) -> None:
        self._links, self._keys = links, keys
        self._sessions: set[bytes] = set()

    def _name(self, event: Event) -> str:
        return hashlib.sha256(f"{event.source} {event.session}".encode()).hexdigest()[:32]

    async def keep(self, event: Event, text: str) -> None:
        """Keep what a hook of this event said after its agent went on; raises Unreachable."""
        name, sessions = self._name(event), self._keys("later")
        key = self._keys("later", name)
        with self._links.link() as link:
            await link.exchange([
                ("RPUSH", key, text[:_CHARACTERS]), ("LTRIM", key, _MOST, "-1"), ("PEXPIRE", key, LATER_MS),
                ("ZADD", sessions, int(time.time() * 1000), name), ("PEXPIRE", sessions, LATER_MS),
            ])  # fmt: skip

    async def look(self) -> None:
        """See which sessions have something; raises Unreachable."""
        with self._links.link() as link:
            (found,) = await link.exchange([("ZRANGE", self._keys("later"), 0, -1)])
        self._sessions = set(checked(found, "looking for what was said later"))

    async def tell(self, event: Event, native: str, verdict: Verdict) -> Verdict:
        """The verdict with what waits for its session, where this event can carry it."""
        name = self._name(event)
        can = find(event.source).capabilities.get(native)
        if name.encode() not in self._sessions or can is None or not can.context:
            return verdict
        with self._links.link() as link:
            texts, _ = await link.exchange([
                ("LPOP", self._keys("later", name), 32), ("ZREM", self._keys("later"), name),
            ])  # fmt: skip
        self._sessions.discard(name.encode())
        said = tuple(text.decode("utf-8", "replace") for text in checked(texts, "reading what was said later") or ())
        return msgspec.structs.replace(verdict, contexts=(*verdict.contexts, *said))
