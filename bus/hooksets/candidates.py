"""The hooks whose patterns fit one kind of event, with what is asked once for all of them and not for each event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bus.hooks import Hook
from bus.matching.conditions import Condition

_REMEMBER: Final = 64


class Candidates(NamedTuple):
    """Hooks that an index found together; an event that fits their patterns may still fail their conditions."""

    found: tuple[Hook, ...]
    blocking: tuple[Hook, ...]
    """Those of them that block, in order."""
    places: Mapping[str, int]
    """By id, where each rule is among the blocking ones that a command line may not fit."""
    others: tuple[int, ...]
    """Where the other blocking hooks are."""
    conditions: tuple[Condition, ...]
    """The `when:` of the blocking ones."""
    unconditional: bool
    """None of the blocking ones has a `when:` or a matcher of its own system."""
    read_lines: bool
    """A rule asks for commands."""
    read_texts: bool
    """A rule asks for texts that a call carries."""

    def only(self, rules: Iterable[str]) -> list[Hook]:
        """The blocking hooks, in their order, without those of `places` that are not among `rules`."""
        places = self.places
        kept = [*self.others, *[places[name] for name in rules if name in places]]
        kept.sort()
        return [self.blocking[place] for place in kept]


class CandidatesMemory:
    """Candidates by what an index found, which gives the same tuple for the same kind of event."""

    def __init__(self, conditions: Mapping[str, Condition], always: frozenset[str]) -> None:
        """`always` are the rules that any command line may fit."""
        self._conditions, self._always = conditions, always
        self._known: dict[int, Candidates] = {}

    def of(self, found: tuple[Hook, ...]) -> Candidates:
        """The candidates that were found, worked out at the first time."""
        known = self._known.get(id(found))
        if known is None:
            if len(self._known) >= _REMEMBER:
                self._known.clear()
            known = self._known[id(found)] = self._worked_out(found)  # which keeps the tuple, and so its number
        return known

    def _worked_out(self, found: tuple[Hook, ...]) -> Candidates:
        blocking = tuple(hook for hook in found if hook.blocking)
        rules = [hook.rule for hook in blocking if hook.rule is not None]
        sifted = [hook.rule is not None and hook.id not in self._always for hook in blocking]
        conditions = tuple(condition for hook in blocking if (condition := self._conditions.get(hook.id)) is not None)
        return Candidates(
            found,
            blocking,
            {hook.id: place for place, hook in enumerate(blocking) if sifted[place]},
            tuple(place for place in range(len(blocking)) if not sifted[place]),
            conditions,
            not conditions and not any(hook.own for hook in blocking),
            any(rule.commands for rule in rules),
            any(rule.command or rule.content for rule in rules),
        )
