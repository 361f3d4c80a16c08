"""Guard packs: rules against destructive tool calls, as YAML with their tests beside them (X-07)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bus.config.documents import Document, PathParts, load
from bus.config.validation import convert, suggestion
from bus.errors import ConfigError, FleethookError, NotFound
from bus.events import Event, EventType
from bus.hooks import Hook
from bus.matching.command_match import CommandMatch
from bus.matching.conditions import compile_condition
from bus.matching.facts.kinds import HostKind, PackageKind, SecretClass
from bus.matching.patterns import Index
from bus.matching.rule_fields import Incident, Rule
from bus.matching.rules import check_rule, judge
from bus.secrets.redaction import redact_text

FOLDER: Final = Path(__file__).parent

DEFAULT_PACKS: Final = ("destructive-commands", "fleethook-itself")
"""The packs that the first `up` switches on for its user, and `guards publish` for the fleet."""

TEST_DIRECTORY: Final = "/home/dev/app"
"""The default directory of the tests of packs: a project below a home directory, which does not exist on this disk."""

Expected = Literal["deny", "ask", "allow"]


class _CaseEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tool call or prompt of a test, as a pack's file has it."""

    tool: str = "bash"
    command: str = ""
    path: str = ""
    content: str = ""
    url: str = ""
    input: dict[str, Any] = {}
    """Further fields of the tool's input."""
    prompt: str = ""
    """A person's prompt, instead of a tool call."""
    cwd: str = TEST_DIRECTORY
    source: str = "generic"
    native: str = ""
    """The agent's own event, for rules about one agent."""


