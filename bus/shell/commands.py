"""What a command in a shell is, and what a few harmless programs print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from bus.shell.batches import find_roots, found_below
from bus.shell.expansions import ansi_c
from bus.shell.words import MAX_LENGTH, PROJECT, UNKNOWN, UNSET, Output, is_hidden, shown

_FILTERS: Final = frozenset({"head", "tail", "sort", "uniq", "grep", "egrep", "tee", "cat"})
_CONVERSION: Final = re.compile(r"(%%|%[-+ #0-9.*]*[a-zA-Z])")
_NO_BACKGROUND: Final = re.compile(rb"&&|[<>]&|&>")
_PATTERN: Final = re.compile(r"[?*\[]")
_NAMED_BY_PATTERN: Final = ("rm", "sh", "bash", "dd", "find", "shred", "chmod", "chown", "mkfs")
_WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})


class Command(NamedTuple):
    """One simple command as its program would get it."""

    program: str
    """Lower-cased name without its directory; empty for a redirection alone; UNKNOWN where only the shell knows."""
    words: tuple[str, ...] = ()
    """Its arguments; UNKNOWN and UNSET (`bus.shell.words`) stand for what is not known; a leading `~` is the home directory."""
    assignments: tuple[tuple[str, str], ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()
    """(operator, target), e.g. `(">", "/dev/sda")`; descriptors and heredocs are left out."""
    piped_from: tuple[str, ...] = ()
    """The programs of the earlier stages of its pipeline."""
    code_from: tuple[str, ...] = ()
    """The programs whose output it runs as code: `curl … | sh`, `bash <(curl …)`, `sh -c "$(curl …)"`."""
    directory: str = "."
    """Where it runs, from the directory of the line: `.` until a `cd`; UNKNOWN where that cannot be told."""
    depth: int = 0
    """How many scripts it was found in: 0 for the line itself, 1 for what its `bash -c` runs."""
    fork_bomb: bool = False
    """It calls the function that it stands in, piped into itself or in the background."""
    prompt: bool = False
    """It opens a shell, a REPL or a client that reads what is typed: nothing else is its standard input."""
    stdin: str | None = None
    """What it reads from a pipe, heredoc or here-string, where that can be told."""
    path: str = ""
    """Its first word as it is written, where that is not just the name in small letters: `./Check.sh`."""

    @property
    def line(self) -> str:
        """Program and arguments with single blanks, what is not known as `$…`; for patterns and for people."""
        return shown(" ".join((self.program, *self.words)))

    @property
    def spoken(self) -> str:
        """The line with its variables before it and its redirections behind it."""
        before = [f"{name}={value}" for name, value in self.assignments]
        after = [f"{operator} {target}" for operator, target in self.redirects]
        return shown(" ".join([*before, *([self.program] if self.program else []), *self.words, *after]))

    @property
    def writes(self) -> tuple[str, ...]:
        """The targets of its writing redirections."""
        return tuple(target for operator, target in self.redirects if operator in _WRITING)

    @property
    def reads(self) -> tuple[str, ...]:
        """The files that its standard input, or that of an earlier stage of its pipeline, is read from."""
        return tuple(target for operator, target in self.redirects if operator == "<")


class Commands(NamedTuple):
    """All commands of a line, in reading order; wrappers stand before what they run."""

    items: tuple[Command, ...] = ()
    truncated: bool = False
    """The budget was used up (`bus.shell.budget`): only a part was read."""
    incomplete: bool = False
    """A part could not be parsed, or was nested too deep, and was read roughly or not at all."""
    marks: frozenset[str] = frozenset()
    """What most rules can be told from: its programs, `code from curl`, `fork bomb` (`command_rules.marks_of`)."""
    stopped: str = ""
    """Why reading stopped before the end, in words that follow "the command": "it runs more than 2000 commands"."""
    unread: frozenset[str] = frozenset()
    """The raw names (`bus.shell.parsing`) in what was not read; of the whole line where reading stopped before the end."""

    @property
    def text(self) -> str:
        """A line for each command with its variables and redirections, without quotes, what is not known as `$…`."""
        return "\n".join([one.spoken for one in self.items])


FORK_BOMB: Final = "fork bomb"
CHANGES: Final = "changes files"
PROMPT: Final = "prompt"


def marks(items: Iterable[Command]) -> frozenset[str]:
    """What a rule may ask of these commands by name alone."""
    found: set[str] = set()
    for one in items:
        found.add(one.program)
        if "." in one.program:
            found.add(f"{one.program.partition('.')[0]}.*")
        if one.code_from:
            found.update(map(code_mark, one.code_from))
        if one.fork_bomb:
            found.add(FORK_BOMB)
        if one.prompt:
            found.add(PROMPT)
    return frozenset(found)


def is_family(pattern: str) -> bool:
    """Whether a program's pattern is the mark of a family such as `mkfs.*`, which `mkfs.ext4` has as well as its own."""
    stem = pattern.removesuffix(".*")
    return stem != pattern and stem.replace("-", "").replace("_", "").isalnum()


