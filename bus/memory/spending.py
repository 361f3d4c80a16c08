"""What models have used, where events say it: tokens and money, for limits of these (docs/limits.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bus.agents import gemini, opencode
from bus.agents.event_facts import tokens
from bus.events import Event, EventType
from bus.matching.limits import Limit
from bus.memory.charges import Reached, counted_session, whose_counter

MILLIONTHS: Final = 1_000_000
MINUTE_MS: Final = 60_000
_USES: Final = frozenset({EventType.LLM_POST_RESPONSE.value})
_COSTS: Final = ("cost", "cost_usd", "total_cost_usd", "costUSD", "total_cost")
_HOLDERS: Final = ("usage", "info")
_MOST: Final = 10**12


class Spent(NamedTuple):
    """What one event says that a model has used."""

    event: str
    """What it is counted by, once: the event's id, or that of the model's answer where several events are about one."""
    minute: int
    session: str
    """The session that it counts for, as the name of its keys."""
    keys: tuple[str, ...]
    """The keys of its agent, user, host and of the fleet, without their prefix."""
    amounts: tuple[tuple[str, int], ...]

    def args(self) -> Iterator[str | int]:
        """The arguments of the script that adds it up."""
        head: list[str | int] = [self.event, self.minute, self.session, len(self.keys), *self.keys, len(self.amounts)]
        yield from head
        for name, amount in self.amounts:
            yield from (name, amount)


def spent_by(event: Event, ms: int, user: str) -> Spent | None:
    """What an event says that a model has used; None if it says nothing."""
    answer = _answer(event)
    if answer is None:
        return None
    name, number, data = answer
    amounts: list[tuple[str, int]] = []
    if 0 < number < _MOST:
        amounts.append(("tokens", number))
    cost = _cost(data)
    if cost:
        currency = data.get("currency")
        amounts.append(
            (currency if isinstance(currency, str) and currency.isupper() and len(currency) == 3 else "USD", cost)
        )
    if not amounts:
        return None
    scopes = ("agent", "user", "host", "fleet")
    keys = tuple(spent_key(Limit(0, "tokens", 0, scope), event, user) for scope in scopes)  # type: ignore[arg-type]
    return Spent(name, ms // MINUTE_MS, counted_session(event), keys, tuple(amounts))


def _answer(event: Event) -> tuple[str, int, Mapping[str, Any]] | None:
    """The answer of a model that an event is about: what it is counted by, its tokens, and what may have its cost."""
    if event.source == opencode.NAME and event.type == EventType.SESSION_MESSAGE:
        return _opencode_message(event)
    if event.type not in _USES:
        return None
    if event.source == gemini.NAME and not _is_last_chunk(event.data.get("llm_response")):
        return None
    return event.id, int(tokens(event) or 0), event.data


def _opencode_message(event: Event) -> tuple[str, int, Mapping[str, Any]] | None:
    """A whole answer of a model in OpenCode; it sends the same message several times, and first without its end."""
    info = _mapping(event.data.get("info"))
    if info.get("role") != "assistant" or not _mapping(info.get("time")).get("completed"):
        return None
    used = _mapping(info.get("tokens"))
    cache = _mapping(used.get("cache"))
    parts = (used.get("input"), used.get("output"), used.get("reasoning"), cache.get("read"), cache.get("write"))
    numbers = [part for part in parts if isinstance(part, int | float) and not isinstance(part, bool) and part > 0]
    name = hashlib.sha256(f"{event.source}\n{event.session}\n{info.get('id')}".encode("utf-8", "replace")).hexdigest()
    return name[:32], int(min(sum(numbers), _MOST)), info


def _is_last_chunk(response: object) -> bool:
    """Whether a part of Gemini's answer is its last: each says what the whole answer has used so far."""
    candidates = _mapping(response).get("candidates")
    return isinstance(candidates, list) and any(_mapping(item).get("finishReason") for item in candidates)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _cost(data: Mapping[str, Any]) -> int:
    """What an event says that it cost, in millionths."""
    for holder in (data, *(data.get(name) for name in _HOLDERS)):
        for name in _COSTS if isinstance(holder, Mapping) else ():
            value = holder.get(name)  # type: ignore[union-attr]  # it is a mapping here
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MOST:
                return round(value * MILLIONTHS)
    return 0


def spent_key(limit: Limit, event: Event, user: str) -> str:
    """The key of what was used in the scope of a limit, without its prefix."""
    if limit.scope == "session":
        return f"spent:session:{counted_session(event)}"
    return f"spent:{limit.scope}:{whose_counter(limit, event, user)}"


def reached(limit: Limit, fields: Mapping[str, int], now: int) -> Reached:
    """The state of a limit, from the amounts by minute."""
    name = "tokens" if limit.unit == "tokens" else limit.currency
    scale = 1 if limit.unit == "tokens" else MILLIONTHS
    most = limit.most * scale
    if not limit.period:
        used = fields.get(f"{name}:all", 0)
        return Reached(used >= most, used / scale if scale > 1 else used, 0)
    first = (now - limit.period) // MINUTE_MS + 1
    minutes = sorted(
        (int(at), amount)
        for field, amount in fields.items()
        if (at := field.removeprefix(f"{name}:")) != field and at.isdigit() and int(at) >= first
    )
    used = left = sum(amount for _, amount in minutes)
    free_at = 0
    for minute, amount in minutes if used >= most else ():
        left -= amount
        if left < most:
            free_at = (minute + 1) * MINUTE_MS + limit.period
            break
    return Reached(used >= most, used / scale if scale > 1 else used, free_at)
