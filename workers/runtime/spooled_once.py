"""Makes spooled events count once: a drainer that lost a reply, or died, sends them again."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from bus.ids import event_id
from bus.requests import read_request
from bus.wire.connections import Connections
from bus.wire.keys import KEPT_MS, SENT_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry, call_all, checked

GROUP: Final = "dispatchers"
_SEARCH_MS: Final = 60_000
"""How far an agent's clock may be off, and the entry that arrived before its record was spooled is still found."""
_EVENT_ID: Final = re.compile(r"e[0-9a-f]{32}")
_MOST_SEEN: Final = 10_000


async def counts(connections: Connections, keys: Keys, entry: StreamEntry) -> bool:
    """Whether a spooled entry is the one of its id that counts; if not, it is removed before it is dispatched.

    If an evaluator had answered the request after all, the record's fallback stays as its agent's report.
    """
    (reply,) = await call_all(connections, [_call(keys, entry, look=False)])
    return bool(checked(reply, f"looking for entries of {_text(entry, b'id')}"))


class Repeats:
    """Leaves out entries that a reader has seen, for as long as one reading lasts."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, str] = OrderedDict()

    async def without_repeats(
        self, connections: Connections, keys: Keys, entries: Sequence[StreamEntry]
    ) -> list[StreamEntry]:
        """The entries of the event stream without spooled ones that do not count; changes nothing in Redis."""
        asked = [entry for entry in entries if b"spooled" in entry.fields and b"id" in entry.fields]
        if not asked:
            return list(entries)
        replies = await call_all(connections, [_call(keys, entry, look=True) for entry in asked])
        gone = {entry.id for entry, reply in zip(asked, replies, strict=True) if not checked(reply, "reading events")}
        for entry in asked:
            if entry.id not in gone and self._ids.setdefault(_text(entry, b"id"), entry.id) != entry.id:
                gone.add(entry.id)
        while len(self._ids) > _MOST_SEEN:
            self._ids.popitem(last=False)
        return [entry for entry in entries if entry.id not in gone]


def _call(keys: Keys, entry: StreamEntry, *, look: bool) -> ScriptCall:
    name = read_request(entry, keys).id
    # A report is only ever sent marked, and of a young request the verdict tells whether it was answered: neither is
    # looked for among the events around it, which takes long where these are many.
    born = int(name[1:13], 16) if _EVENT_ID.fullmatch(name) else entry.ms
    young = b"fallback" in entry.fields and entry.ms - born < KEPT_MS - _SEARCH_MS
    first, last = (0, 0) if b"of" in entry.fields or young else (max(0, born - _SEARCH_MS), born + _SEARCH_MS)
    args: list[str | bytes | int] = [
        GROUP,
        entry.id,
        name,
        first,
        last,
        SENT_MS,
        "1" if look else "0",
    ]
    if b"fallback" in entry.fields and b"of" not in entry.fields:
        args += ["id", event_id(), "of", name, "fallback", entry.fields[b"fallback"]]
        for field in (b"source", b"event", b"host"):
            args += [field, entry.fields.get(field, b"")]
    return ScriptCall("once", (keys("events"), keys("first", name), keys("verdict", name)), args)


def _text(entry: StreamEntry, field: bytes) -> str:
    return entry.fields.get(field, b"").decode("utf-8", "replace")
