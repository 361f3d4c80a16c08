"""Asks a separate process, which can be killed, about rules and conditions, and decides what counts without an answer."""

from __future__ import annotations

import atexit
import time
from contextlib import closing
from functools import lru_cache
from typing import Any, Final

import msgspec

from bus.errors import ConditionError, OverBudget
from bus.events import Event
from bus.ids import host_name
from bus.matching.checker import WALL_SECONDS, command
from bus.matching.checker_messages import ANSWERS, Item, ItemAnswer, MatchQuestion, answer_rule, encode_question
from bus.matching.condition_cost import Size, size_of
from bus.matching.conditions import Condition
from bus.matching.disk import light_disk
from bus.matching.rules import UNCHECKED, judge_by_names
from bus.system.child import ChildProcess
from bus.system.environment import base_env

Session = dict[str, Any] | None
"""What conditions read as `session` (bus/memory/facts.py); None where nothing is known of it."""
_MOST_DEATHS: Final = 4
"""How often one question may end its process. After that, its remaining items count as too costly as well."""


class Findings(msgspec.Struct):
    """The answers about the rules and conditions of one event."""

    rules: dict[str, ItemAnswer] = {}
    """Answers about rules, by hook id."""
    conditions: dict[str, ItemAnswer] = {}
    """Answers about conditions, by text; without those that took too long."""
    exceeded: set[str] = set()
    """The conditions that took too long."""
    notes: tuple[str, ...] = ()

    def knows(self, text: str) -> bool:
        """Whether a condition was part of the question."""
        return text in self.conditions or text in self.exceeded

    def holds(self, text: str) -> bool:
        """Whether a condition holds. Raises ConditionError if it has no answer, OverBudget if it took too long."""
        if text in self.exceeded:
            raise OverBudget(f"`{text}` took too long to be checked")
        answer = self.conditions[text]
        if answer.failure:
            raise ConditionError(answer.failure)
        return answer.fits


def checker(wall_seconds: float = WALL_SECONDS) -> ChildProcess:
    """A process that answers questions; it is started at the first question."""
    return ChildProcess(command(wall_seconds), base_env() | {"FLEETHOOK_HOST": host_name()})


def ask(child: ChildProcess, question: MatchQuestion, seconds: float = WALL_SECONDS) -> Findings:
    """The findings of `child` within `seconds`; `without_answer` decides the rest."""
    findings, done = Findings(), set[Item]()
    until, deaths = time.monotonic() + seconds, 0
    while (left := question.without(done)).order and deaths < _MOST_DEATHS:
        try:
            with closing(child.ask(encode_question(left), max(0.0, until - time.monotonic()))) as messages:
                for answer in map(ANSWERS.decode, messages):
                    if answer.kind == "end":
                        return findings
                    _note(findings, answer)
                    done.add((answer.kind, answer.name))
        except OverBudget:
            deaths += 1
            if time.monotonic() >= until:
                break
            item = next((item for item in left.order if item not in done), None)
            if item is None:
                break
            # Reading the line takes the time, and it takes as long for every such rule.
            stuck = [item] if item[0] == "condition" else [other for other in left.order if other[0] != "condition"]
            without_answer(findings, question, stuck)
            done.update(stuck)
    without_answer(findings, question, [item for item in question.order if item not in done])
    return findings


def without_answer(findings: Findings, question: MatchQuestion, items: list[Item]) -> None:
    """Decide what got no answer: a rule by the programs that the line names, a condition as one that took too long."""
    for kind, name in items:
        if kind == "condition":
            findings.exceeded.add(name)
        elif kind == "notes":
            findings.notes = (UNCHECKED,)
        elif question.rules[name].commands:
            match = judge_by_names(question.rules[name], question.event)
            findings.rules[name] = ItemAnswer("rule", name, match is not None, *(match or ()))
        else:
            try:
                findings.rules[name] = answer_rule(name, question.rules[name], question.event, light_disk())
            except OverBudget as error:
                findings.rules[name] = ItemAnswer("rule", name, failure=str(error))


def unanswered(question: MatchQuestion) -> Findings:
    """The findings if no process can be asked."""
    findings = Findings()
    without_answer(findings, question, list(question.order))
    return findings


def _note(findings: Findings, answer: ItemAnswer) -> None:
    if answer.kind == "rule":
        findings.rules[answer.name] = answer
    elif answer.kind == "condition":
        findings.conditions[answer.name] = answer
    else:
        findings.notes = answer.notes


_LAST_FACTS: Final[list[tuple[Event, dict[str, Any], Size]]] = []


def sized_facts(event: Event) -> tuple[dict[str, Any], Size]:
    """What conditions read of an event, and how large that is; those of the last event are remembered."""
    for known, facts, size in _LAST_FACTS:
        if known is event:
            return facts, size
    facts = event.facts()
    size = size_of(facts)
    _LAST_FACTS[:] = [(event, facts, size)]
    return facts, size


def holds(condition: Condition, event: Event, verdict: dict[str, str], session: Session = None) -> bool:
    """Whether a condition holds; a shared process is asked about one that may be costly.

    Raises ConditionError if it cannot be answered, and OverBudget if it takes too long. Blocks for at most two seconds, so an
    event loop calls `ask` before.
    """
    if condition.reads_facts_only:  # which have no size
        return condition({"session": session})
    facts, size = sized_facts(event)
    if not condition.is_costly(size):
        return condition({"event": facts, "verdict": verdict, "session": session})
    question = MatchQuestion(event=event, conditions=(condition.text,), verdict=verdict, session=session)
    findings = ask(_shared(), question)
    return findings.holds(condition.text)


@lru_cache(maxsize=1)
def _shared() -> ChildProcess:
    child = checker()
    atexit.register(child.close)
    return child
