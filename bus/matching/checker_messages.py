"""Questions to a process that can be killed: whether rules and conditions fit an event. The answers come one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from bus.errors import ConditionError, FleethookError, OverBudget
from bus.events import Event
from bus.lazy.conversions import msgpack_decoder
from bus.matching.conditions import compile_condition
from bus.matching.disk import Disk, full_disk
from bus.matching.rule_fields import Rule
from bus.matching.rules import Match, judge, unread_notes


class MatchQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question: whether rules (by the ids of their hooks) and conditions (by their text) fit an event."""

    event: Event
    rules: dict[str, Rule] = {}
    conditions: tuple[str, ...] = ()
    verdict: dict[str, str] = {}
    """The value of `verdict` in conditions."""
    session: dict[str, Any] | None = None
    """What conditions read as `session`; None where nothing is known of it."""

    @property
    def order(self) -> tuple[Item, ...]:
        """The items in the order in which they are answered: fast ones first, in case the rest takes too long."""
        plain = [("rule", name) for name, rule in self.rules.items() if not rule.commands]
        lines = [("rule", name) for name, rule in self.rules.items() if rule.commands]
        return (*plain, *([("notes", "")] if lines else []), *lines, *(("condition", text) for text in self.conditions))

    def without(self, done: set[Item]) -> MatchQuestion:
        """The same question without the items that are answered."""
        return msgspec.structs.replace(
            self,
            rules={name: rule for name, rule in self.rules.items() if ("rule", name) not in done},
            conditions=tuple(text for text in self.conditions if ("condition", text) not in done),
        )


Item = tuple[str, str]
"""The kind and the name of one item."""


class ItemAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to one item."""

    kind: Literal["rule", "notes", "condition", "end"]
    name: str = ""
    fits: bool = False
    what: str = ""
    """The part of the event that made a rule fit."""
    doubt: str = ""
    notes: tuple[str, ...] = ()
    failure: str = ""
    """Why the item could not be checked: a wrong pattern, a missing key."""

    @property
    def counts(self) -> bool:
        """Whether the rule fits or failed, so that its outcome counts."""
        return self.fits or bool(self.failure)

    @property
    def match(self) -> Match | None:
        """The rule's answer as a direct call would have given it."""
        return Match(self.what, self.doubt) if self.fits else None


END: Final = ItemAnswer("end")


def answers(question: MatchQuestion) -> Iterator[ItemAnswer]:
    """Every answer, in the order of the question."""
    disk = full_disk()
    variables: dict[str, Any] = {"event": question.event.facts(), "verdict": question.verdict}
    variables["session"] = question.session
    for kind, name in question.order:
        try:
            if kind == "rule":
                yield answer_rule(name, question.rules[name], question.event, disk)
            elif kind == "notes":
                yield ItemAnswer("notes", notes=unread_notes(question.rules.values(), question.event))
            else:
                yield ItemAnswer("condition", name, compile_condition(name)(variables))
        except ConditionError as error:
            yield ItemAnswer("condition", name, failure=str(error))


def answer_rule(name: str, rule: Rule, event: Event, disk: Disk) -> ItemAnswer:
    """The answer for one rule, also for a rule that is wrong or fails on the event.

    Raises OverBudget if the rule needs more look-ups than `disk` allows.
    """
    try:
        match = judge(rule, event, disk)
    except OverBudget as error:
        if not disk.patient:
            raise
        return ItemAnswer("rule", name, failure=str(error))
    except FleethookError as error:
        return ItemAnswer("rule", name, failure=str(error))
    except Exception as error:  # noqa: BLE001  (an unexpected error of a library must not end the process)
        return ItemAnswer("rule", name, failure=f"it broke on this event: {type(error).__name__}")
    return ItemAnswer("rule", name, match is not None, *(match or ()))


def encode_question(question: MatchQuestion) -> bytes:
    """As bytes. A lone surrogate becomes a question mark, an integer beyond 64 bits the nearest float."""
    try:
        return msgspec.msgpack.encode(question)
    except (UnicodeEncodeError, OverflowError):
        return msgspec.msgpack.encode(msgspec.structs.replace(question, event=encodable_event(question.event)))


def encodable_event(event: Event) -> Event:
    """The event without what msgpack cannot hold, as `encode_question` changes it."""
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


QUESTIONS: Final = msgpack_decoder(MatchQuestion)
ANSWERS: Final = msgpack_decoder(ItemAnswer)
