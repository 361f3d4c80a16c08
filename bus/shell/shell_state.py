"""The state of a shell at one place of a script, and the effect of one command there, with everything that it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell.builtins import STATEFUL, DirectoryStack, apply_builtin, enter, parameters
from bus.shell.commands import PRINTING, Command, included, printed, program_name, read_own_output
from bus.shell.inner import Arg, Inner, args_of
from bus.shell.interpreters import may_prompt, opens_prompt
from bus.shell.line_state import NOTHING, CommandContext, LineState, is_special, may_write, scripts_made, together
from bus.shell.plain_lines import Stage, Statement
from bus.shell.programs.filters import DECODING, REWRITING, is_worked_out
from bus.shell.programs.known_outputs import prints_for
from bus.shell.programs.made_files import later_scripts
from bus.shell.programs.running_words import NEVER, RunningWords, hands_over
from bus.shell.programs.variables import variable_script
from bus.shell.quoting import origins_of_unknown, with_parameters
from bus.shell.words import MAYBE_EMPTY, UNKNOWN, Output, WordScope
from bus.shell.wrappers import init_script, inner_calls, running_words, runs_code

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node

MAX_SCRIPTS: Final = 8
"""How deep scripts in scripts are read: `bash -c "bash -c '…'"`."""
_NAMES_ANEW: Final = frozenset({"cp", "ln", "install", "mv", "hash"})
"""Programs that give another one a second name: `ln -s /bin/rm x`."""
_BINARY: Final = lazy_regex(r"/(?:usr/)?(?:local/)?s?bin/\w[\w.-]*|rm|dd|shred|find")
_INIT_SCRIPT: Final = ".d/"
"""Part of the path of a service's script: `/etc/init.d/nginx`."""
_new: Final = tuple.__new__
"""Makes a value of a `NamedTuple` from all its fields in half the time of a call of its class."""
_NO_DIRECTORY: Final = "-+"
"""First characters of a word that `cd` reads as an option or as a place in its stack."""


class _Program(NamedTuple):
    """Facts about a program that do not depend on its arguments."""

    name: str
    runs_others: bool
    """It may run other programs, whatever its arguments are."""
    running: RunningWords | None
    """Otherwise: the words with which it may; None if there are none."""
    prompts: bool
    prints: bool
    """Its output may be known."""
    changes: bool
    """It may change the shell's state, or write files that later commands run."""
    runs_code: bool
    """It may run its input as code."""
    path: str
    """The word itself, where it is more than the name (`Command.path`)."""


@lru_cache(maxsize=1024)
def _program(word: str) -> _Program:
    """The program that the first word of a command names."""
    name = program_name(word)
    running = None if _INIT_SCRIPT in word else running_words(name)
    return _Program(
        name,
        running is None,
        running if running != NEVER else None,
        may_prompt(name),
        name in PRINTING,
        name in STATEFUL or may_write(name),
        runs_code(name),
        "" if word == name else word,
    )


def _inner_of(program: str, argv: list[Arg], stdin: Output) -> list[Inner]:
    """The commands and scripts that a command runs, without files whose text and origin are unknown."""
    inner = [
        one
        for one in inner_calls(program, argv[1:], stdin)
        if one.argv or one.sources or one.script is not None or one.unread
    ]
    return [*inner, *init_script(argv)] if _INIT_SCRIPT in argv[0].text else inner


def single_command(words: list[str]) -> tuple[Command, list[Inner]]:
    """The command that these words are on a line of their own, and the commands and scripts that it runs."""
    name, runs_others, running, prompts, _, _, _, path = _program(words[0])
    rest = tuple(words[1:])
    inner: list[Inner] = []
    prompt = False
    runs = runs_others or (running is not None and hands_over(rest, running))
    if runs or prompts:
        argv = args_of(words)
        inner = _inner_of(name, argv, NOTHING) if runs else inner
        prompt = prompts and opens_prompt(name, argv[1:])
    return _new(Command, (name, rest, (), (), (), (), ".", 0, False, prompt, None, path)), inner


