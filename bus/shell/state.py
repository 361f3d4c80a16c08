"""What a shell knows at one place of a script, and what one command does there: it is noted, and what it runs is read too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from bus.shell.builtins import STATEFUL, Directories, apply_builtin, enter, parameters
from bus.shell.commands import PRINTING, Command, printed, program_name, read_own_output
from bus.shell.editors import VARIABLES, side_script
from bus.shell.found import NOTHING, Call, Found, may_write, scripts_made, together
from bus.shell.inner import Arg, Inner
from bus.shell.interpreters import may_prompt, opens_prompt
from bus.shell.plain import Stage, Statement
from bus.shell.words import UNKNOWN, UNSET, Output, Scope
from bus.shell.wrappers import init_script, inner_calls, runs_others

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node

MAX_SCRIPTS: Final = 8
"""How deep scripts in scripts are read: `bash -c "bash -c '…'"`."""


_INIT_SCRIPT: Final = ".d/"
"""In the path of a service's script: `/etc/init.d/nginx`."""


class _Program(NamedTuple):
    """What can be told of a program before its arguments are looked at."""

    name: str
    ordinary: bool
    """It does nothing but run: all below is False."""
    runs_others: bool
    prompts: bool
    prints: bool
    """What it prints may be known."""
    stateful: bool
    """It may change what the shell knows."""
    writes: bool


@lru_cache(maxsize=1024)
def _program(word: str) -> _Program:
    """What the first word of a command names."""
    name = program_name(word)
    known = (
        runs_others(name) or _INIT_SCRIPT in word,
        may_prompt(name),
        name in PRINTING,
        name in STATEFUL,
        may_write(name),
    )
    return _Program(name, not any(known), *known)


def single_command(words: list[str]) -> Command | None:
    """The command of these words on a line of its own; None where it runs others."""
    known = _program(words[0])
    if known.ordinary or not (known.runs_others or known.prompts):
        return Command(known.name, tuple(words[1:]))
    args = [Arg(word) for word in words[1:]]
    if known.runs_others and (_INIT_SCRIPT in words[0] or any(True for _ in inner_calls(known.name, args, NOTHING))):
        return None
    return Command(known.name, tuple(words[1:]), prompt=known.prompts and opens_prompt(known.name, args))


