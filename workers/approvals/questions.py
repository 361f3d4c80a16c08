"""A question: a call that a hook wants a person to decide, as Redis keeps it and as people see it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bus.errors import AmbiguousId, NotFound
from bus.ids import begins
from bus.lazy.conversions import converted
from bus.verdicts import ApprovalState, Policy
from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.records.pages import Page

STATES: Final[dict[ApprovalState, str]] = {
    "waiting": "waiting",
    "approved": "approved",
    "denied": "denied",
    "timed_out": "timed out",
    "nobody_could_be_asked": "nobody could be asked",
    "overtaken": "overtaken",
}
"""Every state in words."""

MOST_LISTED: Final = 10_000
"""The most questions that wait at the same time; further calls get their default."""

_PAGE: Final = 200
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class AskingRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hook whose `ask` is held."""

    hook: str
    layer: str = ""
    version: str = ""
    origin: str = ""
    """`file:line` of its definition."""
    reason: str = ""
    group: str = ""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """The persons who have to approve, if one answer of anybody is not enough."""

    members: tuple[str, ...]
    """Names of tokens; empty: every token."""
    persons: int


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question as people see it; its texts are redacted."""

    id: str
    """The id of the event that it is about."""
    state: ApprovalState
    asked: int
    """Milliseconds since 1970 by the server's clock, like the other times."""
    due: int
    """The time until which the agent waits. After a later approval the same call passes once, within ten minutes."""
    ends: int
    """When the question ends without an answer."""
    default: Policy
    summary: str
    """What the call is about, in one text: its command, path or input."""
    input: dict[str, Any] | None = None
    """Everything that the call runs with, after the changes of hooks. None in lists, once it is decided, and over 256 KB."""
    input_changed: bool = False
    """Whether hooks have changed the input that the agent gave. Not in lists."""
    source: str = ""
    session: str = ""
    host: str = ""
    tool: str = ""
    cwd: str = ""
    reason: str = ""
    rules: tuple[AskingRule, ...] = ()
    needs: tuple[Need, ...] = ()
    approved_by: tuple[str, ...] = ()
    """The persons who have approved so far, if several have to."""
    by: str = ""
    via: str = ""
    answered: int = 0
    comment: str = ""
    agent_waits: bool = False
    """Whether the agent still waits for this answer."""
    has_secret: bool = False
    """Whether the input of the call holds a secret; such a call cannot be remembered."""


_TEXTS: Final = ("source", "session", "host", "tool", "cwd", "reason", "by", "via", "comment")
_TIMES: Final = ("asked", "due", "ends", "answered")
_FIELDS: Final = ("state", "default", "summary", *_TIMES, *_TEXTS, "rules", "needs", "votes", "replied", "secret")
_INPUT: Final = ("input", "input_changed")


async def read_question(connections: Connections, keys: Keys, name: str) -> Question:
    """The question with this id and its whole input; raises NotFound."""
    (found,) = await read_questions(connections, keys, [name], inputs=True)
    if found is None:
        raise NotFound(f"there is no question {name[:80]!r}; `fleethook approvals list --all` shows them")
    return found


async def read_questions(
    connections: Connections, keys: Keys, names: Sequence[str], *, inputs: bool = False
) -> list[Question | None]:
    """The questions with these ids, None for one that is gone; with their `inputs` or without. Raises Unreachable."""
    fields = (*_FIELDS, *_INPUT) if inputs else _FIELDS
    commands: list[Command] = [("HMGET", keys("question", name), *fields) for name in names]
    if not commands:
        return []
    with connections.lease() as connection:
        rows = await connection.exchange(commands)
    return [
        _question(name, dict(zip(fields, checked(row, "reading a question"), strict=True)))
        for name, row in zip(names, rows, strict=True)
    ]


