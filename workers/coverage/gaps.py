"""What is known of the calls of each session: how many came with their pre-hook event, and the gaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bus.memory.charges import session_key
from bus.secrets.redaction import redact_text
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat
from workers.coverage.causes import CAUSES, CauseName


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one session that ran without their pre-hook event, for one cause."""

    cause: CauseName
    text: str
    calls: int
    tool: str
    """The tool of the last of them."""
    first: int
    """When the first of them ran (ms since 1970)."""
    last: int


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one session."""

    agent: str = ""
    session: str = ""
    host: str = ""
    version: str = ""
    """The agent's version; empty if it does not send one."""
    pre: int = 0
    """How many pre-hook events of calls came."""
    uncovered: int = 0
    """How many calls ran without one."""
    gaps: tuple[Gap, ...] = ()
    first: int = 0
    started: int = 0
    last_pre: int = 0
    tools: tuple[str, ...] = ()
    """The tools of its pre-hook events."""

    @property
    def text(self) -> str:
        """The message for a person: what ran unseen, and the last cause."""
        calls = "1 tool call" if self.uncovered == 1 else f"{self.uncovered} tool calls"
        why = max(self.gaps, key=lambda gap: gap.last).text if self.gaps else "the cause is not known"
        return f"{calls} of {self.agent} session {self.session} on {self.host} ran without asking any hook: {why}"


NO_COVERAGE = Coverage()


async def read_coverage(
    connections: Connections, keys: Keys, wanted: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Coverage]:
    """What is known of these sessions (agent and id); those of which nothing is known are left out."""
    names = list(dict.fromkeys(wanted))
    rows = await _rows(connections, keys, [session_key(*name) for name in names])
    return {name: coverage(row) for name, row in zip(names, rows, strict=True) if row}


async def sessions_with_gaps(connections: Connections, keys: Keys, since: int) -> list[Coverage]:
    """The sessions with calls since `since` (ms) that came without their pre-hook event, the newest first."""
    with connections.lease() as connection:
        (found,) = await connection.exchange([("ZRANGE", keys("gaps"), "+inf", since, "BYSCORE", "REV")])
    names = [name.decode() for name in checked(found, "listing the sessions with gaps")]
    known = [coverage(row) for row in await _rows(connections, keys, names) if row]
    return [one for one in known if one.uncovered > 0]


async def _rows(connections: Connections, keys: Keys, names: Sequence[str]) -> list[dict[bytes, bytes]]:
    if not names:
        return []
    with connections.lease() as connection:
        replies = await connection.exchange([("HGETALL", keys("coverage", name)) for name in names])
    return [flat(checked(reply, "reading the calls of a session")) for reply in replies]


def coverage(row: Mapping[bytes, bytes]) -> Coverage:
    """What the fields of a session's hash say; what could be a secret is redacted."""
    known = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in row.items()}
    text = {name: redact_text(value) for name, value in known.items() if not name.startswith(("pre:", "open:", "gap:"))}
    tools = {name.removeprefix("pre:"): int(count) for name, count in known.items() if name.startswith("pre:")}

    def number(name: str) -> int:
        return int(known.get(name, "0"))

    uncovered = max(0, number("uncovered"))
    gaps = tuple(
        Gap(
            cause=cause,
            text=text.get(f"text:{cause}", ""),
            calls=number(f"calls:{cause}"),
            tool=text.get(f"tool:{cause}", ""),
            first=number(f"since:{cause}"),
            last=number(f"until:{cause}"),
        )
        for cause in CAUSES
        if number(f"calls:{cause}")
    )
    return Coverage(
        agent=text.get("source", ""),
        session=text.get("session", ""),
        host=text.get("host", ""),
        version=text.get("version", ""),
        pre=sum(tools.values()),
        uncovered=uncovered,
        gaps=gaps if uncovered else (),
        first=number("first"),
        started=number("started"),
        last_pre=number("last_pre"),
        tools=tuple(sorted(tools)),
    )