class Shell(ABC):
    """The variables known so far, the directory it has changed to, and how commands run; what reads scripts is below."""

    def __init__(self, found: Found, variables: dict[str, tuple[str, ...]], directory: str, scripts: int = 0) -> None:
        self.found = found
        self.directory = directory
        self.scripts = scripts
        self.directories = Directories()
        self.feeding: tuple[tuple[str, ...], Node | None] = ((), None)
        """The programs before the command whose words are being read, and its name."""
        self.inside: tuple[str, ...] = ()
        """The functions whose bodies are being read, innermost last."""
        self.made: set[str] = set()
        """The variables that it has set for whoever calls it."""
        self.scope = Scope(b"", variables, self.substituted, found.budget)

    @abstractmethod
    def script(self, text: str, scripts: int, stdin: Output = NOTHING) -> str | None:
        """Read a whole script; what it prints, where that can be told."""

    @abstractmethod
    def visit(self, node: Node, stdin: Output) -> Output:
        """Read a statement; what it prints, where that can be told, and what it runs."""

    @abstractmethod
    def substituted(self, node: Node) -> Output:
        """Read a `$(…)`, `<(…)` or `>(…)`."""

    def run_plain(self, statements: list[Statement], stdin: Output) -> str | None:
        """Run the commands of a line of plain words as those of its tree would be; what one statement alone prints."""
        texts: list[str | None] = []
        for statement in statements:
            texts = []
            for place, pipeline in enumerate(statement):
                before = self.scope.variables
                if place:
                    self.scope.variables = dict(before)
                output, first = stdin, len(self.found.items)
                for stage in pipeline:
                    output = self._stage(stage, output)
                    if len(pipeline) > 1 and not pipeline[-1].redirected:
                        self.note_own_output(first)
                if pipeline[-1].redirected:  # the grammar hangs its redirections on the whole list, and so its text
                    if len(pipeline) > 1:
                        read_own_output(self.found.items, first)
                    texts = [output.text]
                    continue
                texts.append(output.text)
                if place:
                    self.may_keep(before)
        return together(texts) if len(statements) == 1 else None

    def _stage(self, stage: Stage, stdin: Output) -> Output:
        program = _program(stage.words[0])
        if program.ordinary and not stage.redirects and self.found.is_fresh:
            return self._run_ordinary(program.name, stage.words, stdin)
        first = len(self.found.items)
        if stage.redirects:
            self.found.redirected = True
        call = Call(stdin, (), stage.redirects, stdin.programs)
        text = self.run(list(map(Arg, stage.words)), call)
        return Output(text, stdin.programs + self.programs_from(first))

    def _run_ordinary(self, program: str, words: list[str], stdin: Output) -> Output:
        """As `run`, for a program that does nothing but run."""
        if not self.found.may_go_on() or not self.found.budget.take_command(len(words)):
            return Output(None, stdin.programs)
        text, before = stdin
        about = Command(program, tuple(words[1:]), (), (), before, (), self.directory, self.scripts, False, False, text)
        self.found.items.append(about)
        return Output(None, (*before, program))

    def programs_from(self, first: int) -> tuple[str, ...]:
        """The programs of the commands from this place on, and those that wrote the files that these read."""
        made = self.found.items[first:]
        programs = tuple([one.program for one in made])
        if self.found.reads_files:
            programs += tuple([name for one in made for name in self.found.files.read_by(one)])
        return programs

    def may_keep(self, before: dict[str, tuple[str, ...]]) -> None:
        """What a command has set that may not have run: the variable may also have the value that it had."""
        if self.scope.variables == before:
            return
        for name, values in self.scope.variables.items():
            old = before.get(name)
            if old is not None and old != values and name not in ("@", "*", "OLDPWD") and not name.isdigit():
                self.scope.variables[name] = tuple(dict.fromkeys((*old, *values)))[:64]

    def note_own_output(self, first: int) -> None:
        items = self.found.items
        if self.found.redirected or (items and items[-1].program == "tee"):
            read_own_output(items, first)

    def run(self, argv: list[Arg], call: Call) -> str | None:
        """Note one command and read what it runs in turn; what it prints, where that can be told."""
        if not self.found.may_go_on() or not self.found.budget.take_command(len(argv)):
            return None
        if not argv:
            if call.redirects:
                self.found.items.append(
                    Command("", redirects=call.redirects, directory=self.directory, depth=self.scripts)
                )
            return None
        known = _program(argv[0].text)
        program = known.name
        args = argv[1:]
        words = tuple([arg.text for arg in args])
        inner = list(inner_calls(program, args, call.stdin)) if known.runs_others else []
        if _INIT_SCRIPT in argv[0].text:
            inner += init_script(argv)
        place = len(self.found.items)
        prompt = known.prompts and opens_prompt(program, args) and not call.reads
        about = Command(program, words, *call[1:], (), self.directory, self.scripts, False, prompt, call.stdin.text)
        self.found.items.append(about)
        text = printed(program, words, call.stdin) if known.prints else None
        for name, value in call.assignments:
            inner += side_script(value) if name in VARIABLES else ()
        if known.stateful:
            text = self._change(program, args, words, call.stdin, text)
        if call.redirects or not self.found.is_fresh:
            inner += scripts_made(self.found, about, argv[0].text, self.inside)
        if call.redirects or known.writes:
            self.found.files.note(about, text)
        if inner:
            text = self._run_inner(inner, call, place, text)
        if argv[0].text in self.found.functions and argv[0].text not in self.inside:
            self.found.depth += 1
            text = self._called(argv[0].text, words, call.stdin)
            self.found.depth -= 1
        return text

    def _run_inner(self, inner: list[Inner], call: Call, place: int, text: str | None) -> str | None:
        """Read the commands and scripts inside the command at `place`, which prints `text`; what it prints then."""
        program = self.found.items[place].program
        self.found.depth += 1
        code_from: list[str] = []
        for one in inner:
            first = len(self.found.items)
            if one.argv:
                self._within(one, call)
                continue
            if one.script is not None:
                told = self._nested(one, call, own=program == "eval")
                text = told if program == "eval" else text
            # Text from a program inside a script that is otherwise known is an argument, unless it names what runs.
            partly = one.script is not None and UNKNOWN in one.script
            if not partly or any(below.program == UNKNOWN for below in self.found.items[first:]):
                code_from += one.sources
        if code_from:
            code = tuple(dict.fromkeys(code_from))
            self.found.items[place] = self.found.items[place]._replace(code_from=code)
        self.found.depth -= 1
        return text

    def _change(
        self, program: str, args: list[Arg], words: tuple[str, ...], stdin: Output, text: str | None
    ) -> str | None:
        """Do what one of the shell's own commands does, which prints `text`; what it prints, now that it is done."""
        if program == "pwd":
            return self.directory
        if program in ("cd", "pushd", "popd"):
            self._change_directory(program, words)
        elif program == "alias":
            self.found.aliases |= {word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word}
        else:
            apply_builtin(program, args, stdin, text, self.scope)
        return text

    def _within(self, inner: Inner, call: Call) -> None:
        """Read the command that a wrapper runs, perhaps in a directory of its own (`env -C /`)."""
        directory = self.directory
        if inner.directory:
            self.directory = enter(self.directory, inner.directory)
        if inner.assignments:
            call = call._replace(assignments=(*call.assignments, *inner.assignments))
        self.run(list(inner.argv), call)
        if inner.directory:
            self.directory = directory

    def _nested(self, inner: Inner, call: Call, *, own: bool) -> str | None:
        """Read a script that a command runs; what it prints. Variables that it sets stay where it is our `own` shell's."""
        if self.scripts >= MAX_SCRIPTS:
            self.found.too_deep = True
        if self.found.too_deep or not self.found.budget.take_script(len(inner.script or "")):
            return None
        variables = dict(self.scope.variables) | {name: (value,) for name, value in call.assignments}
        variables |= parameters(inner.parameters)
        directory = enter(self.directory, inner.directory) if inner.directory else self.directory
        reader = type(self)(self.found, variables, "~" if inner.remote else directory)
        reader.inside = (*self.inside, inner.alias) if inner.alias else self.inside
        # What is not known goes into the nested script as a parameter and comes out unknown again.
        text = (inner.script or "").replace(UNKNOWN, "${_}").replace(UNSET, "${__}")
        printed_text = reader.script(text, self.scripts + 1, call.stdin if call.stdin.text != inner.script else NOTHING)
        if own:
            self.scope.variables, self.directory = reader.scope.variables, reader.directory
        return printed_text

    def _called(self, name: str, words: tuple[str, ...], stdin: Output) -> str | None:
        """Read a function's body once more with the arguments of this call; what it prints."""
        source, body = self.found.functions[name]
        own = type(self)(self.found, dict(self.scope.variables), self.directory, self.scripts)
        own.scope.source, own.inside = source, (*self.inside, name)
        own.scope.variables |= parameters((name, *words))
        text = own.visit(body, stdin).text
        self.directory = own.directory
        self.scope.variables |= {key: own.scope.variables[key] for key in own.made if key in own.scope.variables}
        self.made |= own.made
        return text

    def _change_directory(self, program: str, words: tuple[str, ...]) -> None:
        now = self.directory
        back = self.directories.change(program, words, now)
        target = next((word for word in words if not word.startswith("-")), "~")
        self.directory = enter(self.directory, target) if back is None else back
        self.scope.variables["OLDPWD"] = (now,)