def quiet_commands(statements: list[Statement]) -> tuple[Command, ...]:
    """The commands of a line of plain words, if no command but `cd` has an effect on a later one; else an empty tuple.

    `Shell.run_plain` finds the same commands in three times the time. Most lines of several commands are like that.
    """
    items: list[Command] = []
    directory = "."
    final = statements[-1][-1]
    for statement in statements:
        for pipeline in statement:
            last = pipeline[-1]
            if len(pipeline) > 1 and isinstance(last, Stage) and _program(last.words[0]).runs_code:
                return ()  # `… | sh` most likely runs more; reading it here would read it twice
            text: str | None = None
            programs: tuple[str, ...] = ()
            for stage in pipeline:
                if not isinstance(stage, Stage) or stage.assignments:
                    return ()
                words, redirects = stage.words, stage.redirects
                if redirects and (pipeline is not final or len(final) > 1 or is_special(redirects)):
                    return ()
                name, runs_others, running, prompts, prints, changes, _, path = _program(words[0])
                if changes and (name != "cd" or len(words) != 2 or words[1][0] in _NO_DIRECTORY):
                    return ()
                rest = tuple(words[1:])
                prompt = False
                runs = runs_others or (running is not None and hands_over(rest, running))
                if runs or prompts:
                    argv = args_of(words)
                    if runs and _inner_of(name, argv, Output(text, programs)):
                        return ()
                    prompt = prompts and text is None and not programs and opens_prompt(name, argv[1:])
                fields = (name, rest, (), redirects, programs, (), directory, 0, False, prompt, text, path)
                items.append(_new(Command, fields))
                if stage is not last:  # nothing reads what the last stage prints
                    text = printed(name, rest, Output(text, programs)) if prints else None
                    programs += (name,)
                if changes:
                    directory = enter(directory, rest[0])
    return tuple(items)


