"""Finds the branch that is checked out in a directory of this machine. Git itself is not run."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Final

from bus.matching.paths import Place, located
from bus.shell.commands import Command

_REMEMBER_SECONDS: Final = 2
_MOST_CHARACTERS: Final = 4096
_BRANCH: Final = "ref: refs/heads/"
_MARK: Final = "\0branch"
"""Ends the key of a look-up, so that it is none for a path: no path has such a character."""
_POINTER: Final = "gitdir:"


def branch_of(command: Command, place: Place) -> str:
    """The branch on which a git command works; empty if none is checked out, or if it is not known.

    Only the disk of the event's own host tells it. `-C` is followed; `--git-dir` and `--work-tree` are not.
    """
    if not place.here:
        return ""
    word, words = command.directory, command.words
    for number, option in enumerate(words):
        if option == "-C" and number + 1 < len(words):
            word = words[number + 1] if words[number + 1][:1] in "/~" else f"{word}/{words[number + 1]}"
        elif option.startswith(("--git-dir", "--work-tree")):
            return ""
        elif option[:1] != "-":
            break
    directory = located(word, place)
    if directory is None or "$…" in directory:
        return ""
    key = f"{directory}{_MARK}"
    return _look(key) if place.disk is None else place.disk.look_up(key, _look)


def _look(key: str) -> str:
    return _branch(key.removesuffix(_MARK), int(monotonic()) // _REMEMBER_SECONDS)


@lru_cache(maxsize=64)
def _branch(directory: str, _when: int) -> str:
    for folder in (Path(directory), *Path(directory).parents):
        git = folder / ".git"
        try:
            if git.is_file():  # a worktree or a submodule
                pointer = _read(git).strip()
                git = folder / pointer.removeprefix(_POINTER).strip() if pointer.startswith(_POINTER) else git
            if git.is_dir():
                head = _read(git / "HEAD").strip()
                return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""
        except (OSError, ValueError):
            return ""
    return ""


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_CHARACTERS)
