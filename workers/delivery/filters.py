"""The filter of events, deliveries and dead letters: one value for commands, listings and maintenance jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from bus.events import Event
from bus.hooks import Hook
from bus.ids import short_form
from bus.matching.patterns import Index


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Conditions that must all hold; an empty field is no condition. A maintenance job stores its filter as JSON."""

    types: tuple[str, ...] = ()
    """Patterns of event types, as in a hook's `on`; one of them must fit."""
    session: str = ""
    """The session's id, or its beginning."""
    since: int = 0
    """Milliseconds since 1970. The event was added, the delivery made, or the dead letter given up at this time or later."""
    until: int = 0

    # Of deliveries and dead letters only.
    ids: tuple[str, ...] = ()
    endpoint: str = ""
    """The id of the endpoint or hook."""
    target: str = ""
    """A part of the target."""
    event: str = ""
    """The event's id, or its beginning."""
    states: tuple[str, ...] = ()
    """States of deliveries; one of them must fit."""
    status: str = ""
    """Of a delivery's last attempt: `503`, or `5xx`."""
    payload: str = ""
    """A part of a body that a delivery's attempts sent, where these are recorded (Gobby's `log_deliveries`)."""
    reason: str = ""
    """A part of the reason; upper and lower case are the same."""

    # Of events only.
    tool: str = ""
    """As in a hook's `tool`."""
    source: str = ""
    decision: str = ""
    """A decision, or `fallback` for every answer that no hook gave."""
    trace: str = ""
    """The trace id of its trace context, or its beginning."""
    where: str = ""
    """A CEL condition over `event` and `verdict`; an event without the fields that it reads does not pass."""

    @property
    def empty(self) -> bool:
        """Whether it has no condition."""
        return self == NO_FILTER

    def words(self) -> str:
        """The conditions in words for people, without the times and ids; empty if there are none."""
        named = {
            "endpoint": self.endpoint,
            "target": self.target,
            "event": self.event,
            "type": ", ".join(self.types),
            "session": self.session,
            "tool": self.tool,
            "source": self.source,
            "decision": self.decision,
            "state": ", ".join(self.states),
            "status": self.status,
            "payload": self.payload,
            "reason": self.reason,
            "trace": self.trace,
            "where": self.where,
        }
        return "; ".join(f"{name} {value}" for name, value in named.items() if value)


NO_FILTER: Final = Filter()

_LEAST_SHORT: Final = 10
"""A beginning of a short form needs at least this many characters, which is what lists show. Fewer characters may match
other events, and bulk commands would change those too."""


class FilteredLetter(Protocol):
    """The fields of a dead letter that a filter reads."""

    @property
    def id(self) -> str: ...
    @property
    def hook(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def event(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def reason(self) -> str: ...


class FilteredDelivery(FilteredLetter, Protocol):
    """The fields of a delivery that a filter reads."""

    @property
    def state(self) -> str: ...
    @property
    def last_status(self) -> int: ...
    def sent(self, text: str) -> bool: ...


def letter_test(wanted: Filter) -> Callable[[FilteredLetter], bool]:
    """A function that tests a dead letter, without the times; raises PatternError."""
    ids, reason, types = frozenset(wanted.ids), wanted.reason.lower(), type_index(wanted)

    def test(letter: FilteredLetter) -> bool:
        return (
            (not ids or letter.id in ids)
            and wanted.endpoint in {"", letter.hook}
            and wanted.target in letter.target
            and _event_matches(letter.event, wanted.event)
            and letter.session.startswith(wanted.session)
            and (types is None or bool(letter.type and types.find(Event(type=letter.type, tool=letter.tool))))
            and (not reason or reason in letter.reason.lower())
        )

    return test


def _event_matches(name: str, wanted: str) -> bool:
    """Whether an event's id begins with `wanted`, or its short form does and `wanted` is long enough."""
    return name.startswith(wanted) or (len(wanted) >= _LEAST_SHORT and short_form(name).startswith(wanted))


def delivery_test(wanted: Filter) -> Callable[[FilteredDelivery], bool]:
    """A function that tests a delivery, without the times; raises PatternError."""
    fits_as_letter, states, status = letter_test(wanted), frozenset(wanted.states), wanted.status.lower()

    def test(delivery: FilteredDelivery) -> bool:
        return (
            fits_as_letter(delivery)
            and (not states or delivery.state in states)
            and (not status or _has_status(delivery.last_status, status))
            and (not wanted.payload or delivery.sent(wanted.payload))
        )

    return test


def type_index(wanted: Filter) -> Index[Hook] | None:
    """The event types of a filter, ready to look up; None if every type fits. Raises PatternError."""
    return Index([(Hook(id="filter", on=wanted.types), wanted.types)]) if wanted.types else None


def _has_status(last: int, status: str) -> bool:
    """Whether a last status (0: none) is `status`, such as `503` or `5xx`."""
    text = str(last or "")
    return text == status or (status.endswith("xx") and len(text) == 3 and text[0] == status[0])
