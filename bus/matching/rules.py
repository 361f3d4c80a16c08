"""What a rule is: a declarative hook that needs no process, and whether it fits an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from bus.errors import OverBudget
from bus.events import Event
from bus.matching.command_facts import CommandFacts
from bus.matching.command_match import CommandMatch
from bus.matching.command_rules import command_matcher, finder_of, marks_of
from bus.matching.disk import Disk, light_disk
from bus.matching.globs import PathMatcher, compile_path_globs
from bus.matching.paths import Place, event_place, located
from bus.matching.regexes import compile_alternatives
from bus.shell import MAX_LENGTH, Command, Commands, as_read, commands, raw_names, without_quotes
from bus.tool_arguments import command_of, paths_of, texts_of
from bus.verdicts import Decision

__all__ = ["CommandMatch", "Incident", "Match", "Rule", "check_rule", "judge", "marks"]

Incident = Literal[
    "data-loss",
    "lost-work",
    "lost-history",
    "lost-infrastructure",
    "outage",
    "unread-code",
    "privilege-escalation",
    "weakened-guard",
    "leaked-secret",
]

_SHOWN = 120
"""The most characters of the matched text that go into a reason."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, cache_hash=True):
    """A decision and its conditions. Every given condition has to be met; without any, the hook's own matchers decide.

    The conditions read the event's `input.command`, `input.path` and `input.paths` (for an MCP tool the fields that mean
    the same: `bus.tool_arguments`). A rule whose condition reads a field that the event does not have does not match.
    """

    decision: Annotated[
        Decision, Meta(description="What the rule decides when its conditions are met.", examples=["ask"])
    ] = "deny"
    reason: Annotated[
        str,
        Meta(
            description="Shown to the model and the user, followed by the part of the event that matched.",
            examples=["no downloads into a shell"],
        ),
    ] = ""
    instead: Annotated[
        str, Meta(description="Tells the model what to do instead.", examples=["download it, read it, then run it"])
    ] = ""
    incident: Annotated[
        Incident | Literal[""], Meta(description="The kind of incident that the rule prevents.", examples=["data-loss"])
    ] = ""
    commands: Annotated[
        tuple[CommandMatch, ...],
        Meta(
            description="Conditions on one command of the command line, as a shell would run it. The rule matches when "
            "any command of the line meets any entry.",
            examples=[[{"program": ["rm"], "flags_all": ["-r|--recursive"], "touches": ["outside_project"]}]],
        ),
    ] = ()
    command: Annotated[
        tuple[str, ...],
        Meta(
            description="Regular expressions (RE2) over the command's text; any match is enough. Unless the rule "
            'allows, the text without its quotes (`fle""ethook`) is searched too, and with `commands` also the text '
            "after the shell's expansions.",
            examples=[[r"curl .*\| *sh"]],
        ),
    ] = ()
    path: Annotated[
        tuple[str, ...],
        Meta(
            description="Path patterns for the event's path, as written or with its links resolved; any match is enough.",
            examples=[["~/.ssh/**", "*.pem"]],
        ),
    ] = ()
    content: Annotated[
        tuple[str, ...],
        Meta(
            description="Regular expressions (RE2) over what the call writes, replaces or removes; any match is enough.",
            examples=[["BEGIN (RSA|OPENSSH) PRIVATE KEY"]],
        ),
    ] = ()
    redact: Annotated[
        bool,
        Meta(
            description="Replace secrets of the known formats in the tool's output before the model reads it, where the "
            "agent accepts a changed output. Such a rule decides nothing. For `tool:post_execute`.",
            examples=[True],
        ),
    ] = False
    outside_project: Annotated[bool, Meta(description="The event's path is outside the project.", examples=[True])] = (
        False
    )


class Match(NamedTuple):
    """The result of a rule that fits: what in the event made it fit (cut to 120 characters; empty without conditions)."""

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


def judge(rule: Rule, event: Event, disk: Disk | None = None) -> Match | None:
    """Whether `rule` fits `event`, and by what; PatternError where the rule is wrong, OverBudget where `disk` does.

    Of a command line that is too large for the budget or cannot be parsed, only the names in it are known
    (`Commands.unread`): a rule that looks for a program of such a name fits, with the `doubt`, unless it allows.
    """
    match: Match | None = None
    for step in _compiled(rule).steps:
        match = step(event, disk)
        if match is None:
            return None
    return _settled(rule, match or Match(""))


def judge_by_names(rule: Rule, event: Event) -> Match | None:
    """Whether `rule` fits an event whose command line took too long to read: by the names in the line alone."""
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
    """The marks (`bus.shell.commands.marks`) of which a command has to have one for `rule` to fit; empty where it needs none.

    What was not read of a line may have any mark.
    """
    each = [marks_of(match) for match in rule.commands]
    return frozenset[str]().union(*each) if all(each) else frozenset()


class _Compiled(NamedTuple):
    steps: tuple[_Step, ...]
    """All of them: the cheap ones, and then the commands."""
    cheap: tuple[_Step, ...]
    commands: _Step | None
    finders: tuple[Callable[[frozenset[str]], str], ...]
    """By command condition, the predicate that finds a matching program among the raw names of a line."""


