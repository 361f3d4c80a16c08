"""Asks a process that can be killed about rules and conditions, and says what counts where it gives no answer."""

from __future__ import annotations

import atexit
import time
from contextlib import closing
from functools import lru_cache
from typing import Final

import msgspec

from bus.errors import ConditionError, OverBudget
from bus.events import Event
from bus.ids import host_name
from bus.matching.checker import WALL_SECONDS, command
from bus.matching.condition_cost import size_of
from bus.matching.conditions import Condition
from bus.matching.disk import light_disk
from bus.matching.questions import ANSWERS, Answer, Item, Question, answer_rule, encode_question
from bus.matching.rules import UNCHECKED, judge_by_names
from bus.system.child import ChildProcess
from bus.system.environment import base_env

_MOST_DEATHS: Final = 4
"""How often one question may end its process before what is left of it counts as too much as well."""


class Findings(msgspec.Struct):
    """What is known of the rules and conditions of one event."""

    rules: dict[str, Answer] = {}
    """By hook id."""
    conditions: dict[str, Answer] = {}
    """By text; not those that took too long."""
    exceeded: set[str] = set()
    """The conditions that took too long."""
    notes: tuple[str, ...] = ()

    def knows(self, text: str) -> bool:
        """Whether a condition was asked about."""
        return text in self.conditions or text in self.exceeded

    def holds(self, text: str) -> bool:
        """Whether a condition holds; ConditionError where it has no answer, OverBudget where it took too long."""
        if text in self.exceeded:
            raise OverBudget(f"`{text}` took too long to be checked")
        answer = self.conditions[text]
        if answer.failure:
            raise ConditionError(answer.failure)
        return answer.fits


def checker(wall_seconds: float = WALL_SECONDS) -> ChildProcess:
    """A process that answers questions; not started before it is asked."""
    return ChildProcess(command(wall_seconds), base_env() | {"FLEETHOOK_HOST": host_name()})


def ask(child: ChildProcess, question: Question, seconds: float = WALL_SECONDS) -> Findings:
    """What `child` finds within `seconds`; what it does not find is settled by `without_answer`."""
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
            # Reading the line is what takes long for one such rule as for the other.
            stuck = [item] if item[0] == "condition" else [one for one in left.order if one[0] != "condition"]
            without_answer(findings, question, stuck)
            done.update(stuck)
    without_answer(findings, question, [item for item in question.order if item not in done])
    return findings


def without_answer(findings: Findings, question: Question, items: list[Item]) -> None:
    """Settle what was not found: a rule by the programs that the line names, a condition as one that took too long."""
    for kind, name in items:
        if kind == "condition":
            findings.exceeded.add(name)
        elif kind == "notes":
            findings.notes = (UNCHECKED,)
        elif question.rules[name].commands:
            match = judge_by_names(question.rules[name], question.event)
            findings.rules[name] = Answer("rule", name, match is not None, *(match or ()))
        else:
            try:
                findings.rules[name] = answer_rule(name, question.rules[name], question.event, light_disk())
            except OverBudget as error:
                findings.rules[name] = Answer("rule", name, failure=str(error))


def unanswered(question: Question) -> Findings:
    """The findings where nobody can be asked."""
    findings = Findings()
    without_answer(findings, question, list(question.order))
    return findings


def _note(findings: Findings, answer: Answer) -> None:
    if answer.kind == "rule":
        findings.rules[answer.name] = answer
    elif answer.kind == "condition":
        findings.conditions[answer.name] = answer
    else:
        findings.notes = answer.notes


def holds(condition: Condition, event: Event, verdict: dict[str, str]) -> bool:
    """Whether a condition holds; one that may be costly is asked of a process that all callers share.

    ConditionError where it cannot be answered, OverBudget where it takes too long. Blocks for at most two seconds: a loop
    that others wait for asks beforehand, by `ask`.
    """
    facts = event.facts()
    if not condition.is_costly(size_of(facts)):
        return condition({"event": facts, "verdict": verdict})
    findings = ask(_shared(), Question(event=event, conditions=(condition.text,), verdict=verdict))
    return findings.holds(condition.text)


@lru_cache(maxsize=1)
def _shared() -> ChildProcess:
    child = checker()
    atexit.register(child.close)
    return child
