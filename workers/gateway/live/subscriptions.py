"""The subscriptions of clients, and the clients that get a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from bus.errors import FleethookError
from bus.events import Event
from bus.matching.conditions import Condition, compile_condition
from bus.matching.patterns import Index, parse_pattern
from workers.gateway.live.messages import Facts, Message
from workers.gateway.problems import Problem

_MOST: Final = 100
"""The most subscriptions of a client."""


_EQUALS: Final = re.compile(
    r"""event\.(?P<field>session|host|cwd|tool|source|type)\s*==\s*(?P<quote>["'])(?P<value>[^"'\\]*)(?P=quote)\s*(?:$|&&)"""
)
"""The beginning of a condition that requires one value of a field. Without `||` and `?` the rest cannot change that."""


class Rule(NamedTuple):
    """One subscription: an event pattern and a condition (may be empty)."""

    pattern: str
    where: str = ""


ALL: Final = Rule("*")

C = TypeVar("C")


class Subscriptions:
    """The subscriptions of one client; a client that never subscribed gets everything."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._chosen = False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The subscriptions in force."""
        return tuple(self._rules.values()) if self._chosen else (ALL,)

    def subscribe(self, patterns: Sequence[str], where: str = "") -> None:
        """Add patterns with a condition; an existing pattern gets the new condition. Raises Problem."""
        for pattern in patterns:
            _check(pattern, where)
        rules = {**self._rules, **{pattern: Rule(pattern, where) for pattern in patterns}}
        if len(rules) > _MOST:
            raise Problem(400, "subscriptions", f"a client may have {_MOST} subscriptions; these are {len(rules)}")
        self._rules, self._chosen = rules, True

    def replace(self, rules: Sequence[Rule]) -> None:
        """Put these subscriptions in the place of all others; raises Problem."""
        for rule in rules:
            _check(rule.pattern, rule.where)
        self._rules, self._chosen = {f"{rule.pattern} {rule.where}": rule for rule in rules}, True

    def unsubscribe(self, patterns: Sequence[str]) -> None:
        """Remove patterns; an empty list, or `*`, removes all."""
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


class _Group(Generic[C]):
    """The subscriptions of all clients to one pattern."""

    tool: Final = ""

    def __init__(self, pattern: str) -> None:
        self.id = pattern
        self.plain: list[C] = []
        """Clients without a condition."""
        self.others: dict[Condition, list[C]] = {}
        self.by_value: dict[str, dict[str, dict[Condition, list[C]]]] = {}
        """Conditions that begin with `event.FIELD == "value"`, by field and value. If 1,000 clients each ask for one session,
        an event costs one condition instead of 1,000, which take 15 milliseconds."""

    def add(self, client: C, where: str) -> None:
        """Add a client's subscription."""
        if not where:
            self.plain.append(client)
            return
        match = None if "||" in where or "?" in where else _EQUALS.match(where)
        place = self.others
        if match is not None:
            place = self.by_value.setdefault(match["field"], {}).setdefault(match["value"], {})
        place.setdefault(compile_condition(where), []).append(client)

    def conditions(self, event: Event) -> Iterable[tuple[Condition, list[C]]]:
        """The conditions that can hold for an event, each with its clients."""
        yield from self.others.items()
        for field, values in self.by_value.items():
            yield from values.get(getattr(event, field), {}).items()


class Router(Generic[C]):
    """Finds the clients that get a message. Its cost grows with the number of different conditions, not of clients."""

    def __init__(self, clients: Iterable[tuple[C, Sequence[Rule]]]) -> None:
        groups: dict[str, _Group[C]] = {}
        for client, rules in clients:
            for rule in rules:
                groups.setdefault(rule.pattern, _Group(rule.pattern)).add(client, rule.where)
        self._index: Index[_Group[C]] = Index((group, (group.id,)) for group in groups.values())

    def clients(self, message: Message) -> Iterable[C]:
        """The clients that get the message, each once."""
        found: dict[C, None] = {}
        facts: Facts | None = None
        for group in self._index.find(message.event):
            found.update(dict.fromkeys(group.plain))
            for condition, clients in group.conditions(message.event):
                facts = facts or Facts(message)
                if facts.hold(condition):
                    found.update(dict.fromkeys(clients))
        return found
