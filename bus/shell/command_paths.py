"""Which paths a command is given, and which of them it changes."""

from __future__ import annotations

from typing import Final

from bus.shell.argument_runners import find_roots
from bus.shell.commands import Command
from bus.shell.programs.outputs import OUTPUTS, git_writes, value_of

_VALUES: Final[dict[str, frozenset[str]]] = {
    "chmod": frozenset({"--reference"}),
    "chown": frozenset({"--reference", "--from"}),
    "cp": frozenset({"-t", "--target-directory", "-S", "--suffix"}),
    "mv": frozenset({"-t", "--target-directory", "-S", "--suffix"}),
    "ln": frozenset({"-t", "--target-directory", "-S", "--suffix"}),
    "install": frozenset({"-t", "--target-directory", "-m", "--mode", "-o", "--owner", "-g", "--group", "-S"}),
    "rsync": frozenset({"-e", "--rsh", "--exclude", "--include", "--exclude-from", "-f", "--filter"}),
    "shred": frozenset({"-n", "--iterations", "-s", "--size"}),
    "truncate": frozenset({"-s", "--size", "-r", "--reference"}),
    "touch": frozenset({"-d", "--date", "-r", "--reference", "-t"}),
    "sed": frozenset({"-e", "--expression", "-f", "--file"}),
    "perl": frozenset({"-e", "-E"}),
}
"""Options that take the next argument, by program."""

_NO_VALUES: Final[frozenset[str]] = frozenset()
_SKIPPED: Final = {"chmod": 1, "chown": 1, "chgrp": 1}
"""Operands before the paths: a mode, an owner."""

_CHANGE_ALL: Final = frozenset(
    [
        "rm",
        "rmdir",
        "unlink",
        "shred",
        "srm",
        "trash",
        "touch",
        "truncate",
        "tee",
        "sponge",
        "mkdir",
        "chmod",
        "chown",
        "chgrp",
        "wipefs",
        "mkfifo",
    ]
)
_CHANGE_LAST: Final = frozenset(["cp", "install", "ln", "rsync", "scp"])
CHANGING: Final = (
    _CHANGE_ALL | _CHANGE_LAST | {"mv", "dd", "sed", "gsed", "perl", "curl", "wget", "git"} | OUTPUTS.keys()
)
"""The programs whose changed paths are known."""
UNLINKING: Final = frozenset(["rm", "rmdir", "unlink", "mv", "srm", "trash", "ln"])
"""Programs that act on a symbolic link itself, not on what it points to."""


def operands(command: Command) -> tuple[str, ...]:
    """The paths among a command's arguments: without options, their values, and such as the mode of chmod."""
    if command.program in ("find", "gfind"):
        return find_roots(command.words)
    values = _VALUES.get(command.program, _NO_VALUES)
    skip = _SKIPPED.get(command.program, 0)
    if skip and _refers(command):
        skip = 0
    found: list[str] = []
    words = iter(command.words)
    for word in words:
        if word == "--":
            found.extend(words)
        elif word[:1] == "-" and word != "-":
            if command.program == "chmod" and word[1:2] in ("r", "w", "x", "X", "s", "t"):
                skip = 0  # `chmod -w file`: the mode itself
            elif word in values:
                next(words, None)
        elif skip:
            skip -= 1
        else:
            found.append(word)
    return tuple(found)


def changed(command: Command, given: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """The paths that a command writes, replaces or removes, as far as its program is known; redirections included.

    `given` are its `operands`, where these are known already.
    """
    program, own = command.program, command.writes if command.redirects else ()
    if program not in CHANGING:
        return own
    if program == "git":
        return own + git_writes(command.words, command.directory)
    if program == "go":
        bins = tuple(f"{value}/built" for name, value in command.assignments if name == "GOBIN")
        return own + bins + OUTPUTS[program](command.words)
    if program in OUTPUTS:
        return own + OUTPUTS[program](command.words)
    if program in _CHANGE_LAST or program == "mv":
        given = operands(command) if given is None else given
        into = value_of(command.words, "-t", "--target-directory")
        sources, target = (given, into) if into else (given[:-1], given[-1] if given else "")
        if program == "rsync":  # `a/` is what the directory contains, which goes into the target itself
            sources = tuple(one for one in sources if one[-1:] != "/")
        # Where the target is a directory, the file in it is what changes.
        inside = tuple(f"{target}/{one.rstrip('/').rpartition('/')[2]}" for one in sources if target)
        return own + ((target,) if target else ()) + inside + (sources if program == "mv" else ())
    if program == "wipefs" and not any(word[:2] in ("-a", "-o", "-f", "--") for word in command.words):
        return own  # it only lists
    if program in _CHANGE_ALL:
        return own + (operands(command) if given is None else given)
    if program == "dd":
        return own + tuple(word[3:] for word in command.words if word.startswith("of="))
    if program in ("sed", "gsed", "perl"):
        if not any(word.startswith(("-i", "--in-place", "-pi", "-ni")) for word in command.words):
            return own
        scripted = any(word in ("-e", "-f", "--expression", "-pe", "-E") for word in command.words)
        return own + operands(command)[0 if scripted or program == "perl" else 1 :]
    if program == "curl":
        into = value_of(command.words, "-o", "--output", clustered=True)
        folder = value_of(command.words, "--output-dir", "--output-dir")
        return own + _downloaded(into, folder, any(map(_is_remote_name, command.words)))
    if program == "wget":
        into = value_of(command.words, "-O", "--output-document", clustered=True)
        folder = value_of(command.words, "-P", "--directory-prefix")
        return own + _downloaded(into, folder, command.directory != "." and "--spider" not in command.words)
    return own


def _downloaded(file: str, folder: str, is_named_by_url: bool) -> tuple[str, ...]:
    """The file that a download writes; a made-up one in its folder where the address gives the name."""
    if file:
        return (f"{folder.rstrip('/')}/{file}" if folder else file,)
    return (f"{folder.rstrip('/') or '.'}/downloaded",) if folder or is_named_by_url else ()


def _is_remote_name(word: str) -> bool:
    return word[:1] == "-" and (word[:13] == "--remote-name" or (word[1:].isalpha() and "O" in word))


def _refers(command: Command) -> bool:
    return "--reference" in " ".join(command.words) and any(word.startswith("--reference") for word in command.words)
