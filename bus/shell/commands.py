"""One shell command as a value, and the output of a few harmless programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell.argument_runners import find_roots, found_below
from bus.shell.expansions import ansi_c
from bus.shell.indirect.builtin_outputs import PRINTING_BUILTINS, builtin_output
from bus.shell.inner import RUN_NAMES, names
from bus.shell.programs.filters import AWKS, CLIENTS, REWRITING, listed_by_awk, rewritten
from bus.shell.programs.known_outputs import HAVE_OUTPUT, known_output
from bus.shell.programs.printed_code import CODE, printed_by_code
from bus.shell.programs.searchers import FOUND, SEARCHERS, found_files
from bus.shell.words import MAX_LENGTH, MAYBE_EMPTY, PROJECT, UNKNOWN, UNSET, Output, is_hidden, shown

_FOUND_IN: Final = "/usr/local/bin/"
"""Where `which` finds a program: somewhere outside the project."""
_FILTERS: Final = frozenset({"head", "tail", "sort", "uniq", "grep", "egrep", "tee", "cat"})
_REWRITTEN: Final = REWRITING | CLIENTS | {"grep", "egrep"}
_CONVERSION: Final = lazy_regex(r"(%%|%[-+ #0-9.*]*[a-zA-Z])")
_NO_BACKGROUND: Final = lazy_regex(rb"&&|[<>]&|&>")
_PATTERN: Final = lazy_regex(r"[?*\[]")
_NAMED_BY_PATTERN: Final = ("rm", "sh", "bash", "dd", "find", "shred", "chmod", "chown", "mkfs")
_SPLIT_NAMES: Final = RUN_NAMES | {
    "mkfs",
    "chmod",
    "chown",
    "truncate",
    "unlink",
    "mv",
    "tee",
    "crontab",
    "curl",
    "wget",
    "eval",
}
"""Programs that are also seen in a name with something unknown in it."""
_SQL_FILES: Final = (".sql", ".cql", ".psql", ".pgsql", ".ddl", ".sql.gz", ".sql.xz", ".sql.bz2", ".sql.zst")
"""Files that `cat` gives to a client: written as psql's own `\\i x.sql`."""
_SHOWS: Final = names(
    "cat head tail sed gsed envsubst zcat gunzip gzip xzcat zstdcat bzcat zstd xz bat batcat pv m4 iconv grep egrep tac nl"
)
"""Programs that print what a file has, as far as SQL goes."""
_WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})


