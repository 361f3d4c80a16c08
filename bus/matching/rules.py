"""Rules: declarative hooks that need no process. Decides whether a rule fits an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from bus.errors import OverBudget
from bus.events import Event
from bus.matching.command_facts import CommandFacts
from bus.matching.command_match import CommandMatch
from bus.matching.command_rules import command_matcher, finder_of, marks_of
from bus.matching.disk import Disk, light_disk
from bus.matching.facts.hosts import kinds_of_call
from bus.matching.facts.kinds import HostKind, PackageKind, SecretClass
from bus.matching.facts.package_names import kinds_of_added
from bus.matching.facts.secrets import Secret, secrets_in
from bus.matching.globs import PathMatcher, compile_path_globs
from bus.matching.limits import read_limit
from bus.matching.paths import Place, event_place, located
from bus.matching.regexes import compile_alternatives, is_found
from bus.matching.rule_fields import Incident, Rule
from bus.shell import MAX_LENGTH, Command, Commands, as_read, commands, raw_names, without_quotes
from bus.tool_arguments import added_texts_of, command_of, paths_of, texts_of

__all__ = ["CommandMatch", "Incident", "Match", "Rule", "check_rule", "judge", "marks"]

_SHOWN = 120
"""The most characters of the matched text that go into a reason."""


class Match(NamedTuple):
    """The result of a rule that fits: the part of the event that made it fit (at most 120 characters; may be empty)."""

    what: str
    doubt: str = ""
    """Why the rule counts as fitting although it could not be checked."""


_MOST_SCANNED: Final = 4 * MAX_LENGTH
"""The most characters in which names are looked for. A longer line may contain any name."""

TOO_LARGE: Final = "too large to be checked; split it"
CANNOT_BE_READ: Final = "a part of the command cannot be read; write it in a simpler form"


_Step = Callable[[Event, Disk | None], Match | None]


def check_rule(rule: Rule) -> None:
    """Compile every pattern of `rule`; PatternError for one that cannot be compiled."""
    _compiled(rule)
    if rule.limit:
        read_limit(rule.limit)


def judge(rule: Rule, event: Event, disk: Disk | None = None) -> Match | None:
    """The match of `rule` and `event`; None without one. PatternError for a wrong rule, OverBudget if `disk` raises it.

    For a command line that is too large for the budget, or cannot be parsed, only the names in it are known
    (`Commands.unread`). A rule about a program of such a name fits, with the `doubt`, unless the rule allows.
    """
    match: Match | None = None
    for step in _compiled(rule).steps:
        match = step(event, disk)
        if match is None:
            return None
    return _settled(rule, match or Match(""))


def judge_by_names(rule: Rule, event: Event) -> Match | None:
    """The match of `rule` by the names in a command line alone, for an event whose line took too long to read."""
    compiled, text = _compiled(rule), command_of(event)
    if not isinstance(text, str) or compiled.commands is None:
        return None
    for step in compiled.cheap:
        try:
            if step(event, light_disk()) is None:
                return None
        except OverBudget:
            continue  # it may fit
    if len(text) > _MOST_SCANNED:
        return _settled(rule, Match("", TOO_LARGE))
    name = _named(compiled.finders, text)
    return _settled(rule, Match(name, TOO_LARGE)) if name else None


def _named(finders: Iterable[Callable[[frozenset[str]], str]], text: str) -> str:
    names = _raw_names(text)
    return next((name for find in finders if (name := find(names))), "")


@lru_cache(maxsize=8)
def _raw_names(text: str) -> frozenset[str]:
    return raw_names(text)


def marks(rule: Rule) -> frozenset[str]:
    """Marks (`bus.shell.commands.marks`): `rule` only fits a line that has at least one. Empty if it fits without marks.

    The unread part of a line may have any mark.
    """
    each = [marks_of(match) for match in rule.commands]
    return frozenset[str]().union(*each) if all(each) else frozenset()


class _Compiled(NamedTuple):
    steps: tuple[_Step, ...]
    """All steps: the cheap ones first, then the one for commands."""
    cheap: tuple[_Step, ...]
    commands: _Step | None
    finders: tuple[Callable[[frozenset[str]], str], ...]
    """For each command condition, a function that finds its program among the raw names of a line."""


@lru_cache(maxsize=4096)
def _compiled(rule: Rule) -> _Compiled:
    steps: list[_Step] = []
    cheap: list[_Step] = []
    if rule.command:
        quick = None if rule.decision == "allow" else without_quotes
        steps.append(_text_step(rule.command, _as_read if quick and rule.commands else quick))
        cheap.append(_text_step(rule.command, quick))
    left_out = compile_path_globs(rule.path_except)
    if rule.path:
        steps.append(_path_step(compile_path_globs(rule.path), left_out))
    elif rule.path_except and not rule.outside_project:
        steps.append(_path_step(None, left_out))
    if rule.outside_project:
        steps.append(_outside_step(left_out))
    if rule.content:
        steps.append(_content_step(rule.content))
    if rule.reaches:
        steps.append(_reach_step(frozenset(rule.reaches)))
    if rule.installs:
        steps.append(_install_step(frozenset(rule.installs)))
    if rule.secrets:
        steps.append(_secret_step(frozenset(rule.secrets)))
    finders = tuple(finder_of(match) for match in rule.commands)
    commands = _command_step(rule.commands, finders) if rule.commands else None
    cheap += steps[len(cheap) :]
    return _Compiled(tuple([*steps, commands] if commands else steps), tuple(cheap), commands, finders)


def _settled(rule: Rule, match: Match) -> Match | None:
    if match.doubt and rule.decision == "allow":
        return None
    return match if len(match.what) <= _SHOWN else match._replace(what=f"{match.what[: _SHOWN - 1]}…")


def _text_step(patterns: tuple[str, ...], unquoted: Callable[[str], str] | None) -> _Step:
    """A step that searches the command's text for the patterns, and then the text that `unquoted` makes of it."""
    regexes = compile_alternatives(patterns)

    def step(event: Event, _disk: Disk | None) -> Match | None:
        text = seen_call(event).text
        if text is None:
            return None
        if len(text) > _MOST_SCANNED:
            return Match("", TOO_LARGE)  # a search takes 0.2 s in 10 MB, and each rule has one
        if is_found(regexes, text):
            return Match(text)
        other = text if unquoted is None else unquoted(text)
        return Match(text) if other != text and is_found(regexes, other) else None

    return step


