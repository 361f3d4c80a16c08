"""What is asked of a process that can be killed: whether rules and conditions fit an event; and its answers, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from bus.errors import ConditionError, FleethookError, OverBudget
from bus.events import Event
from bus.matching.conditions import compile_condition
from bus.matching.disk import Disk, full_disk
from bus.matching.rules import Match, Rule, judge, unread_notes


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Whether rules (by the ids of their hooks) and conditions (by their text) fit an event."""

    event: Event
    rules: dict[str, Rule] = {}
    conditions: tuple[str, ...] = ()
    verdict: dict[str, str] = {}
    """What conditions see as `verdict`."""

    @property
    def order(self) -> tuple[Item, ...]:
        """What is answered, in this order: what is cheap first, so that it is known when the rest takes too long."""
        plain = [("rule", name) for name, rule in self.rules.items() if not rule.commands]
        lines = [("rule", name) for name, rule in self.rules.items() if rule.commands]
        return (*plain, *([("notes", "")] if lines else []), *lines, *(("condition", text) for text in self.conditions))

    def without(self, done: set[Item]) -> Question:
        """The question without the items that are settled."""
        return msgspec.structs.replace(
            self,
            rules={name: rule for name, rule in self.rules.items() if ("rule", name) not in done},
            conditions=tuple(text for text in self.conditions if ("condition", text) not in done),
        )


Item = tuple[str, str]
"""The kind and the name of one thing that is asked."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What became of one item."""

    kind: Literal["rule", "notes", "condition", "end"]
    name: str = ""
    fits: bool = False
    what: str = ""
    """What of the event made a rule fit."""
    doubt: str = ""
    notes: tuple[str, ...] = ()
    failure: str = ""
    """Why it could not be checked: a wrong pattern, a key that is not there."""

    @property
    def counts(self) -> bool:
        """Whether it has anything to say of its rule: it fits, or it failed."""
        return self.fits or bool(self.failure)

    @property
    def match(self) -> Match | None:
        """A rule's answer as the rule itself would have given it."""
        return Match(self.what, self.doubt) if self.fits else None


END: Final = Answer("end")


def answers(question: Question) -> Iterator[Answer]:
    """Every answer, in the order of the question."""
    disk = full_disk()
    variables: dict[str, Any] = {"event": question.event.facts(), "verdict": question.verdict}
    for kind, name in question.order:
        try:
            if kind == "rule":
                yield answer_rule(name, question.rules[name], question.event, disk)
            elif kind == "notes":
                yield Answer("notes", notes=unread_notes(question.rules.values(), question.event))
            else:
                yield Answer("condition", name, compile_condition(name)(variables))
        except ConditionError as error:
            yield Answer("condition", name, failure=str(error))


def answer_rule(name: str, rule: Rule, event: Event, disk: Disk) -> Answer:
    """What one rule comes to; a rule that is wrong, or breaks on the event, is an answer too.

    OverBudget where the disk has no patience and the rule needs some.
    """
    try:
        match = judge(rule, event, disk)
    except OverBudget as error:
        if not disk.patient:
            raise
        return Answer("rule", name, failure=str(error))
    except FleethookError as error:
        return Answer("rule", name, failure=str(error))
    except Exception as error:  # noqa: BLE001  (a library's surprise must end nobody)
        return Answer("rule", name, failure=f"it broke on this event: {type(error).__name__}")
    return Answer("rule", name, match is not None, *(match or ()))


def encode_question(question: Question) -> bytes:
    """As bytes; half a pair of characters becomes a question mark, a number beyond 64 bits the nearest float."""
    try:
        return msgspec.msgpack.encode(question)
    except (UnicodeEncodeError, OverflowError):
        return msgspec.msgpack.encode(msgspec.structs.replace(question, event=_as_encodable(question.event)))


def _as_encodable(event: Event) -> Event:
    plain = {name: _plain(getattr(event, name)) for name in event.__struct_fields__}
    return msgspec.structs.replace(event, **plain)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(min(max(value, -(10**300)), 10**300))
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value


QUESTIONS: Final = msgspec.msgpack.Decoder(Question)
ANSWERS: Final = msgspec.msgpack.Decoder(Answer)
