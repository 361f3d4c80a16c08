"""Late context: texts of background hooks for the model, added once, to the next verdict of their session that can carry it."""

from __future__ import annotations

import hashlib
import logging
import time
from typing import Final

import msgspec

from bus.agents import find
from bus.errors import FleethookError, Unreachable
from bus.events import Event
from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import LATER_MS, Keys
from bus.wire.streams import Backoff, checked

log = logging.getLogger("fleethook.late_context")

MOST_TEXTS: Final = 32
"""How many texts are kept for one session; older ones are dropped."""

MOST_SESSIONS: Final = 1_000
"""How many sessions have texts kept; those without a new text for the longest time are dropped."""

_CHARACTERS: Final = 4_000


class LateContexts:
    """Stores late context and adds it to verdicts. `refresh` reads which sessions have some, so not every event asks Redis."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._sessions: set[bytes] = set()

    def _session_hash(self, event: Event) -> str:
        return hashlib.sha256(f"{event.source} {event.session}".encode()).hexdigest()[:32]

    async def keep(self, event: Event, text: str) -> None:
        """Store the context, redacted, that a background hook of this event printed; waits while Redis is away."""
        if not text or not event.session:
            return
        name, sessions, now = self._session_hash(event), self._keys("later"), int(time.time() * 1000)
        key, backoff = self._keys("later", name), Backoff("texts of a hook in the background")
        while True:
            try:
                with self._connections.lease() as connection:
                    for reply in await connection.exchange(
                        [
                            ("RPUSH", key, redact_text(text)[:_CHARACTERS]),
                            ("LTRIM", key, -MOST_TEXTS, -1),
                            ("PEXPIRE", key, LATER_MS),
                            ("ZADD", sessions, now, name),
                            ("ZREMRANGEBYSCORE", sessions, "-inf", now - LATER_MS),
                            ("ZREMRANGEBYRANK", sessions, 0, -1 - MOST_SESSIONS),
                            ("PEXPIRE", sessions, LATER_MS),
                        ]
                    ):
                        checked(reply, "keeping late context")
            except Unreachable as error:
                await backoff.wait(error)
                continue
            except FleethookError:  # the hook has run, and must not run again because its text is lost
                log.exception("the text that a background hook of event %s has for the model is lost", event.id)
            backoff.back()
            return

    async def refresh(self) -> None:
        """Read which sessions have late context; raises Unreachable."""
        with self._connections.lease() as connection:
            (found,) = await connection.exchange([("ZRANGE", self._keys("later"), 0, -1)])
        self._sessions = set(checked(found, "looking for late context"))

    async def add_to(self, event: Event, native: str, verdict: Verdict) -> Verdict:
        """The verdict with the late context of its session, if this event can carry it and is not denied.

        What cannot be read now waits for the next event of the session.
        """
        if not self._sessions:
            return verdict
        name = self._session_hash(event)
        can = find(event.source).capabilities.get(native)
        if name.encode() not in self._sessions or can is None or not can.context or verdict.decision == "deny":
            return verdict
        try:
            with self._connections.lease() as connection:
                _, texts = await connection.exchange(
                    [  # the session first: a text that is stored in between adds it again
                        ("ZREM", self._keys("later"), name),
                        ("LPOP", self._keys("later", name), MOST_TEXTS),
                    ]
                )
            found = checked(texts, "reading late context") or ()
        except FleethookError as error:  # the verdict counts more, and hooks that have run must not run again for this
            log.error("the late context of session %s: %s", event.session, error)
            return verdict
        self._sessions.discard(name.encode())
        contexts = [text.decode("utf-8", "replace") for text in found]
        # A text that is there twice was sent twice, because Redis' reply to the first was lost.
        return msgspec.structs.replace(verdict, contexts=(*verdict.contexts, *dict.fromkeys(contexts)))