class Command(NamedTuple):
    """One simple command as its program would get it."""

    program: str
    """Lower-cased name without its directory; empty for a redirection alone; UNKNOWN where only the shell knows."""
    words: tuple[str, ...] = ()
    """Its arguments; UNKNOWN and UNSET (`bus.shell.words`) mark what is not known; a leading `~` is the home directory."""
    assignments: tuple[tuple[str, str], ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()
    """(operator, target), e.g. `(">", "/dev/sda")`; descriptors and heredocs are left out."""
    piped_from: tuple[str, ...] = ()
    """The programs of the earlier stages of its pipeline."""
    code_from: tuple[str, ...] = ()
    """The programs whose output it runs as code: `curl … | sh`, `bash <(curl …)`, `sh -c "$(curl …)"`."""
    directory: str = "."
    """Its directory, relative to that of the line: `.` until a `cd`; UNKNOWN if it is not known."""
    depth: int = 0
    """How many scripts it was found in: 0 for the line itself, 1 for what its `bash -c` runs."""
    fork_bomb: bool = False
    """It calls the function whose body it is part of, piped into itself or in the background."""
    prompt: bool = False
    """It opens a shell, a REPL or a client that reads what is typed: nothing else is its standard input."""
    stdin: str | None = None
    """Its input from a pipe, heredoc or here-string, if that is known."""
    path: str = ""
    """Its first word as it is written, where that is not just the name in small letters: `./Check.sh`."""

    @property
    def line(self) -> str:
        """Program and arguments with single blanks between them; unknown parts are written `$…`. For patterns and people."""
        return shown(" ".join((self.program, *self.words)))

    @property
    def spoken(self) -> str:
        """The line with its assignments before it and its redirections behind it."""
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
    """All commands of a line, in reading order; a wrapper comes before what it runs."""

    items: tuple[Command, ...] = ()
    truncated: bool = False
    """The budget was used up (`bus.shell.budget`): only a part was read."""
    incomplete: bool = False
    """A part could not be parsed, or was nested too deep, and was read roughly or not at all."""
    marks: frozenset[str] = frozenset()
    """Short facts that most rules can be decided by: its programs, `code from curl`, `fork bomb` (`marks`)."""
    stopped: str = ""
    """Why reading stopped before the end, in words that follow "the command": "it runs more than 2000 commands"."""
    unread: frozenset[str] = frozenset()
    """The raw names (`bus.shell.parsing`) in what was not read; of the whole line where reading stopped before the end."""

    @property
    def text(self) -> str:
        """A line for each command with its assignments and redirections, without quotes; unknown parts are written `$…`."""
        return "\n".join([one.spoken for one in self.items])


FORK_BOMB: Final = "fork bomb"
CHANGES: Final = "changes files"
PROMPT: Final = "prompt"


def marks(items: Iterable[Command]) -> frozenset[str]:
    """The marks of these commands (`Commands.marks`): what a rule can look up by name."""
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
    """Whether a program's pattern is the mark of a family, such as `mkfs.*`. `mkfs.ext4` has that mark and its own."""
    stem = pattern.removesuffix(".*")
    return stem != pattern and stem.replace("-", "").replace("_", "").isalnum()


_SILENT: Final = lazy_regex(r"[\s({]*(?::|true|false)?[\s;})]*")


def is_silent(source: str) -> bool:
    """Whether the source of a compound statement runs nothing that could print: `{ :; }`, `( true )`."""
    return _SILENT.fullmatch(source) is not None


def read_own_output(items: list[Command], first: int) -> None:
    """Note in a pipeline's last command where it empties a file that an earlier stage reads: `sort f | uniq > f`.

    The stages begin at the index `first`.
    """
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
    """Whether the function `name`, whose body runs `items`, calls itself in a pipe or more than once in the background."""
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
        if UNKNOWN in name and (plain := name.replace(UNKNOWN, "").replace(MAYBE_EMPTY, "").lower()) in _SPLIT_NAMES:
            return plain  # `r$@m`
        return UNKNOWN if is_hidden(name) or not name else name.lower()
    name = text.rstrip("/").rpartition("/")[2].lower().removesuffix(".exe")
    if not name.isascii() or name.replace("-", "").replace("_", "").isalnum():
        return name
    if "/" in text and _PATTERN.search(name):  # `/bin/r?`
        return next((one for one in _NAMED_BY_PATTERN if fnmatchcase(one, name)), name)
    return name[1:] if name[:1] == "=" else name  # zsh: `=rm` is the path of rm


_FILES_OF: Final = SEARCHERS | _SHOWS
PRINTING: Final = (
    _FILTERS
    | {
        "echo",
        "printf",
        "yes",
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
    | AWKS
    | PRINTING_BUILTINS
    | CODE
    | HAVE_OUTPUT
    | REWRITING
    | CLIENTS
    | SEARCHERS
    | _SHOWS
)
"""The programs whose output `printed` may know."""


def printed(program: str, words: tuple[str, ...], stdin: Output) -> str | None:
    """The output of a few harmless programs; None if it is not known."""
    if program not in PRINTING:
        return None
    if program in HAVE_OUTPUT and (output := known_output(program, words)) is not None:
        return output
    if program in PRINTING_BUILTINS:
        return builtin_output(program, words, stdin.text)
    if program in AWKS:
        return listed_by_awk(words)
    if stdin.text is None and program in _FILES_OF and words:
        if program in _SHOWS and words[-1].endswith(_SQL_FILES):
            return f"\\i {words[-1]}"
        if program in SEARCHERS and (listed := found_files(program, words)) is not None:
            return listed
    if program in _REWRITTEN and (stdin.text is None or program not in _FILTERS):
        return rewritten(program, words, stdin.text)
    if stdin.text is None and program in _FILTERS:  # as in most pipelines
        if program in ("cat", "head", "tail") and words[-1:] == ("/dev/null",):
            return ""
        return None
    if program in CODE:
        return printed_by_code(program, words)
    if program == "echo":
        escapes = bool(words) and words[0] in ("-e", "-ne", "-en")
        text = " ".join(words[1:] if words and words[0] in ("-n", "-e", "-E", "-ne", "-en") else words)
        return _decoded(text) if escapes or "\\n" in text else text
    if program == "yes":
        return " ".join(words) or "y"
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
        return words[-1] if "/" in words[-1] else f"{_FOUND_IN}{words[-1]}"
    if program in ("realpath", "readlink"):
        words = tuple(word for word in words if not word.startswith("-"))
    if program == "dirname":
        return " ".join(map(_parent, words)) or None
    if program in ("realpath", "readlink") and len(words) == 1:
        return words[0]
    if program == "ls":
        return _listed(words)
    if program in ("find", "gfind"):
        named = words[words.index("-name") + 1 : words.index("-name") + 2] if "-name" in words else ()
        if named and not any(sign in named[0] for sign in "*?["):
            return " ".join(f"{root.rstrip('/')}/{named[0]}" for root in find_roots(words))
        return " ".join(found_below(root) for root in find_roots(words))
    if program == "cat" and not words:
        return stdin.text
    if program in ("grep", "egrep") and stdin.text == "*" and any(word[:1] == "-" and "v" in word for word in words):
        return f"* ./{FOUND}/{UNKNOWN}"  # all but what is named
    return stdin.text if program in _FILTERS else None  # at most this


def _parent(path: str) -> str:
    """What `dirname` prints for a path."""
    if "/" in path:
        return path.rstrip("/").rpartition("/")[0] or "/"
    return path if is_hidden(path) else "."


def included(program: str, redirects: Sequence[tuple[str, str]]) -> str | None:
    """What a program prints that reads a file of SQL from its input: `envsubst < x.sql`."""
    if program in _SHOWS:
        for sign, target in redirects:
            if sign == "<" and target.endswith(_SQL_FILES):
                return f"\\i {target}"
    return None


def _listed(words: tuple[str, ...]) -> str | None:
    """The output of `ls`: names (not paths) for a directory, its arguments for files."""
    flags = "".join(word[1:] for word in words if word.startswith("-") and not word.startswith("--"))
    given = [word for word in words if not word.startswith("-")]
    if "d" in flags or any("*" in word or "?" in word for word in given):
        return " ".join(given)
    # For another directory `ls` prints names that mean something else here; for a file it prints that file.
    return "*" if "l" not in flags and all(word.rstrip("/") in ("", "~", ".", "..") for word in given) else None


def _decoded(text: str) -> str:
    """A text with its escapes read; a NUL, which ends a word for `xargs -0`, as a line end."""
    return (
        ansi_c(text.replace("\\0", "\n") if text.endswith("\\0") or "\\0\\" in text else text) if "\\" in text else text
    )


def _formatted(words: tuple[str, ...]) -> str | None:
    """Roughly the output of `printf`: every conversion takes the next argument as it is."""
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
