"""What a client wants to get, and which clients want a message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from bus.errors import FleethookError
from bus.matching.conditions import Condition, compile_condition
from bus.matching.patterns import Index, parse_pattern
from workers.gateway.live.messages import Facts, Message
from workers.gateway.problems import Problem

_MOST: Final = 100
"""How many subscriptions a client may have."""


class Rule(NamedTuple):
    """One subscription: an event pattern, and a condition where there is one."""

    pattern: str
    where: str = ""

    @property
    def id(self) -> str:
        """Its name in the index."""
        return self.pattern

    @property
    def tool(self) -> str:
        """Its tool matcher: none, since a pattern names the tool."""
        return ""


ALL: Final = Rule("*")

C = TypeVar("C")


class Subscriptions:
    """The subscriptions of one client; one that never subscribed gets everything."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._chosen = False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The subscriptions in force."""
        return tuple(self._rules.values()) if self._chosen else (ALL,)

    def subscribe(self, patterns: Sequence[str], where: str = "") -> None:
        """Add patterns, each with the condition; one that is there gets the new condition. Raises Problem."""
        for pattern in patterns:
            _check(pattern, where)
        rules = {**self._rules, **{pattern: Rule(pattern, where) for pattern in patterns}}
        if len(rules) > _MOST:
            raise Problem(400, "subscriptions", f"a client may have {_MOST} subscriptions; these are {len(rules)}")
        self._rules, self._chosen = rules, True

    def unsubscribe(self, patterns: Sequence[str]) -> None:
        """Remove patterns; none, or `*`, removes all."""
        gone = set(self._rules) if not patterns or "*" in patterns else set(patterns)
        self._rules = {name: rule for name, rule in self._rules.items() if name not in gone}
        self._chosen = True


def _check(pattern: str, where: str) -> None:
    try:
        parse_pattern(pattern)
        if where:
            compile_condition(where)
    except FleethookError as error:
        raise Problem(400, "subscription-invalid", str(error)) from error


class Router(Generic[C]):
    """Finds the clients that want a message. Its cost grows with the subscriptions that differ, not with the clients."""

    def __init__(self, clients: Iterable[tuple[C, Sequence[Rule]]]) -> None:
        self._wanting: dict[Rule, list[C]] = {}
        for client, rules in clients:
            for rule in rules:
                self._wanting.setdefault(rule, []).append(client)
        self._conditions: dict[str, Condition] = {
            rule.where: compile_condition(rule.where) for rule in self._wanting if rule.where
        }
        self._index: Index[Rule] = Index((rule, (rule.pattern,)) for rule in self._wanting)

    def clients(self, message: Message) -> Iterable[C]:
        """The clients that get the message, each once."""
        rules = self._index.find(message.event)
        if len(rules) == 1 and not rules[0].where:
            return self._wanting[rules[0]]
        facts = Facts(message) if any(rule.where for rule in rules) else None
        fits = [rule for rule in rules if facts is None or not rule.where or facts.hold(self._conditions[rule.where])]
        return dict.fromkeys(client for rule in fits for client in self._wanting[rule])