@lru_cache(maxsize=8)
def _as_read(text: str) -> str:
    return as_read(commands(text), text)


def _content_step(patterns: tuple[str, ...]) -> _Step:
    regexes = compile_alternatives(patterns)

    def step(event: Event, _disk: Disk | None) -> Match | None:
        return next((Match(text) for text in texts_of(event) if any(regex.search(text) for regex in regexes)), None)

    return step


def _reach_step(kinds: frozenset[HostKind]) -> _Step:
    return lambda event, _disk: None if kinds.isdisjoint(kinds_of_call(event)) else Match("")


def _install_step(kinds: frozenset[PackageKind]) -> _Step:
    return lambda event, _disk: None if kinds.isdisjoint(kinds_of_added(event)) else Match("")


def _secret_step(classes: frozenset[SecretClass]) -> _Step:
    def step(event: Event, _disk: Disk | None) -> Match | None:
        return next((Match(secret.what) for secret in seen_call(event).secrets() if secret.of in classes), None)

    return step


def _path_step(matches: PathMatcher | None, left_out: PathMatcher) -> _Step:
    """A step that looks for a path that fits and is not left out; without `matches`, any path or none at all will do."""

    def step(event: Event, disk: Disk | None) -> Match | None:
        given = seen_call(event).given(disk)
        for path in given.words:
            found = given.paths_of(path)
            if not any(left_out(one, given.place) for one in found):
                if matches is None:
                    return Match("")
                if any(matches(one, given.place) for one in found):
                    return Match(path)
        return Match("") if matches is None and not given.words else None

    return step


def _outside_step(left_out: PathMatcher) -> _Step:
    def step(event: Event, disk: Disk | None) -> Match | None:
        given = seen_call(event).given(disk)
        for path in given.words:
            outside = given.outside_of(path)
            if outside is not None and not any(left_out(one, given.place) for one in (outside, *given.paths_of(path))):
                return Match(path)
        return None

    return step


