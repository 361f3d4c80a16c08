"""Finds out whether a command would destroy work of a person, on the disk of the event's host. In doubt, the answer is yes."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from time import monotonic
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.matching.facts.kinds import Lost
from bus.matching.paths import Place, is_outside, located, within
from bus.shell.command_paths import changed
from bus.shell.commands import Command

_GIT_SECONDS: Final = 0.3
_REMEMBER_SECONDS: Final = 2
_EMPTYING: Final = frozenset({">", ">|", "&>", ">&"})
_SAFE: Final = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "protocol.allow=never",
    "-c",
    "core.untrackedCache=false",
    "--no-pager",
)
_FILTER: Final = lazy_regex(r"(filter\..+)\.(?:clean|process|required)")


def loses(what: Lost, command: Command, place: Place) -> bool:
    """Whether `command` would destroy such work; True if that cannot be found out.

    Git has a time limit of 0.3 s and runs nothing that the repository names: no hook, monitor, filter or pager.
    """
    directory = located(command.directory, place) if place.here else None
    if directory is None or not os.path.isdir(directory):
        return what != "contents" or any(_is_kept(word, place, command) for word in _emptied(command))
    if what == "contents":
        return any(_holds_something(word, place, command) for word in _emptied(command))
    if place.disk is not None:
        place.disk.wait()
    ignored = what == "untracked" and any(
        word[:1] == "-" and word[:2] != "--" and ("x" in word or "X" in word) for word in command.words
    )
    chosen = _git_directory(command, place, directory)
    return chosen is None or _differs(chosen, what, ignored, _paths(command), int(monotonic()) // _REMEMBER_SECONDS)


def _emptied(command: Command) -> tuple[str, ...]:
    redirected = tuple(target for operator, target in command.redirects if operator in _EMPTYING)
    return redirected + changed(command)[len(command.writes) :]


def _is_kept(word: str, place: Place, command: Command) -> bool:
    """Whether a path counts: it is no harmless device and not below a directory for temporary files."""
    path = located(word, place, command.directory)
    return path is None or within(path, place.project) or is_outside(path, place)


def _holds_something(word: str, place: Place, command: Command) -> bool:
    path = located(word, place, command.directory)
    if path is None:
        return True
    if not _is_kept(word, place, command):
        return False
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "$…" in path or any(sign in path for sign in "*?[")
    except (OSError, ValueError):
        return True
    return status.st_size > 0 and os.path.isfile(path)


def _git_directory(command: Command, place: Place, directory: str) -> str | None:
    """The directory in which git works: `-C` is followed. None if other options choose it."""
    words = command.words
    for number, word in enumerate(words):
        if word.startswith(("--git-dir", "--work-tree")):
            return None
        if word == "-C" and number + 1 < len(words):
            found = located(words[number + 1], place, command.directory)
            return found if found is not None and os.path.isdir(found) else None
        if not word.startswith("-"):
            break
    return directory


def _paths(command: Command) -> tuple[str, ...]:
    """The paths after `--`; empty for all paths."""
    words = command.words
    return words[words.index("--") + 1 :] if "--" in words else ()


@lru_cache(maxsize=64)
def _differs(directory: str, what: Lost, ignored: bool, paths: tuple[str, ...], _when: int) -> bool:
    filters = _git(directory, "config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    if filters is None:
        return True
    names = {found[1] for key in filters.split("\0") if (found := _FILTER.fullmatch(key))}
    unfiltered = [
        part
        for name in sorted(names)
        for end in ("clean=", "process=", "required=false")
        for part in ("-c", f"{name}.{end}")
    ]
    shown = ("--untracked-files=no",) if what == "uncommitted" else ("--untracked-files=normal",)
    more = ("--ignored",) if ignored else ()
    status = _git(
        directory, *unfiltered, "status", "--porcelain=v1", "-z", "--ignore-submodules=all", *shown, *more, "--", *paths
    )
    if status is None:
        return True
    lines = [line for line in status.split("\0") if line]
    return bool(lines) if what == "uncommitted" else any(line.startswith(("??", "!!")) for line in lines)


def _git(directory: str, *words: str) -> str | None:
    """The output of git; None if it fails or takes too long. `git config` exits with 1 if it finds nothing."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LANG": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
    try:
        done = subprocess.run(
            ["git", *_SAFE, *words],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    fine = done.returncode == 0 or (words[0] == "config" and done.returncode == 1)
    return done.stdout.decode("utf-8", "replace") if fine else None
