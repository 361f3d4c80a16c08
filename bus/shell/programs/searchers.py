"""The lists of files that searchers print: `rg -l x`, `grep -rl x src`, `git ls-files`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bus.shell.inner import names
from bus.shell.words import UNKNOWN

FOUND: Final = ".found-by-search"
"""A made-up folder: the files in a list of this kind are below it, so that rules can name them."""
SEARCHERS: Final = names("rg ag ack grep egrep fgrep zgrep ugrep git")
_SHORT: Final = frozenset("lL")
_LONG: Final = names(
    "--files-with-matches --files-without-match --files --files-with-match --name-only --files-without-matches"
)
_VALUES: Final = names(
    "-e -f -g -t -T -m -A -B -C --glob --type --include --exclude --exclude-dir --max-depth --regexp"
)
_GIT_LISTS: Final = names("ls-files diff ls-tree show log diff-tree diff-index")


def found_files(program: str, words: Sequence[str]) -> str | None:
    """The output of a searcher that lists files, as a made-up path in each place where it searches; else None."""
    if program == "git":
        return _git(words)
    if not any(word in _LONG or _has_letter(word) for word in words):
        return None
    operands = [
        word for place, word in enumerate(words) if word[:1] != "-" and (place == 0 or words[place - 1] not in _VALUES)
    ]
    has_pattern = program != "rg" or "--files" not in words
    roots = operands[1:] if has_pattern and not {"-e", "-f", "--regexp"}.intersection(words) else operands
    return " ".join(f"{root.rstrip('/')}/{FOUND}/{UNKNOWN}" for root in roots or ["."])


def _has_letter(word: str) -> bool:
    return word[:1] == "-" and word[1:2] != "-" and not _SHORT.isdisjoint(word)


def _git(words: Sequence[str]) -> str | None:
    """The files that `git ls-files`, `git grep -l` and `git diff --name-only` list; those already deleted are none."""
    options = [word for word in words if word[:1] == "-"]
    verb = next((word for word in words if word in _GIT_LISTS or word == "grep"), "")
    if verb == "ls-files":
        listed = not {"-d", "--deleted"}.intersection(options)
    elif verb == "grep":
        listed = any(word in _LONG or _has_letter(word) for word in options)
    else:
        listed = verb != "" and "--name-only" in options and not any("=D" in word for word in options)
    return f"./{FOUND}/{UNKNOWN}" if listed else None
