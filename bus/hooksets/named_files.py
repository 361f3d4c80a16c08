"""Finds the files that a hook's command names or runs, as far as its text shows; their content decides what the hook does.

They are the words of the command that could be files, the scripts that the shell reader finds (`hookfiles/programs.py`), and
the files that these scripts load from the project (`hookfiles/script_loads.py`). A name may also be a pattern (`hooks/*.sh`)
or, with a slash at its end, a folder with all its files: `matched_files` finds the files that it means now.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import logging
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # importing it loads the shell parser (100 ms), which reading settings does not need
    from bus.hooks import Hook

log = logging.getLogger("fleethook.hooks")

MOST_FILES: Final = 500
"""The most files of a pattern or a folder that are pinned, and the most scripts of a hook that are read for their loads."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of all files of a pattern or a folder."""
CACHES: Final = frozenset({"__pycache__", ".git", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache"})

_WORD: Final = re.compile(r"[^\s;|&()<>`'\"=]+")
_LEADING_VARIABLE: Final = re.compile(r"(?:\$(?:\w+|\{\w+[^}]*\}))?/")
_OUTPUT: Final = re.compile(r"\d?>{1,2}\|?\s*(?![&\s])[^\s;|&()<>'\"`]+")
_PATH: Final = re.compile(r"""(?<![\w])PATH=(?:"([^"]*)"|'([^']*)'|([^\s;&|]*))""")
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
"""The files with commands that a program reads although its arguments do not name them, such as a Makefile."""
_MANIFEST: Final = ".claude-plugin/plugin.json"


def named_files(hook: Hook, folder: str) -> Iterator[str]:
    """The files that a hook's command could name.

    Each word is tried as a path from the project, from the hook's working directory, from the folder of its hook file, and
    from folders that the command names, as in `cd tools && ./check.sh`.
    """
    root = _root(hook.origin.rpartition(":")[0])
    inside = (folder,) if root == folder or is_below(root, folder) else (folder, root)
    # A variable at the start of a path usually means the project: `$CLAUDE_PROJECT_DIR/check.sh`,
    # `$(git rev-parse --show-toplevel)/check.sh`.
    words = [
        plain for word in _words_of(hook) for plain in dict.fromkeys((word, _LEADING_VARIABLE.sub("", word, count=1)))
    ]
    bases = dict.fromkeys((folder, os.path.join(folder, hook.working_dir), root))
    named = [
        *_paths_from(words, (*bases, *filter(os.path.isdir, _paths_from(words, bases)))),
        *_run_by(hook, bases, folder),
    ]
    files = [full for full in dict.fromkeys(named) if any(is_below(full, folder) for folder in inside)]
    yield from files
    from bus.hookfiles.script_loads import closure  # with the shell reader, which reading settings does not need

    scripts = [name for full in files for name in matched_files(full) or [full] if os.path.exists(name)]
    loaded, whole = closure(scripts, folder, MOST_FILES)
    if not whole:
        log.warning(
            "%s: hook %r runs more than %d scripts; what the rest of them loads is not pinned",
            hook.origin,
            hook.id,
            MOST_FILES,
        )
    yield from itertools.filterfalse(set(files).__contains__, loaded)


def matched_files(name: str) -> list[str]:
    """The existing files that a name, a pattern or a folder (with a slash at its end) means, sorted; empty if there is none.

    It returns at most MOST_FILES + 1 files, so that a caller sees when there are too many.
    """
    most = MOST_FILES + 1
    if name.endswith("/"):
        found = itertools.islice(_below(name.rstrip("/")), most)
    elif glob.has_magic(name) and not os.path.lexists(name):
        found = itertools.islice(filter(os.path.isfile, glob.iglob(name)), most)
    else:
        return [name] if os.path.isfile(name) else []
    return sorted(found)


def is_many(name: str) -> bool:
    """Whether a name may mean several files."""
    return name.endswith("/") or (glob.has_magic(name) and not os.path.lexists(name))


def _below(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in CACHES)
        yield from (os.path.join(place, name) for name in sorted(files))


def _run_by(hook: Hook, bases: Iterable[str], root: str) -> Iterator[str]:
    """The files that the shell reader finds in a command: paths, patterns, folders, and programs on a PATH in the project."""
    from bus.hookfiles.programs import run_files

    places = [place for base in bases for place in _path_entries(hook, base)]
    for run in run_files(hook.command, hook.args):
        if run.how == "name":
            yield from (os.path.normpath(os.path.join(place, run.word)) for place in places)
            continue
        if not run.word.strip("\0\1"):
            continue
        for base in bases:
            path = run.path(base, root)
            yield f"{path}/" if run.how == "folder" else path


def _path_entries(hook: Hook, base: str) -> Iterator[str]:
    """The folders of every PATH that may hold: the worker's, the one in the hook's `env`, and those set in the command."""
    set_in_command = [match[1] or match[2] or match[3] for match in _PATH.finditer(hook.command)]
    for text in (os.environ.get("PATH", ""), hook.env.get("PATH", ""), *set_in_command):
        for entry in filter(None, text.split(":")):
            plain = _LEADING_VARIABLE.sub("", entry.strip("\"'"), count=1) if entry.startswith("$") else entry
            if "$" not in plain and plain:
                yield os.path.join(base, os.path.expanduser(plain.strip("\"'")))


def files_from(hook: Hook, directory: str) -> Iterator[str]:
    """The files that a hook's command names if it runs in `directory`: its words as paths from there."""
    words = [word for word in _words_of(hook) if not os.path.isabs(word)]
    folders = [name for name in _paths_from(words, (directory,)) if os.path.isdir(name)]
    yield from filter(os.path.isfile, _paths_from(words, (directory, *folders)))
    for name in _run_by(hook, (directory,), directory):
        if is_below(name, directory):
            yield from matched_files(name)


def _words_of(hook: Hook) -> list[str]:
    """The words of a command, and the files that they imply: a Makefile for `make check`, a module for `python -m a.b`."""
    words = list(itertools.islice((word for text in (hook.command, *hook.args) for word in _words(text)), _WORD_LIMIT))
    recipes = [name for word in words for name in _RECIPES.get(os.path.basename(word), ())]
    modules = [after.replace(".", "/") for word, after in itertools.pairwise(words) if word == "-m"]
    files = [f"{module}{end}" for module in modules for end in (".py", "/__main__.py")]
    return list(dict.fromkeys((*words, *recipes, *files)))


def _paths_from(words: Iterable[str], bases: Iterable[str]) -> Iterator[str]:
    """Each word as a path from each folder."""
    for word, base in itertools.product(words, bases):
        if "\x00" not in word and len(word) <= 4096:
            yield os.path.normpath(os.path.join(base, word))


@lru_cache(256)
def _root(file: str) -> str:
    """The folder that commands in a hook file may be relative to: the plugin's folder, else the file's folder."""
    folder = Path(os.path.realpath(file)).parent
    return str(next((parent for parent in (folder, *folder.parents[:2]) if (parent / _MANIFEST).is_file()), folder))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is below a folder."""
    return path.startswith(folder.rstrip("/") + "/")


def _words(command: str) -> Iterator[str]:
    """The words as a shell splits them, and then those between all quotes and operators, for the text in `sh -c '…'`.

    Targets of redirected output are left out: a log that a hook writes does not decide what the hook does.
    """
    command = _OUTPUT.sub(" ", command)
    with contextlib.suppress(ValueError):  # a quote without its end
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        yield from lexer
    yield from (match[0] for match in _WORD.finditer(command))