@lru_cache(maxsize=4096)
def _compiled(rule: Rule) -> _Compiled:
    steps: list[_Step] = []
    cheap: list[_Step] = []
    if rule.command:
        quick = None if rule.decision == "allow" else without_quotes
        steps.append(_text_step(rule.command, _as_read if quick and rule.commands else quick))
        cheap.append(_text_step(rule.command, quick))
    if rule.path:
        steps.append(_path_step(compile_path_globs(rule.path)))
    if rule.outside_project:
        steps.append(_outside)
    if rule.content:
        steps.append(_content_step(rule.content))
    finders = tuple(finder_of(match) for match in rule.commands)
    commands = _command_step(rule.commands, finders) if rule.commands else None
    cheap += steps[len(cheap) :]
    return _Compiled(tuple([*steps, commands] if commands else steps), tuple(cheap), commands, finders)


def _settled(rule: Rule, match: Match) -> Match | None:
    if match.doubt and rule.decision == "allow":
        return None
    return match if len(match.what) <= _SHOWN else match._replace(what=f"{match.what[: _SHOWN - 1]}…")


def _text_step(patterns: tuple[str, ...], unquoted: Callable[[str], str] | None) -> _Step:
    """A step that searches the command's text for the patterns, and then each text that `unquoted` makes of it."""
    regexes = compile_alternatives(patterns)

    def step(event: Event, _disk: Disk | None) -> Match | None:
        text = seen_call(event).text
        if text is None:
            return None
        if any(regex.search(text) is not None for regex in regexes):
            return Match(text)
        if unquoted is None or not any(regex.search(unquoted(text)) is not None for regex in regexes):
            return None
        return Match(text)

    return step


@lru_cache(maxsize=8)
def _as_read(text: str) -> str:
    return as_read(commands(text), text)


def _content_step(patterns: tuple[str, ...]) -> _Step:
    regexes = compile_alternatives(patterns)

    def step(event: Event, _disk: Disk | None) -> Match | None:
        return next((Match(text) for text in texts_of(event) if any(regex.search(text) for regex in regexes)), None)

    return step


def _path_step(matches: PathMatcher) -> _Step:
    def step(event: Event, disk: Disk | None) -> Match | None:
        given = seen_call(event).given(disk)
        for path in given.words:
            for found in given.paths_of(path):
                if matches(found, given.place):
                    return Match(path)
        return None

    return step


def _outside(event: Event, disk: Disk | None) -> Match | None:
    given = seen_call(event).given(disk)
    return next((Match(path) for path in given.words if given.outside_of(path) is not None), None)


def _command_step(conditions: tuple[CommandMatch, ...], finders: tuple[Callable[[frozenset[str]], str], ...]) -> _Step:
    fits = command_matcher(conditions)

    def step(event: Event, disk: Disk | None) -> Match | None:
        seen = seen_call(event)
        text = seen.text
        if text is None:
            return None
        line = seen.line
        try:
            for facts in seen.facts(disk):
                if fits(facts):
                    return Match(facts.line)
        except OverBudget:
            if disk is None or not disk.patient:
                raise  # a process with more time checks it again
            name = _named(finders, text)
            return Match(name, TOO_LARGE) if name else None
        if not line.unread:
            return None
        return next((Match(name, _doubt(line)) for find in finders if (name := find(line.unread))), None)

    return step


def _doubt(line: Commands) -> str:
    return TOO_LARGE if line.stopped else CANNOT_BE_READ


UNCHECKED: Final = "the command was not checked as a whole: it took too long"


def unread_notes(rules: Iterable[Rule], event: Event) -> tuple[str, ...]:
    """The notes of a verdict about a command line that these rules could not read completely."""
    text = command_of(event)
    if not isinstance(text, str) or not any(rule.commands for rule in rules):
        return ()
    line = commands(text)
    if line.stopped:
        return (f"the command was not checked as a whole: {line.stopped}",)
    return ("a part of the command could not be read and was not checked",) if line.incomplete else ()


class SeenCall:
    """What all rules need from one tool call, computed once: its command line, the commands in it, and its paths."""

    __slots__ = ("_disk", "_facts", "_given", "_line", "event", "text")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.text = command_of(event)
        self._line: Commands | None = None
        self._disk: Disk | None = None
        self._facts: Sequence[CommandFacts] | None = None
        self._given: CommandFacts | None = None

    @property
    def line(self) -> Commands:
        """The commands of its command line."""
        if self._line is None:
            self._line = commands(self.text or "")
        return self._line

    def facts(self, disk: Disk | None) -> Sequence[CommandFacts]:
        """Its commands with what is known of each. Look-ups on disk count for the request of `disk` only."""
        self._look_at(disk)
        if self._facts is None:
            where = partial(_place, self.event, disk)  # knows of no command, so nothing waits for the collector
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
    """What is known about the call of an event; remembered for the last event."""
    for known in _LAST:
        if known.event is event:
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
