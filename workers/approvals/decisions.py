"""A person's answer to a question, and the end of questions that nobody answers."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from bus.secrets.redaction import redact_text
from bus.verdicts import ApprovalState
from bus.wire.connections import Connections
from bus.wire.keys import DONE_MS, KEPT_MS, Keys
from bus.wire.streams import ScriptCall, call_all, checked

TICKET_MS: Final = KEPT_MS
"""The time after an approval in which the same call passes if its agent could not wait: ten minutes."""

LINK_HOLDER: Final = "holder of the link"
"""The name recorded for an answer by a link: it is not known who holds the link."""

MOST_COMMENT: Final = 500

Via = Literal["token", "user", "link"]
Verb = Literal["approve", "deny"]
Word = Literal["done", "before", "more", "refused", "early", "unknown"]


class Person(NamedTuple):
    """A person who answers."""

    name: str
    """A token's name, or `user@host`; LINK_HOLDER for a link."""
    via: Via


class Result(NamedTuple):
    """The effect of an answer."""

    word: Word
    """`done`: it decided; `before`: another answer had decided; `more`: `missing` more persons have to approve; `refused`: this
    person may not approve; `early`: nothing was due; `unknown`: there is no such question."""
    state: ApprovalState | Literal[""] = ""
    by: str = ""
    missing: int = 0


async def answer(
    connections: Connections, keys: Keys, question: str, verb: Verb, person: Person, comment: str = ""
) -> Result:
    """Answer a question, by its whole id; raises Unreachable. The first answer counts."""
    (reply,) = await call_all(connections, [decide_call(keys, question, verb, person, comment)])
    return _result(checked(reply, "answering a question"))


async def overtake(connections: Connections, keys: Keys, question: str) -> Result:
    """End a question whose answer no longer matters; raises Unreachable."""
    (reply,) = await call_all(connections, [decide_call(keys, question, "overtake")])
    return _result(checked(reply, "ending a question"))


def decide_call(
    keys: Keys,
    question: str,
    verb: Verb | Literal["due", "overtake"],
    person: Person | None = None,
    comment: str = "",
) -> ScriptCall:
    """The script call that decides a question; `due` only ends what is over by its times."""
    who, via = person if person is not None else ("", "")
    return ScriptCall(
        "decide",
        (keys("question", question), keys("questions"), keys("decided"), keys("events"), keys("late")),
        (question, verb, who, via, redact_text(comment)[:MOST_COMMENT], keys.prefix, TICKET_MS, DONE_MS),
    )


def _result(reply: list[bytes]) -> Result:
    word, state, by, missing = reply
    return Result(word.decode(), state.decode(), by.decode("utf-8", "replace"), int(missing))  # type: ignore[arg-type]  # decide.lua has these words