class Case(_CaseEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One test beside a rule: a tool call, and the decision that the pack has to give."""

    expected: Expected
    hook: str = ""
    """The id of the rule that the test belongs to."""
    origin: str = ""

    @property
    def event(self) -> Event:
        """The event of this tool call or prompt."""
        if self.prompt:
            kind = EventType.USER_PROMPT_SUBMIT.value
            return Event(type=kind, source=self.source, native=self.native, cwd=self.cwd, data={"prompt": self.prompt})
        given = {"command": self.command, "path": self.path, "content": self.content, "url": self.url, **self.input}
        return Event(
            type=EventType.TOOL_PRE_EXECUTE.value,
            source=self.source,
            native=self.native,
            tool=self.tool,
            cwd=self.cwd,
            input={name: value for name, value in given.items() if value},
        )

    @property
    def call(self) -> str:
        """The call as it is shown, without secrets."""
        subject = self.path or self.url or self.content or self.prompt
        return redact_text(self.command or f"{'prompt' if self.prompt else self.tool} {subject}")


class Pack(NamedTuple):
    """A guard pack: its rules as hooks, whose ids begin with the pack's name, and their tests."""

    name: str
    description: str
    rules: tuple[Hook, ...]
    tests: tuple[Case, ...]


class Failure(NamedTuple):
    """A failed test of a pack; `decisions` has the decision of each rule that fits."""

    case: Case
    decisions: dict[str, str]

    def __str__(self) -> str:
        found = ", ".join(f"{rule} says {decision}" for rule, decision in self.decisions.items()) or "no rule fits"
        return f"{self.case.origin}: {self.case.call!r} should be {self.case.expected} by {self.case.hook}, but {found}"


class _Tests(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    deny: list[str | _CaseEntry] = []
    ask: list[str | _CaseEntry] = []
    allow: list[str | _CaseEntry] = []


class _RuleEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    description: str
    reason: str
    instead: str
    decision: Literal["deny", "ask"]
    tests: _Tests
    on: str = EventType.TOOL_PRE_EXECUTE.value
    tool: str = "bash"
    when: str = ""
    priority: int = 50
    commands: tuple[CommandMatch, ...] = ()
    command: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    path_except: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    secrets: tuple[SecretClass, ...] = ()
    reaches: tuple[HostKind, ...] = ()
    installs: tuple[PackageKind, ...] = ()
    outside_project: bool = False
    incident: Incident | Literal[""] = ""


class _PackEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    description: str
    rules: list[dict[str, Any]]


def packs() -> tuple[str, ...]:
    """The names of the packs that this version ships."""
    return tuple(sorted({file.name.partition(".")[0] for file in FOLDER.glob("*.yaml")}))


@lru_cache(maxsize=64)
def load_pack(name: str) -> Pack:
    """Read a pack; raises NotFound if no pack has this name, and ConfigError with the place if it does not validate.

    A rule is compiled when it first judges an event: most processes judge none, and to compile all takes 0.25 s.
    """
    if name not in packs():
        hint = suggestion(name, packs()) or f"known packs: {', '.join(packs())}"
        raise NotFound(f"no guard pack is called {name!r}; {hint}")
    return read_pack(FOLDER / f"{name}.yaml", compiled=False)


def read_pack(path: Path, *, compiled: bool = True) -> Pack:
    """Read a pack from its file `NAME.yaml` and the files beside it such as `NAME.git.yaml`.

    Raises ConfigError with file, line and column; for a pattern or condition that cannot be compiled only if `compiled`.
    """
    rules: list[Hook] = []
    tests: list[Case] = []
    description = ""
    for file in (path, *sorted(path.parent.glob(f"{path.stem}.*.yaml"))):
        document = load(file)
        entry = _convert(document, (), document.value, _PackEntry)
        description = description or entry.description
        for number, raw in enumerate(entry.rules):
            place: PathParts = ("rules", number)
            rule_entry = _convert(document, place, raw, _RuleEntry)
            hook, cases = _rule(document, path.stem, place, rule_entry, len(rules))
            if compiled:
                _compile(document, place, hook)
            if any(hook.id == other.id for other in rules):
                raise document.error((*place, "id"), f"two rules are called {raw['id']!r}")
            rules.append(hook)
            tests.extend(cases)
    return Pack(path.stem, description, tuple(rules), tuple(tests))


def check_pack(pack: Pack) -> list[Failure]:
    """Run the tests beside the rules; returns those that fail.

    A `deny` or `ask` has to come from the rule that the test belongs to, because rules can be switched off one by one. An
    `allow` means that no rule of the pack objects.
    """
    index = Index([(hook, hook.on) for hook in pack.rules])
    return [failure for case in pack.tests if (failure := _run_test(index, case)) is not None]


def _run_test(index: Index[Hook], case: Case) -> Failure | None:
    hooks = index.find(case.event)
    if case.expected != "allow":  # the rule itself decides; what the others say is only for the report of a failure
        own = _decisions([hook for hook in hooks if hook.id == case.hook], case.event)
        return None if own.get(case.hook) == case.expected else Failure(case, _decisions(hooks, case.event))
    decisions = _decisions(hooks, case.event)
    return Failure(case, decisions) if decisions else None


def _decisions(hooks: Sequence[Hook], event: Event) -> dict[str, str]:
    decisions: dict[str, str] = {}
    for hook in hooks:
        if hook.when and not compile_condition(hook.when)({"event": event.facts()}):
            continue
        try:
            if hook.rule is not None and judge(hook.rule, event) is not None:
                decisions[hook.id] = hook.rule.decision
        except FleethookError as error:
            decisions[hook.id] = f"failure: {error}"
    return decisions


def _rule(
    document: Document, pack: str, place: PathParts, entry: _RuleEntry, number: int
) -> tuple[Hook, tuple[Case, ...]]:
    line, _ = document.place(place)
    hook = Hook(
        id=f"{pack}_{entry.id}",
        on=tuple(part.strip() for part in entry.on.split(",")),
        tool=entry.tool,
        when=entry.when,
        priority=entry.priority,
        description=entry.description,
        position=number,
        origin=f"{Path(document.file).name}:{line}",
        rule=Rule(
            decision=entry.decision,
            reason=entry.reason,
            instead=entry.instead,
            commands=entry.commands,
            command=entry.command,
            path=entry.path,
            path_except=entry.path_except,
            content=entry.content,
            secrets=entry.secrets,
            reaches=entry.reaches,
            installs=entry.installs,
            outside_project=entry.outside_project,
            incident=entry.incident,
        ),
    )
    return hook, tuple(_cases(document, place, entry.tests, hook))


def _compile(document: Document, place: PathParts, hook: Hook) -> None:
    """Compile everything in a rule; raises ConfigError with its place."""
    try:
        check_rule(hook.rule or Rule())
        if hook.when:
            compile_condition(hook.when)
        Index([(hook, hook.on)])
    except ConfigError as error:
        raise document.error(place, error.message, hint=error.hint) from error


def _cases(document: Document, place: PathParts, tests: _Tests, hook: Hook) -> list[Case]:
    cases: list[Case] = []
    groups: tuple[tuple[Expected, list[str | _CaseEntry]], ...] = (
        ("deny", tests.deny),
        ("ask", tests.ask),
        ("allow", tests.allow),
    )
    for expected, entries in groups:
        for number, entry in enumerate(entries):
            line, _ = document.place((*place, "tests", expected, number))
            given = {"command": entry} if isinstance(entry, str) else msgspec.structs.asdict(entry)
            cases.append(Case(expected=expected, hook=hook.id, origin=f"{Path(document.file).name}:{line}", **given))
    return cases


def _convert(document: Document, place: PathParts, raw: object, kind: type[Any]) -> Any:
    entry, problems = convert(document, place, raw, kind)
    if problems:
        raise problems[0]
    return entry
