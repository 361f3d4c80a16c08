"""The messages of the feed: events and outcomes of deliveries, decoded, redacted and encoded once for all clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from bus.errors import ConditionError, PatternError
from bus.events import Event
from bus.matching.condition_cost import size_of
from bus.matching.conditions import Condition
from bus.wire.codec import write_json
from bus.wire.keys import Keys
from bus.wire.streams import LATEST_MS, StreamEntry
from workers.delivery.deliveries import Delivery, read_delivery
from workers.gateway.live.cursors import Cursor, StreamPosition, position_after
from workers.records.events import RecordedEvent, moment, read_recorded_event, record

_MOST_BYTES: Final = 256 * 1024
"""A longer event is sent without its payload, because every client gets a copy."""

_PAYLOAD: Final = frozenset({"input", "output", "data", "raw"})
_VERDICT_PAYLOAD: Final = frozenset({"updated_input", "updated_output", "contexts", "permissions"})


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """One event or outcome."""

    at: Cursor
    """The feed's place after it."""
    is_event: bool
    name: str
    """`event` or `delivery`."""
    body: str
    """The event or delivery as JSON."""
    event: Event
    """The event that subscriptions are compared with; for an outcome, only the facts that its delivery has."""
    verdict: Mapping[str, str]

    @property
    def position(self) -> StreamPosition:
        """Its place in its own stream."""
        return self.at.events if self.is_event else self.at.outcomes

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        return len(self.body)

    def frame(self, at: Cursor) -> str:
        """The text that a WebSocket client gets."""
        return f'{{"kind":"{self.name}","cursor":"{at}","{self.name}":{self.body}}}'


class Facts:
    """The variables that conditions read of a message, made once for all conditions."""

    def __init__(self, message: FeedMessage) -> None:
        self._variables: dict[str, Any] = {"event": message.event.facts(), "verdict": dict(message.verdict)}
        self._size = size_of(self._variables["event"])
        self._answers: dict[str, bool] = {}

    def hold(self, condition: Condition) -> bool:
        """Whether a condition holds. One that is too costly for this event counts as true, so nothing is missed."""
        known = self._answers.get(condition.text)
        if known is None:
            known = self._answers[condition.text] = self._ask(condition)
        return known

    def _ask(self, condition: Condition) -> bool:
        if condition.is_costly(self._size):
            return True
        try:
            return condition(self._variables)
        except (ConditionError, PatternError):  # it uses a field that this event does not have
            return False


def event_message(entry: StreamEntry, keys: Keys, before: Cursor, *, payload: bool) -> FeedMessage:
    """The message for an entry of the event stream."""
    seen = read_recorded_event(entry, keys)
    verdict = {"decision": seen.decision, "reason": seen.verdict.reason if seen.verdict is not None else ""}
    body = _event_json(seen, payload=payload)
    return FeedMessage(before._replace(events=position_after(entry.id)), True, "event", body, seen.event, verdict)


def _event_json(seen: RecordedEvent, *, payload: bool) -> str:
    fields = record(seen)
    text = write_json(fields if payload else _without_payload(fields)).decode()
    if len(text) > _MOST_BYTES:
        text = write_json({**_without_payload(fields), "cut": True}).decode()
    return text


def _without_payload(fields: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in fields.items() if name not in _PAYLOAD}
    verdict = kept.get("verdict")
    if isinstance(verdict, dict):
        kept["verdict"] = {name: value for name, value in verdict.items() if name not in _VERDICT_PAYLOAD}
    return kept


class RecordedOutcome(NamedTuple):
    """One outcome in the stream of outcomes."""

    position: StreamPosition
    """The place right after it."""
    ms: int
    delivery: str
    attempt: int
    """0 if no attempt was made."""
    outcome: str


def read_outcomes(entry: bytes, parts: Sequence[bytes]) -> list[RecordedOutcome]:
    """The outcomes in one entry of the stream: alternately a delivery's id, and the attempt's number with its outcome."""
    end, texts = position_after(entry), [part.decode("utf-8", "replace") for part in parts]
    outcomes = list[RecordedOutcome]()
    for sent, (delivery, result) in enumerate(zip(texts[::2], texts[1::2], strict=True), 1):
        number, _, outcome = result.partition(" ")
        at = end if 2 * sent == len(texts) else end._replace(sent=sent)
        attempt = int(number) if number.isdecimal() else 0
        outcomes.append(RecordedOutcome(at, min(end.ms, LATEST_MS), delivery, attempt, outcome))
    return outcomes


def outcome_message(outcome: RecordedOutcome, delivery: Mapping[bytes, bytes], before: Cursor) -> FeedMessage:
    """The message for an outcome; `delivery` has its delivery's fields, empty if they are no longer kept."""
    found = read_delivery(outcome.delivery, delivery)
    body = write_json(_outcome(found, outcome)).decode()
    event = Event(type=found.type or "unknown", id=found.event, tool=found.tool, session=found.session, time=outcome.ms)
    return FeedMessage(before._replace(outcomes=outcome.position), False, "delivery", body, event, {})


def _outcome(delivery: Delivery, outcome: RecordedOutcome) -> dict[str, Any]:
    attempt = delivery.log[0] if delivery.log else None
    fields = {
        "id": delivery.id,
        "event": delivery.event,
        "hook": delivery.hook,
        "kind": delivery.kind,
        "target": delivery.target,
        "type": delivery.type,
        "tool": delivery.tool,
        "session": delivery.session,
        "outcome": outcome.outcome,
        "attempt": outcome.attempt,
        "time": outcome.ms,
        "at": moment(outcome.ms),
    }
    if attempt is None:
        return {**fields, "reason": delivery.reason}
    plain = msgspec.to_builtins(attempt)
    return {
        **fields,
        "reason": plain.get("error", ""),
        "status": attempt.status,
        "ms": attempt.took,
        **({"next": attempt.next} if attempt.next else {}),
    }
