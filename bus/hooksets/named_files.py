"""The files that a hook's command names, as far as its text shows; their content is part of what the hook does."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # importing it loads the shell parser (100 ms), which reading settings does not need
    from bus.hooks import Hook

_WORD: Final = re.compile(r"[^\s;|&()<>`'\"=]+")
_LEADING_VARIABLE: Final = re.compile(r"(?:\$(?:\w+|\{\w+[^}]*\}))?/")
_OUTPUT: Final = re.compile(r"\d?>{1,2}\|?\s*(?![&\s])[^\s;|&()<>'\"`]+")
_WORD_LIMIT: Final = 10_000
_PACKAGE: Final = ("package.json",)
_MAKE: Final = ("GNUmakefile", "makefile", "Makefile")
_RECIPES: Final[Mapping[str, tuple[str, ...]]] = {
    "make": _MAKE,
    "gmake": _MAKE,
    "just": ("justfile", "Justfile", ".justfile"),
    "npm": _PACKAGE,
    "pnpm": _PACKAGE,
    "yarn": _PACKAGE,
    "bun": _PACKAGE,
}
"""The files with commands that a program runs without their names being given."""
_MANIFEST: Final = ".claude-plugin/plugin.json"


def named_files(hook: Hook, folder: str) -> Iterator[str]:
    """The files that a hook's command could name: its words, from the project, the hook's own folder and that of its file.

    A folder that it names counts as such a place too, as in `cd tools && ./check.sh`.
    """
    root = _root(hook.origin.rpartition(":")[0])
    inside = (folder,) if root == folder or lies_in(root, folder) else (folder, root)
    # `$CLAUDE_PROJECT_DIR/check.sh`, `$(git rev-parse --show-toplevel)/check.sh`: what a path in a project's hook begins
    # with is, as a rule, the project.
    words = [
        plain for word in _words_of(hook) for plain in dict.fromkeys((word, _LEADING_VARIABLE.sub("", word, count=1)))
    ]
    bases = dict.fromkeys((folder, os.path.join(folder, hook.working_dir), root))
    for full in _from(words, (*bases, *filter(os.path.isdir, _from(words, bases)))):
        if any(lies_in(full, folder) for folder in inside):
            yield full


def files_from(hook: Hook, directory: str) -> Iterator[str]:
    """The files that a hook's command names when it runs in a folder: words that are files relative to it."""
    words = [word for word in _words_of(hook) if not os.path.isabs(word)]
    folders = [name for name in _from(words, (directory,)) if os.path.isdir(name)]
    yield from filter(os.path.isfile, _from(words, (directory, *folders)))


def _words_of(hook: Hook) -> list[str]:
    """The words of a command with the files that they stand for: a Makefile for `make check`, a module for `python -m a.b`."""
    words = list(itertools.islice((word for text in (hook.command, *hook.args) for word in _words(text)), _WORD_LIMIT))
    recipes = [name for word in words for name in _RECIPES.get(os.path.basename(word), ())]
    modules = [after.replace(".", "/") for word, after in itertools.pairwise(words) if word == "-m"]
    files = [f"{module}{end}" for module in modules for end in (".py", "/__main__.py")]
    return list(dict.fromkeys((*words, *recipes, *files)))


def _from(words: Iterable[str], bases: Iterable[str]) -> Iterator[str]:
    """Each word as a path from each folder."""
    for word, base in itertools.product(words, bases):
        if "\x00" not in word and len(word) <= 4096:
            yield os.path.normpath(os.path.join(base, word))


@lru_cache(256)
def _root(file: str) -> str:
    """The folder that the commands of a file can be relative to: its plugin's, else its own."""
    folder = Path(os.path.realpath(file)).parent
    return str(next((parent for parent in (folder, *folder.parents[:2]) if (parent / _MANIFEST).is_file()), folder))


def lies_in(path: str, folder: str) -> bool:
    """Whether a path is below a folder."""
    return path.startswith(folder.rstrip("/") + "/")


def _words(command: str) -> Iterator[str]:
    """The words as a shell splits them, then with every quote and operator as a border, for `sh -c '…'`.

    Without those that output goes to: a log that a hook writes is no part of what it does.
    """
    command = _OUTPUT.sub(" ", command)
    with contextlib.suppress(ValueError):  # an open quote
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        yield from lexer
    yield from (match[0] for match in _WORD.finditer(command))
