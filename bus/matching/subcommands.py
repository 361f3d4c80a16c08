"""Which subcommand a command is: its words that are no options, whatever options come between them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from bus.matching.globs import compile_text_glob, literal_of
from bus.matching.needles import Needles, any_of, best_of, needles_in_literals
from bus.shell.commands import Command

_VALUES: Final[dict[str, frozenset[str]]] = {
    "git": frozenset(["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"]),
}
"""Programs all of whose options before the subcommand are known: those that take the next argument."""


_GLOB: Final = re.compile(r"[*?[]")


def compile_subcommands(texts: tuple[str, ...]) -> Callable[[Command], bool]:
    """Whether a command's first words that are no options are those of any of `texts`: `push`, `delete ns|ns/*`.

    A word behind an option that is not known counts as its value and as a word of its own.
    """
    wanted = tuple(tuple(compile_alternative_words(word) for word in one.split()) for one in texts)
    plain = frozenset(text for one in texts if not _GLOB.search(one) for text in one.split()[0].split("|"))
    rest = tuple(one for one, text in zip(wanted, texts, strict=True) if _GLOB.search(text))

    def fits(command: Command) -> bool:
        words = _verbs(command.program, command.words)
        if any(_begins(words, one) for one in rest):
            return True
        for word, optional in words:
            if word in plain:
                return any(_begins(words, one) for one in wanted)
            if not optional:
                return False
        return False

    return fits


def first_words(texts: tuple[str, ...]) -> frozenset[str]:
    """The words of which a command has one wherever it is any of the subcommands `texts`; empty where they cannot be listed."""
    listed = texts and not any(_GLOB.search(text.split()[0]) for text in texts)
    return frozenset(word for text in texts for word in text.split()[0].split("|")) if listed else frozenset()


def subcommand_needles(texts: tuple[str, ...]) -> Needles:
    """What a command line holds wherever it is any of these subcommands, beside `first_words`; empty where nothing is known."""
    first = 1 if first_words(texts) else 0
    ways = [[needles_in_literals(map(literal_of, word.split("|"))) for word in text.split()[first:]] for text in texts]
    return any_of([best_of(way) for way in ways])


def compile_alternative_words(word: str) -> Callable[[str], bool]:
    """A matcher for one word: `delete`, `ns|namespace`, `delete-*|rm`."""
    if not _GLOB.search(word):
        return frozenset(word.split("|")).__contains__
    globs = tuple(compile_text_glob(one) for one in word.split("|"))
    return globs[0] if len(globs) == 1 else lambda text: any(fits(text) for fits in globs)


@lru_cache(maxsize=1024)
def _verbs(program: str, words: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """The words that are no options, and whether each may be the value of the option before it."""
    values = _VALUES.get(program)
    found: list[tuple[str, bool]] = []
    option = ""
    for word in words:
        if word.startswith("-") and len(word) > 1:
            option = "" if "=" in word else word
            continue
        if values is None:
            found.append((word, option != ""))
        elif found or option not in values:
            found.append((word, False))
        option = ""
    return tuple(found[:8])


def _begins(words: tuple[tuple[str, bool], ...], wanted: tuple[Callable[[str], bool], ...]) -> bool:
    """Whether `words` begin with `wanted`, any value of an option left out or counted."""
    if not wanted:
        return True
    if not words:
        return False
    (word, optional), rest = words[0], words[1:]
    return (wanted[0](word) and _begins(rest, wanted[1:])) or (optional and _begins(rest, wanted))
