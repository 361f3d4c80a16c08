"""Finds the subcommand of a command: its words that are not options, wherever options come between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.matching.globs import compile_text_glob, literal_of
from bus.matching.needles import Needles, any_of, best_of, needles_in_literals
from bus.shell.commands import Command

_VALUES: Final[dict[str, frozenset[str]]] = {
    "git": frozenset(["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"]),
}
"""Programs whose options before the subcommand are all known: for each, the options that take the next argument."""


_GIT_COMMANDS: Final = frozenset(
    (
        *("add", "am", "apply", "archive", "bisect", "blame", "branch", "bundle", "checkout", "cherry-pick"),
        *(
            "clean",
            "clone",
            "commit",
            "config",
            "credential",
            "describe",
            "diff",
            "fetch",
            "filter-branch",
            "filter-repo",
        ),
        *("gc", "init", "lfs", "log", "ls-files", "ls-remote", "merge", "mv", "notes", "pull"),
        *("push", "rebase", "reflog", "remote", "replace", "reset", "restore", "rev-list", "rev-parse", "revert"),
        *("rm", "show", "sparse-checkout", "stash", "status", "submodule", "subtree", "svn", "switch", "symbolic-ref"),
        *("tag", "update-index", "update-ref", "worktree"),
    )
)
_MOST_VERBS: Final = 8
_MOST_WORDS: Final = 64
_GLOB: Final = lazy_regex(r"[*?[]")


Verbs = tuple[tuple[str, bool], ...]
"""The words of a command that are not options, each with whether it may be the value of the option before it."""
_Words = tuple[Callable[[str], bool], ...]


def compile_subcommands(texts: tuple[str, ...]) -> Callable[[Verbs], bool]:
    """A matcher: whether a command has one of the subcommands `texts`, such as `push` or `delete ns|ns/*`.

    A word behind an unknown option counts as the option's value and as a word of its own.
    """
    by_first: dict[str, tuple[_Words, ...]] = {}
    others: list[_Words] = []
    for text in texts:
        first, *more = text.split()
        rest = tuple(map(compile_alternative_words, more))
        if _GLOB.search(first):
            others.append((compile_alternative_words(first), *rest))
        else:
            for word in first.split("|"):
                by_first[word] = (*by_first.get(word, ()), rest)

    def fits(verbs: Verbs) -> bool:
        for place, (word, is_optional) in enumerate(verbs, 1):
            for rest in by_first.get(word, ()):
                if not rest or _begins(verbs[place:], rest):
                    return True
            if not is_optional:
                break
        return bool(others) and any(_begins(verbs, words) for words in others)

    return fits


def first_words(texts: tuple[str, ...]) -> frozenset[str]:
    """The possible first words of the subcommands `texts`; empty if they cannot be listed."""
    listed = texts and not any(_GLOB.search(text.split()[0]) for text in texts)
    return frozenset(word for text in texts for word in text.split()[0].split("|")) if listed else frozenset()


def subcommand_needles(texts: tuple[str, ...]) -> Needles:
    """Needles that every line with one of these subcommands contains besides `first_words`; empty if none are known."""
    first = 1 if first_words(texts) else 0
    ways = [[needles_in_literals(map(literal_of, word.split("|"))) for word in text.split()[first:]] for text in texts]
    return any_of([best_of(way) for way in ways])


def compile_alternative_words(word: str) -> Callable[[str], bool]:
    """A matcher for one word: `delete`, `ns|namespace`, `delete-*|rm`."""
    if not _GLOB.search(word):
        return frozenset(word.split("|")).__contains__
    exact = frozenset(alternative for alternative in word.split("|") if not _GLOB.search(alternative))
    globs = tuple(compile_text_glob(alternative) for alternative in word.split("|") if alternative not in exact)
    if len(globs) == 1 and not exact:
        return globs[0]

    def fits(text: str) -> bool:
        if text in exact:
            return True
        for glob in globs:  # noqa: SIM110  (a generator for `any` takes three times as long)
            if glob(text):
                return True
        return False

    return fits


def verbs_of(command: Command) -> Verbs:
    """The first words of a command that are not options.

    At most eight, and besides them those that may be the value of an option.
    """
    values = _VALUES.get(command.program)
    found: list[tuple[str, bool]] = []
    option, several, sure = "", False, 0
    for word in command.words:
        if word[:1] == "-" and len(word) > 1:
            option = "" if "=" in word else word
            continue
        if values is None:
            found.append((word, option != ""))
        elif option in values and not found:
            several = True
        elif found or not several or word in _GIT_COMMANDS or not _GIT_COMMANDS.intersection(command.words):
            found.append((word, False))  # the value of `-C "$each"` in a loop is every word that the loop goes through
        sure += bool(found) and not found[-1][1]
        if sure == _MOST_VERBS or len(found) == _MOST_WORDS:
            break
        option = ""
    return tuple(found)


def _begins(verbs: Verbs, wanted: _Words) -> bool:
    """Whether `verbs` begin with `wanted`. The value of an option may be left out or count as a word."""
    if not wanted:
        return True
    if not verbs:
        return False
    (word, is_optional), rest = verbs[0], verbs[1:]
    return (wanted[0](word) and _begins(rest, wanted[1:])) or (is_optional and _begins(rest, wanted))