_SILENT: Final = re.compile(r"[\s({]*(?::|true|false)?[\s;})]*")


def is_silent(source: str) -> bool:
    """Whether the source of a compound statement runs nothing that could print: `{ :; }`, `( true )`."""
    return _SILENT.fullmatch(source) is not None


def read_own_output(items: list[Command], first: int) -> None:
    """Note in a pipeline's last command that an earlier stage, from `first` on, reads what it empties: `sort f | uniq > f`."""
    last = items[-1] if len(items) - first > 1 else None
    if last is None or not (last.redirects or last.program == "tee"):
        return
    read = {plain_path(word) for one in items[first:-1] for word in (*one.words, *one.reads)}
    for target in (*last.writes, *(last.words if last.program == "tee" else ())):
        if plain_path(target) in read:
            items[-1] = last._replace(redirects=(*last.redirects, ("<", target)))
            return


def plain_path(word: str) -> str:
    """One spelling for `./f` and `f`."""
    return word.removeprefix("./")


def calls_itself(name: str, items: Sequence[Command], body: bytes) -> bool:
    """Whether a function of this name whose body runs `items` calls itself in a pipe, or more than once in the background."""
    calls = [one for one in items if one.program == name]
    piped = any(name in one.piped_from for one in calls)
    return piped or (len(calls) > 1 and b"&" in _NO_BACKGROUND.sub(b"", body))


def code_mark(program: str) -> str:
    """The mark of a command that runs as code what this program prints."""
    return f"code from {program}"


def program_name(text: str) -> str:
    """The lower-cased name of the program that a first word names; UNKNOWN where only the shell knows."""
    if is_hidden(text):
        name = text.rpartition("/")[2].replace(UNSET, "")  # `r${x}m`: what is not set is empty
        return UNKNOWN if is_hidden(name) or not name else name.lower()
    name = text.rstrip("/").rpartition("/")[2].lower().removesuffix(".exe")
    if not name.isascii() or name.replace("-", "").replace("_", "").isalnum():
        return name
    if "/" in text and _PATTERN.search(name):  # `/bin/r?`
        return next((one for one in _NAMED_BY_PATTERN if fnmatchcase(one, name)), name)
    return name[1:] if name[:1] == "=" else name  # zsh: `=rm` is the path of rm


PRINTING: Final = _FILTERS | {
    "echo",
    "printf",
    "cd",
    "pushd",
    "popd",
    "export",
    "set",
    "mkdir",
    ":",
    "true",
    "locate",
    "plocate",
    "mdfind",
    "printenv",
    "git",
    "mktemp",
    "which",
    "command",
    "type",
    "realpath",
    "readlink",
    "dirname",
    "ls",
    "find",
    "gfind",
}
"""The programs of which it is known what they print."""


