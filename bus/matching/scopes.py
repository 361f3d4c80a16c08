"""The scope of a stop: whether its condition fits an event, and what can be said of it without the event.

A condition that cannot be evaluated, or only in a long time, counts as fulfilled: a stop is never weaker than it was meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bus.errors import ConditionError, PatternError
from bus.events import Event
from bus.lazy.regex import lazy_regex
from bus.matching.condition_cost import STRING, size_of
from bus.matching.conditions import Condition, compile_condition

_STRINGS: Final = lazy_regex(STRING)
_USE: Final = lazy_regex(r"\bevent\b(?:\s*\.\s*(\w+))?")
_HAS: Final = lazy_regex(r"\bhas\s*\(")


FACTS: Final = frozenset(Event(type="").facts())
"""The names of the facts that a condition reads as `event.…`."""


class CompiledScope(NamedTuple):
    """A compiled condition, and the fields of the event that it reads."""

    condition: Condition | None
    """None: every event."""
    fields: frozenset[str] | None = frozenset()
    """None: it cannot be told from the text."""

    @property
    def text(self) -> str:
        """The condition; empty for every event."""
        return "" if self.condition is None else self.condition.text

    def fits(self, event: Event) -> bool:
        """Whether the event is in the scope."""
        if self.condition is None:
            return True
        facts = event.facts()
        if self.fields is not None:  # the library copies all that it gets, and inputs can be large
            facts = {name: value for name, value in facts.items() if name in self.fields}
        if self.condition.is_costly(size_of(facts)):
            return True
        try:
            return self.condition({"event": facts})
        except ConditionError:
            return True

    def of_known(self, known: Mapping[str, Any]) -> bool | None:
        """Whether events with these facts are in the scope; None if that depends on others of their facts."""
        if self.condition is None:
            return True
        if self.fields is None:
            return None
        # A missing fact makes an error, and CEL's `&&` and `||` ignore an error where the other side decides.
        facts = {name: value for name, value in known.items() if name in self.fields}
        try:
            return self.condition({"event": facts})
        except ConditionError:
            return True if self.fields <= known.keys() else None


@lru_cache(maxsize=256)
def scope_of(where: str) -> CompiledScope:
    """The scope in a CEL text, empty for every event; raises PatternError."""
    if not where:
        return CompiledScope(None)
    condition = compile_condition(where)
    if condition.uses_verdict:
        raise PatternError(f"bad condition {where!r}: there is no verdict yet", hint="read event.… only")
    text = _STRINGS.sub("''", where)
    names = [use[1] for use in _USE.finditer(text)]
    if strange := sorted({name for name in names if name} - FACTS):
        near = difflib.get_close_matches(strange[0], FACTS, 1)
        hint = f"did you mean event.{near[0]}?" if near else f"there are {', '.join(sorted(FACTS))}"
        raise PatternError(f"bad condition {where!r}: there is no event.{strange[0]}", hint=hint)
    # `has(event.session)` is false without the fact, and no error; `event` alone is all facts.
    plain = all(names) and not _HAS.search(text)
    return CompiledScope(condition, frozenset(names) if plain else None)
