"""The hooks whose patterns fit one kind of event, with facts about them that are the same for all events of that kind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooks import Hook
from bus.hooksets.sieve.sieve import Sieve
from bus.matching.condition_cost import characters_of
from bus.matching.conditions import Condition
from bus.matching.patterns import Index
from bus.matching.rules import SeenCall, seen_call
from bus.shell import commands_if_light

log = logging.getLogger("fleethook.hooks")

_REMEMBER: Final = 64
_MOST_LINES: Final = 128
_LONGEST_LINE: Final = 256
"""So many lines that no rule fits are remembered for one kind of event, each with at most so many characters: at most 50 KB."""
_LONG_TEXT: Final = 64 * 1024
"""If a tool call has more characters, another process matches the regular expressions, and not the event loop."""


class Candidates(NamedTuple):
    """Hooks that an index found together; an event that fits their patterns may still fail their conditions."""

    found: tuple[Hook, ...]
    blocking: tuple[Hook, ...]
    """The blocking hooks among `found`, in order."""
    places: Mapping[str, int]
    """The indexes in `blocking` of the rules that do not fit every command line, by id."""
    others: tuple[int, ...]
    """The indexes in `blocking` of all other hooks."""
    conditions: tuple[Condition, ...]
    """The `when:` conditions of the blocking hooks, without those that read facts of the session alone."""
    unconditional: bool
    """Whether no blocking hook has a `when:`, an `unless:` or a matcher of its own system."""
    read_lines: bool
    """Whether a rule has conditions on commands."""
    read_texts: bool
    """Whether a rule searches texts of a call."""
    read_sessions: bool
    """Whether a condition reads facts of the session."""
    harmless: dict[str, None]
    """Command lines that none of these hooks fits, wherever they run: agents send `git status` and `pytest` all day."""

    def only(self, rules: AbstractSet[str], call: SeenCall) -> list[Hook]:
        """The blocking hooks in their order, but of those in `places` only `rules`, which a sieve let pass for this call."""
        if not rules and not self.others:
            if call.is_known_by_line:
                self._remember(call.text or "")
            return []
        places, blocking = self.places, self.blocking
        kept = [places[name] for name in rules if name in places]
        kept += self.others
        kept.sort()
        return [blocking[place] for place in kept]

    def _remember(self, line: str) -> None:
        if len(line) <= _LONGEST_LINE:
            if len(self.harmless) >= _MOST_LINES:
                del self.harmless[next(iter(self.harmless))]
            self.harmless[line] = None


class CandidatesMemory:
    """Remembers the candidates of each kind of event. An index gives the same tuple for the same kind."""

    def __init__(self, index: Index[Hook], conditions: Mapping[str, Condition], sieve: Callable[[], Sieve]) -> None:
        """`sieve` gives the sieve of the rules, and is called when there are candidates with rules."""
        self._index, self._conditions, self._sieve = index, conditions, sieve
        self._known: dict[int, Candidates] = {}
        self._last: tuple[Event | None, Candidates] = (None, self._worked_out(()))

    def of(self, event: Event) -> Candidates:
        """The candidates of an event; those of the last one are remembered, since a request needs them several times."""
        last = self._last
        if last[0] is not event:
            last = self._last = (event, self._of_kind(self._index.find(event)))
        return last[1]

    def _of_kind(self, found: tuple[Hook, ...]) -> Candidates:
        """The candidates for the hooks that the index found; worked out once."""
        known = self._known.get(id(found))
        if known is None:
            if len(self._known) >= _REMEMBER:
                self._known.clear()
            known = self._known[id(found)] = self._worked_out(found)  # it refers to the tuple, so the id stays unique
        return known

    def _worked_out(self, found: tuple[Hook, ...]) -> Candidates:
        blocking = tuple(hook for hook in found if hook.blocking)
        rules = [hook.rule for hook in blocking if hook.rule is not None]
        always = self._sieve().always if rules else frozenset()
        sifted = [hook.rule is not None and hook.id not in always for hook in blocking]
        conditions = tuple(condition for hook in blocking if (condition := self._conditions.get(hook.id)) is not None)
        return Candidates(
            found,
            blocking,
            {hook.id: place for place, hook in enumerate(blocking) if sifted[place]},
            tuple(place for place in range(len(blocking)) if not sifted[place]),
            tuple(condition for condition in conditions if not condition.reads_facts_only),
            not conditions and not any(hook.own or hook.unless for hook in blocking),
            any(rule.commands for rule in rules),
            any(rule.command or rule.content or rule.secrets for rule in rules),
            any(condition.uses_session for condition in conditions),
            {},
        )


def is_heavy(candidates: Candidates, event: Event) -> bool:
    """Whether these hooks' rules may take long to check the event's command or its texts."""
    if candidates.read_texts and characters_of(event.input) > _LONG_TEXT:
        return True
    if not candidates.read_lines:
        return False  # an input named `command` need not be a command line: a patch has that name too
    text = seen_call(event).text
    try:
        return text is not None and text not in candidates.harmless and commands_if_light(text) is None
    except Exception:
        log.exception("a command cannot be read in this process; another one checks the rules")
        return True


def applies(hook: Hook, event: Event) -> bool:
    """Whether a hook's own system would run it at the event, and the event is none of its exceptions."""
    wanted = not hook.own or find_hooks(hook.dialect).applies(hook, event)
    return wanted and not any(call.fits(event) for call in hook.unless)
