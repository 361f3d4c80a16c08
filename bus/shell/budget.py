"""How much of a command line is read: characters, words, commands, nested scripts, and the time to parse it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class LineLimits(NamedTuple):
    """The limits for one line with all its nested scripts."""

    length: int
    """Characters of the line."""
    nested: int
    """Characters of all scripts in scripts."""
    commands: int
    words: int
    """Arguments of all commands, after braces, variables and lists are expanded."""
    word: int
    """Words that one word may become."""
    text: int
    """Characters of all words that are made of others: by braces, variables, `$(…)`."""
    parse_seconds: float


FULL: Final = LineLimits(
    length=256 * 1024,
    nested=256 * 1024,
    commands=2000,
    words=16_384,
    word=1024,
    text=4 * 1024 * 1024,
    parse_seconds=0.1,
)
LIGHT: Final = LineLimits(
    length=8 * 1024,
    nested=16 * 1024,
    commands=64,
    words=256,
    word=64,
    text=32 * 1024,
    parse_seconds=0.004,
)
"""The limits for an event loop that others wait for: a few milliseconds at most, and far above ordinary lines."""


class Budget:
    """The rest of the limits while one line is read; `stopped` says in words which limit was reached first."""

    __slots__ = ("commands", "limits", "nested", "stopped", "text", "words")

    def __init__(self, limits: LineLimits) -> None:
        self.limits = limits
        self.commands = self.words = self.nested = self.text = 0
        self.stopped = ""

    def stop(self, why: str) -> None:
        """Note why reading ends here; the first reason counts."""
        self.stopped = self.stopped or why

    def take_command(self, words: int) -> bool:
        """Whether one more command with so many words may be read."""
        self.commands += 1
        self.words += words
        if self.commands > self.limits.commands:
            self.stop(f"it runs more than {self.limits.commands} commands")
        elif self.words > self.limits.words:
            self.stop(f"its commands have more than {self.limits.words} words")
        return not self.stopped

    def take_script(self, length: int) -> bool:
        """Whether a nested script of so many characters may be read."""
        self.nested += length
        if self.nested > self.limits.nested:
            self.stop(f"the scripts in it have more than {self.limits.nested} characters")
        return not self.stopped

    def take_text(self, length: int) -> bool:
        """Whether words of so many characters may be made."""
        self.text += length
        if self.text > self.limits.text:
            self.stop(f"its words become more than {self.limits.text} characters")
        return not self.stopped

    def cut(self, words: Sequence[str]) -> Sequence[str]:
        """At most as many words as one word may become; more of them stop the reading."""
        self.take_text(sum(map(len, words)))
        if len(words) <= self.limits.word:
            return words
        self.stop(f"a word of it becomes more than {self.limits.word} words")
        return words[: self.limits.word]