def _command_step(conditions: tuple[CommandMatch, ...], finders: tuple[Callable[[frozenset[str]], str], ...]) -> _Step:
    fits = command_matcher(conditions)

    def step(event: Event, disk: Disk | None) -> Match | None:
        seen = seen_call(event)
        text = seen.text
        if text is None:
            return None
        try:
            for facts in seen.facts(disk):
                if fits(facts):
                    return Match(facts.line)
        except OverBudget:
            if disk is None or not disk.patient:
                raise  # a process with more time checks it again
            name = _named(finders, text)
            return Match(name, TOO_LARGE) if name else None
        line = seen.line
        if not line.unread:
            return None
        return next((Match(name, _doubt(line)) for find in finders if (name := find(line.unread))), None)

    return step


def _doubt(line: Commands) -> str:
    return TOO_LARGE if line.stopped else CANNOT_BE_READ


UNCHECKED: Final = "the command was not checked as a whole: it took too long"


def unread_notes(rules: Iterable[Rule], event: Event) -> tuple[str, ...]:
    """The notes of a verdict about a command line that these rules could not read completely."""
    if not any(rule.commands for rule in rules) or (text := command_of(event)) is None:
        return ()
    line = commands(text)
    if line.stopped:
        return (f"the command was not checked as a whole: {line.stopped}",)
    return ("a part of the command could not be read and was not checked",) if line.incomplete else ()


class SeenCall:
    """Facts about one tool call, computed once for all rules: its command line, the commands in it, and its paths."""

    _line: Commands | None = None
    _disk: Disk | None = None
    _facts: Sequence[CommandFacts] | None = None
    _given: CommandFacts | None = None
    _secrets: tuple[Secret, ...] | None = None

    def __init__(self, event: Event) -> None:
        self.event = event
        self.text = command_of(event)

    def secrets(self) -> tuple[Secret, ...]:
        """The secrets in what it adds, or in the prompt."""
        if self._secrets is None:
            given = self.event.input
            text = given.get("command") if len(given) == 1 else None
            if isinstance(text, str) and "@@" not in text and "***" not in text and "SEARCH" not in text:
                self._secrets = secrets_in(text)  # a command line, and no patch, as nearly always
            else:
                self._secrets = tuple(secret for text in added_texts_of(self.event) for secret in secrets_in(text))
        return self._secrets

    @property
    def line(self) -> Commands:
        """The commands of its command line."""
        if self._line is None:
            self._line = commands(self.text or "")
        return self._line

    @property
    def is_known_by_line(self) -> bool:
        """Whether nothing but its command line was looked at so far: neither where its commands run nor another argument."""
        return self._facts is None and self._given is None and self._secrets is None

    def facts(self, disk: Disk | None) -> Sequence[CommandFacts]:
        """The facts about each of its commands. Look-ups on disk count for the request of `disk` only."""
        if self._facts is None or disk is None or disk is not self._disk:
            self._look_at(disk)
            where = partial(_place, self.event, disk)  # refers to no command, so there is no cycle to collect
            self._facts = [CommandFacts(command, where) for command in self.line.items]
        return self._facts

    def given(self, disk: Disk | None) -> CommandFacts:
        """The paths in the arguments of any tool, treated as the words of a command."""
        self._look_at(disk)
        if self._given is None:
            words = Command("", tuple(paths_of(self.event)))
            self._given = CommandFacts(words, partial(event_place, self.event, disk))
        return self._given

    def _look_at(self, disk: Disk | None) -> None:
        if disk is None or disk is not self._disk:
            self._disk, self._facts, self._given = disk, None, None


_LAST: Final[list[SeenCall]] = []
"""The event that was judged last. All rules of an event are judged one after the other."""


def seen_call(event: Event) -> SeenCall:
    """The facts about an event's tool call; remembered for the last event."""
    if _LAST and (known := _LAST[0]).event is event:
        return known
    _LAST[:] = [made := SeenCall(event)]
    return made


def _place(event: Event, disk: Disk | None) -> Place:
    """The event's place. If the tool has a directory of its own, it runs there, in the same project."""
    place = event_place(event, disk)
    own = event.input.get("cwd")
    if isinstance(own, str) and own and (directory := located(own, place)) is not None:
        return place._replace(directory=directory)
    return place
