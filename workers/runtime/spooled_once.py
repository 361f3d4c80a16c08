"""Removes repeated spooled events: a drainer that lost a reply, or died, sends them again."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from bus.ids import event_id
from bus.requests import read_request
from bus.wire.connections import Connections
from bus.wire.keys import KEPT_MS, SENT_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry, call_all, checked

GROUP: Final = "dispatchers"
_SEARCH_MS: Final = 60_000
"""An event that arrived although it was spooled is searched this far around its time: the agent's clock may be off by it."""
_EVENT_ID: Final = re.compile(r"e[0-9a-f]{32}")
_MOST_SEEN: Final = 10_000
_AT_ONCE: Final = 16
"""How many are searched for in one exchange: with large events around, each search takes long."""


async def keep_if_first(connections: Connections, keys: Keys, entry: StreamEntry) -> bool:
    """Whether a spooled entry is the first one of its id; if not, remove it, so that it is not dispatched.

    If an evaluator answered the request after all, the entry's fallback is kept as the report of its agent.
    """
    (reply,) = await call_all(connections, [_call(keys, entry, read_only=False)])
    return bool(checked(reply, f"looking for entries of {_text(entry, b'id')}"))


class Repeats:
    """Filters out repeated entries for one reader; it remembers the ids that it has passed."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, str] = OrderedDict()

    async def without_repeats(
        self, connections: Connections, keys: Keys, entries: Sequence[StreamEntry]
    ) -> list[StreamEntry]:
        """The entries of the event stream without repeated spooled ones; changes nothing in Redis."""
        asked = [entry for entry in entries if b"spooled" in entry.fields and b"id" in entry.fields]
        if not asked:
            return list(entries)
        replies: list[Any] = []
        for start in range(0, len(asked), _AT_ONCE):
            page = asked[start : start + _AT_ONCE]
            replies += await call_all(connections, [_call(keys, entry, read_only=True) for entry in page])
        repeats = {
            entry.id for entry, reply in zip(asked, replies, strict=True) if not checked(reply, "reading events")
        }
        for entry in asked:
            if entry.id not in repeats and self._ids.setdefault(_text(entry, b"id"), entry.id) != entry.id:
                repeats.add(entry.id)
        while len(self._ids) > _MOST_SEEN:
            self._ids.popitem(last=False)
        return [entry for entry in entries if entry.id not in repeats]


def _call(keys: Keys, entry: StreamEntry, *, read_only: bool) -> ScriptCall:
    name = read_request(entry, keys).id
    # The search among the events around takes long where these are many. A report needs none, because a spool marks each
    # one that it sends; nor does a young request, because its verdict is still kept and shows whether it was answered.
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
        "1" if read_only else "0",
    ]
    if b"fallback" in entry.fields and b"of" not in entry.fields:
        args += ["id", event_id(), "of", name, "fallback", entry.fields[b"fallback"]]
        for field in (b"source", b"event", b"host"):
            args += [field, entry.fields.get(field, b"")]
    return ScriptCall("once", (keys("events"), keys("first", name), keys("verdict", name)), args)


def _text(entry: StreamEntry, field: bytes) -> str:
    return entry.fields.get(field, b"").decode("utf-8", "replace")