class Shell(ABC):
    """The shell's variables and directory, and how its commands run. The subclass `Reader` reads scripts."""

    def __init__(
        self, found: LineState, variables: dict[str, tuple[str, ...]], directory: str, scripts: int = 0
    ) -> None:
        self.found = found
        self.directory = directory
        self.scripts = scripts
        self.directories = DirectoryStack()
        self.feeding: tuple[Output, Node | None] = (NOTHING, None)
        """What the command whose words are being read writes into a `>(…)`, and the command's name."""
        self.inside: tuple[str, ...] = ()
        """The functions whose bodies are being read, innermost last."""
        self.made: set[str] = set()
        """The variables that it has set and that its caller gets too."""
        self.seen: set[int] = set()
        """The start of each substitution in its source that was read."""
        self.scope = WordScope(b"", variables, self.substituted, found.budget)

    @abstractmethod
    def script(self, text: str, scripts: int, stdin: Output = NOTHING) -> str | None:
        """Read a whole script. Returns its output where that is known."""

    @abstractmethod
    def visit(self, node: Node, stdin: Output) -> Output:
        """Read a statement. Returns its output, where that is known, and the programs that it runs."""

    @abstractmethod
    def substituted(self, node: Node) -> Output:
        """Read a `$(…)`, `<(…)` or `>(…)`."""

    def run_plain(self, statements: list[Statement], stdin: Output) -> str | None:
        """Run the commands of a line of plain words as by its tree. Returns the output of the last statement."""
        texts: list[str | None] = []
        for statement in statements:
            texts = []
            for place, pipeline in enumerate(statement):
                before = self.scope.variables
                output, first = stdin, len(self.found.items)
                redirected = isinstance(pipeline[-1], Stage) and pipeline[-1].redirected
                for stage in pipeline:
                    if isinstance(stage, Stage):
                        output = self._stage(stage, output, before if place else None, last=stage is pipeline[-1])
                    else:
                        text = self.run_plain([stage], output)
                        output = Output(text, output.programs + self.programs_from(first))
                    if len(pipeline) > 1 and not redirected:
                        self.note_own_output(first)
                if redirected:  # the grammar gives its redirections, and so its output, to the whole list
                    if len(pipeline) > 1:
                        read_own_output(self.found.items, first)
                    texts = [output.text]
                    continue
                texts.append(output.text)
                if place and self.scope.variables is not before:
                    self.may_keep(before)
        return together(texts) if len(statements) == 1 else None

    def _stage(self, stage: Stage, stdin: Output, before: dict[str, tuple[str, ...]] | None, *, last: bool) -> Output:
        """Run a stage. It leaves `before` unchanged: the variables as they are if the stage does not run.

        The programs that a stage runs are not worked out for the `last` one of a pipeline: no later stage needs them.
        """
        found, words = self.found, stage.words
        known = _program(words[0])
        runs = known.runs_others or (known.running is not None and hands_over(words[1:], known.running))
        argv = args_of(words) if runs or known.prompts else None
        inner = _inner_of(known.name, argv, stdin) if argv and runs else []
        text, programs = stdin
        if inner or known.changes or stage.redirects or stage.assignments or not found.is_fresh:
            first = len(found.items)
            for _, value in stage.assignments:
                found.budget.take_text(len(value))
            if stage.redirects:
                found.redirected = True
            if before is self.scope.variables:
                self.scope.variables = dict(before)
            call = CommandContext(stdin, stage.assignments, stage.redirects, programs)
            text = self.run(argv or args_of(words), call, None if stage.redirects else inner)
            return Output(text, () if last else programs + self.programs_from(first))
        if not found.may_go_on() or not found.budget.take_command(len(words)):
            return Output(None, programs)
        name, rest = known.name, tuple(words[1:])
        prompt = known.prompts and stdin == NOTHING and opens_prompt(name, argv[1:] if argv else ())
        fields = (name, rest, (), (), programs, (), self.directory, self.scripts, False, prompt, text, known.path)
        found.items.append(_new(Command, fields))
        return Output(printed(name, rest, stdin) if known.prints else None, (*programs, name))

    def programs_from(self, first: int) -> tuple[str, ...]:
        """The programs of the commands from the index `first` on, and the programs that wrote the files those read."""
        made = self.found.items[first:]
        programs = tuple([one.program for one in made])
        if self.found.reads_files:
            programs += tuple([name for one in made for name in self.found.files.read_by(one)])
        return programs

    def may_keep(self, before: dict[str, tuple[str, ...]]) -> None:
        """After a command that may not have run: each variable that it set may also have its value from `before`."""
        if self.scope.variables == before:
            return
        for name, values in self.scope.variables.items():
            old = before.get(name)
            if old is not None and old != values and name not in ("@", "*", "OLDPWD") and not name.isdigit():
                self.scope.variables[name] = tuple(self.found.budget.cut(tuple(dict.fromkeys((*old, *values)))))

    def note_own_output(self, first: int) -> None:
        items = self.found.items
        if self.found.redirected or (items and items[-1].program == "tee"):
            read_own_output(items, first)

    def run(self, argv: list[Arg], call: CommandContext, inner: list[Inner] | None = None) -> str | None:
        """Add one command and read what it runs (`inner`, where that is known). Returns its output where that is known."""
        found = self.found
        if not found.may_go_on() or not found.budget.take_command(len(argv)):
            return None
        if not argv:
            if call.redirects:
                found.items.append(Command("", redirects=call.redirects, directory=self.directory, depth=self.scripts))
            return None
        first = argv[0].text
        known = _program(first)
        program = known.name
        args = argv[1:]
        words = tuple([arg.text for arg in args])
        if program == UNKNOWN and first.rstrip(MAYBE_EMPTY) == UNKNOWN and argv[0].sources:  # `$(curl …)`
            inner = [Inner(sources=argv[0].sources)]
        if call.redirects and found.files.texts:
            call = found.files.with_input(call, self.directory)
        if inner is None:
            runs = known.runs_others or (known.running is not None and hands_over(words, known.running))
            inner = _inner_of(program, argv, call.stdin) if runs else []
        if argv[0].sources and not DECODING.isdisjoint(argv[0].sources):  # `$(echo cm0= | base64 -d) x`
            inner = [*inner, Inner(sources=argv[0].sources)]
        place = len(found.items)
        prompt = known.prompts and opens_prompt(program, args) and not call.reads
        stdin, path = call.stdin.text, known.path
        about = Command(program, words, *call[1:], (), self.directory, self.scripts, False, prompt, stdin, path)
        found.add(about, args)
        text = printed(program, words, call.stdin) if known.prints else None
        if text is None and call.redirects:
            text = included(program, call.redirects)
        for name, value in call.assignments:
            inner += variable_script(name, value, found.files.texts)
        if known.changes:
            text = self._change(program, args, words, call.stdin, text)
        if call.redirects or not found.is_fresh:
            inner += scripts_made(found, about, first, self.inside)
            shown = found.files.shown_by(about)
            text = text if shown is None else shown
        if call.redirects or known.changes:
            found.files.note(about, text)
            if (text or program == "tee") and (call.redirects or program == "tee"):
                inner += later_scripts(about, text)
        if inner:
            text = self._run_inner(inner, call, place, text)
        if first in found.functions and first not in self.inside:
            found.depth += 1
            text = self._called(first, words, call.stdin)
            found.depth -= 1
        return text

    def _run_inner(self, inner: list[Inner], call: CommandContext, place: int, text: str | None) -> str | None:
        """Read the commands and scripts inside the command at index `place`. Returns its output, `text` unless they set it."""
        program = self.found.items[place].program
        self.found.depth += 1
        code_from: list[str] = []
        for one in inner:
            first = len(self.found.items)
            if one.unread:
                self.found.budget.stop("it has more code, calls or arguments than are read")
                self.found.unread.update(one.unread)
            if one.argv:
                printed_text = self._within(one, call)
                text = printed_text if prints_for(program, one.argv[0].text) else text
                continue
            if one.script is not None:
                printed_text = self._nested(one, call, own=program == "eval")
                text = printed_text if program == "eval" else text
            # In a script that is otherwise known, text from a program is an argument, unless it names the program.
            partly = one.script is not None and UNKNOWN in one.script
            if not partly or any(below.program == UNKNOWN for below in self.found.items[first:]):
                worked_out = is_worked_out(one.script)
                code_from += [
                    name for name in one.sources if not (worked_out and name in REWRITING and name not in DECODING)
                ]
        if code_from:
            code = tuple(dict.fromkeys(code_from))
            self.found.items[place] = self.found.items[place]._replace(code_from=code)
        self.found.depth -= 1
        return text

    def _change(
        self, program: str, args: list[Arg], words: tuple[str, ...], stdin: Output, text: str | None
    ) -> str | None:
        """Apply one of the shell's own commands. Returns its output, `text` for most."""
        if program == "pwd":
            return self.directory
        if program in ("cd", "pushd", "popd"):
            self._change_directory(program, words)
        elif program in _NAMES_ANEW and len(words) > 1 and _BINARY.fullmatch(words[-2]):
            self.found.aliases |= dict.fromkeys((words[-1], f"./{words[-1]}"), words[-2])
        elif program == "alias":
            self.found.aliases |= {word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word}
        else:
            apply_builtin(program, args, stdin, text, self.scope)
        return text

    def _within(self, inner: Inner, call: CommandContext) -> str | None:
        """Read the command that a wrapper runs, perhaps in a directory of its own (`env -C /`). Returns its output."""
        directory = self.directory
        if inner.directory:
            self.directory = enter(self.directory, inner.directory)
        if inner.assignments:
            call = call._replace(assignments=(*call.assignments, *inner.assignments))
        text = self.run(list(inner.argv), call)
        if inner.directory:
            self.directory = directory
        return text

    def _nested(self, inner: Inner, call: CommandContext, *, own: bool) -> str | None:
        """Read a script that a command runs. Returns its output. Its variables stay set if this shell runs it (`own`)."""
        if self.scripts >= MAX_SCRIPTS:
            self.found.too_deep = True
        if self.found.too_deep or not self.found.budget.take_script(len(inner.script or "")):
            return None
        given = {name: (value,) for name, value in call.assignments} | parameters(inner.parameters)
        directory = enter(self.directory, inner.directory) if inner.directory else self.directory
        reader = type(self)(self.found, self.scope.variables | given, "~" if inner.remote else directory)
        reader.inside = (*self.inside, inner.alias) if inner.alias else self.inside
        reader.scope.origins |= origins_of_unknown(inner.sources)
        text = with_parameters(inner.script or "", inner.sources)
        printed_text = reader.script(text, self.scripts + 1, call.stdin if call.stdin.text != inner.script else NOTHING)
        if own:
            self.scope.variables, self.directory = reader.scope.variables, reader.directory
        return printed_text

    def _called(self, name: str, words: tuple[str, ...], stdin: Output) -> str | None:
        """Read a function's body with the arguments of this call. Returns its output."""
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