def printed(program: str, words: tuple[str, ...], stdin: Output) -> str | None:
    """What a few harmless programs print."""
    if program not in PRINTING:
        return None
    if program == "echo":
        escapes = bool(words) and words[0] in ("-e", "-ne", "-en")
        text = " ".join(words[1:] if words and words[0] in ("-n", "-e", "-E", "-ne", "-en") else words)
        return _decoded(text) if escapes or "\\n" in text else text
    if program == "printf":
        return _formatted(words[1:] if words[:1] == ("--",) else words)
    if program in ("cd", "pushd", "popd", "export", "set", "mkdir", ":", "true"):
        return ""
    if program in ("locate", "plocate", "mdfind"):
        return f"/{UNKNOWN}"
    if program == "printenv" and words == ("HOME",):
        return "~"
    if program in ("cat", "head", "tail") and words[-1:] == ("/dev/null",):
        return ""
    if program == "git" and "rev-parse" in words:
        if "--show-toplevel" in words or "--show-superproject-working-tree" in words:
            return PROJECT
        return f"{PROJECT}/.git" if words[-1] in ("--git-dir", "--absolute-git-dir", "--git-common-dir") else None
    if program == "mktemp":
        return "/tmp/.mktemp"  # noqa: S108  (never opened: it means "a fresh temporary path")
    if program in ("which", "command", "type") and words and words[0] in ("-v", "-p", words[-1]):
        return words[-1]
    if program in ("realpath", "readlink"):
        words = tuple(word for word in words if not word.startswith("-"))
    if program == "dirname" and len(words) == 1 and "/" not in words[0] and not is_hidden(words[0]):
        return "."
    if program in ("dirname", "realpath", "readlink") and len(words) == 1:
        return (
            (words[0].rstrip("/").rpartition("/")[0] or "/") if program == "dirname" and "/" in words[0] else words[0]
        )
    if program == "ls":
        return _listed(words)
    if program in ("find", "gfind"):
        named = words[words.index("-name") + 1 : words.index("-name") + 2] if "-name" in words else ()
        if named and not any(sign in named[0] for sign in "*?["):
            return " ".join(f"{root.rstrip('/')}/{named[0]}" for root in find_roots(words))
        return " ".join(found_below(root) for root in find_roots(words))
    if program == "cat" and not words:
        return stdin.text
    if (
        program in _FILTERS
        and stdin.text is not None
        and (program == "tee" or is_hidden(stdin.text) or "*" in stdin.text)
    ):
        return stdin.text
    return None


def _listed(words: tuple[str, ...]) -> str | None:
    """What `ls` prints: names, not paths, for a directory; what it is given where those are files."""
    flags = "".join(word[1:] for word in words if word.startswith("-") and not word.startswith("--"))
    given = [word for word in words if not word.startswith("-")]
    if "d" in flags or any("*" in word or "?" in word for word in given):
        return " ".join(given)
    # Of another directory it prints names that mean something else here, or the one file that it is given.
    return "*" if "l" not in flags and all(word.rstrip("/") in ("", "~", ".", "..") for word in given) else None


def _decoded(text: str) -> str:
    """A text with its escapes read; a NUL, which ends a word for `xargs -0`, as a line end."""
    return (
        ansi_c(text.replace("\\0", "\n") if text.endswith("\\0") or "\\0\\" in text else text) if "\\" in text else text
    )


def _formatted(words: tuple[str, ...]) -> str | None:
    """What `printf` prints, roughly: every conversion takes the next argument as it is."""
    if words[:1] == ("-v",):
        words = words[2:]
    if not words:
        return None
    form, rest = _decoded(words[0]), list(words[1:])
    text = ""
    while True:
        pieces = _CONVERSION.split(form)
        for place, piece in enumerate(pieces):
            if piece == "%%":
                text += "%"
            elif place % 2 == 0:
                text += piece
            elif rest:
                text += _decoded(rest.pop(0)) if piece == "%b" else rest.pop(0)
        if not rest or len(pieces) < 2 or len(text) > MAX_LENGTH:
            return " ".join([text, *rest])
