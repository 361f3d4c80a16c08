"""The subscriptions of clients, and the clients that get a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from bus.errors import FleethookError
from bus.events import Event
from bus.matching.conditions import Condition, compile_condition
from bus.matching.patterns import Index, parse_pattern
from workers.admin.hook_findings import check_condition
from workers.gateway.live.messages import Facts, FeedMessage
from workers.gateway.problems import Problem

_MOST: Final = 100
"""The most subscriptions of a client."""


_EQUALS: Final = re.compile(
    r"""event\.(?P<field>session|host|cwd|tool|source|type)\s*==\s*(?P<quote>["'])(?P<value>[^"'\\]*)(?P=quote)\s*(?:$|&&)"""
)
"""The beginning of a condition that requires one value of a field. Without `||` and `?` the rest cannot change that."""


class Subscription(NamedTuple):
    """One subscription: an event pattern and a condition (may be empty)."""

    pattern: str
    where: str = ""


ALL: Final = Subscription("*")

C = TypeVar("C")


class Subscriptions:
    """The subscriptions of one client; a client that never subscribed gets everything."""

    def __init__(self) -> None:
        self._by_name: dict[str, Subscription] = {}
        self._chosen = False

    @property
    def current(self) -> tuple[Subscription, ...]:
        """The subscriptions in force."""
        return tuple(self._by_name.values()) if self._chosen else (ALL,)

    def subscribe(self, patterns: Sequence[str], where: str = "") -> None:
        """Add patterns with a condition; an existing pattern gets the new condition. Raises Problem."""
        for pattern in patterns:
            _check(pattern, where)
        subscriptions = {**self._by_name, **{pattern: Subscription(pattern, where) for pattern in patterns}}
        if len(subscriptions) > _MOST:
            raise Problem(
                400, "subscriptions", f"a client may have {_MOST} subscriptions; these are {len(subscriptions)}"
            )
        self._by_name, self._chosen = subscriptions, True

    def replace(self, subscriptions: Sequence[Subscription]) -> None:
        """Put these subscriptions in the place of all others; raises Problem."""
        for subscription in subscriptions:
            _check(subscription.pattern, subscription.where)
        self._by_name = {f"{one.pattern} {one.where}": one for one in subscriptions}
        self._chosen = True

    def unsubscribe(self, patterns: Sequence[str]) -> None:
        """Remove patterns; an empty list, or `*`, removes all."""
        gone = set(self._by_name) if not patterns or "*" in patterns else set(patterns)
        self._by_name = {name: subscription for name, subscription in self._by_name.items() if name not in gone}
        self._chosen = True


def _check(pattern: str, where: str) -> None:
    try:
        parse_pattern(pattern)
        if where:
            check_condition(where)
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

    def __init__(self, clients: Iterable[tuple[C, Sequence[Subscription]]]) -> None:
        groups: dict[str, _Group[C]] = {}
        for client, subscriptions in clients:
            for subscription in subscriptions:
                groups.setdefault(subscription.pattern, _Group(subscription.pattern)).add(client, subscription.where)
        self._index: Index[_Group[C]] = Index((group, (group.id,)) for group in groups.values())

    def clients(self, message: FeedMessage) -> Iterable[C]:
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