async def whole_question_id(connections: Connections, keys: Keys, name: str) -> str:
    """The id of the one listed question with this id or prefix, also of its short form; raises NotFound, AmbiguousId."""
    if not _ID.fullmatch(name):
        raise NotFound(f"{name[:80]!r} cannot be the id of a question")
    with connections.lease() as connection:
        exact, listed = await connection.exchange(
            [("EXISTS", keys("question", name)), ("ZRANGE", keys("approvals"), 0, -1)]
        )
    if checked(exact, "looking for a question") == 1:
        return name
    names: list[str] = [member.decode() for member in checked(listed, "listing questions")]
    fitting = [member for member in names if member.startswith(name)] or [
        member for member in names if begins(member, name)
    ]
    if len(fitting) > 1:
        raise AmbiguousId(f"{len(fitting)} questions begin with {name[:80]!r}; give more of the id")
    if not fitting:
        raise NotFound(f"there is no question {name[:80]!r}; `fleethook approvals list --all` shows them")
    return fitting[0]


class QuestionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the questions of a list; an empty field selects all."""

    states: tuple[str, ...] = ()
    session: str = ""
    source: str = ""
    host: str = ""
    tool: str = ""

    def fits(self, question: Question) -> bool:
        """Whether the list has this question."""
        return (
            (not self.states or question.state in self.states)
            and question.session.startswith(self.session)
            and self.source in {"", question.source}
            and self.host in {"", question.host}
            and self.tool in {"", question.tool}
        )


async def question_page(
    connections: Connections, keys: Keys, wanted: QuestionFilter, most: int, before: str = ""
) -> Page[Question]:
    """The newest questions before a position that are wanted; raises Unreachable."""
    found: list[Question] = []
    score, _, last = before.partition(":")
    while True:
        # Members with the same score are in the order of their names, so the position names the last one.
        highest = score or "+inf"
        with connections.lease() as connection:
            (rows,) = await connection.exchange(
                [("ZREVRANGEBYSCORE", keys("approvals"), highest, "-inf", "WITHSCORES", "LIMIT", 0, _PAGE + 1)]
            )
        flat_rows = checked(rows, "listing questions")
        members = [(row.decode(), int(float(at))) for row, at in zip(flat_rows[::2], flat_rows[1::2], strict=True)]
        left = [(name, at) for name, at in members if not last or (at, name) < (int(score), last)]
        for (name, at), question in zip(
            left, await read_questions(connections, keys, [name for name, _ in left]), strict=True
        ):
            if question is not None and wanted.fits(question):
                if len(found) == most:
                    return Page(found, f"{found[-1].asked}:{found[-1].id}")
                found.append(question)
            score, last = str(at), name
        if len(members) <= _PAGE or not left:
            return Page(found)
        await asyncio.sleep(0)


async def waiting_questions(connections: Connections, keys: Keys, most: int = MOST_LISTED) -> list[Question]:
    """The questions that wait for an answer, the oldest first; raises Unreachable."""
    with connections.lease() as connection:
        (names,) = await connection.exchange([("ZRANGE", keys("questions"), 0, most - 1)])
    found: list[Question] = []
    ids = [name.decode() for name in checked(names, "listing questions that wait")]
    for start in range(0, len(ids), _PAGE):
        rows = await read_questions(connections, keys, ids[start : start + _PAGE])
        found += [question for question in rows if question is not None and question.state == "waiting"]
    return sorted(found, key=lambda question: (question.asked, question.id))


def _question(name: str, row: Mapping[str, bytes | None]) -> Question | None:
    if row["state"] is None:
        return None
    text = {field: (value or b"").decode("utf-8", "replace") for field, value in row.items()}
    plain: dict[str, Any] = {field: text[field] for field in (*_TEXTS, "state", "default", "summary")}
    plain |= {field: int(text[field] or 0) for field in _TIMES}
    plain |= {field: msgspec.json.decode(text[field] or "[]") for field in ("rules", "needs")}
    plain["approved_by"] = [vote for vote in text["votes"].split("\n") if vote]
    plain["agent_waits"] = text["state"] == "waiting" and not text["replied"]
    plain |= {"id": name, "has_secret": text["secret"] == "1"}  # noqa: S105 - a mark and no password
    plain |= {"input": json.loads(text.get("input") or "null"), "input_changed": text.get("input_changed") == "1"}
    return converted(plain, Question)


def needs_of(rows: Iterable[Need]) -> str:
    """The needs as Redis keeps them."""
    return msgspec.json.encode(list(rows)).decode()
