"""What one command line shares over all its scripts while it is read, and what surrounds one command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bus.shell.budget import Budget
from bus.shell.commands import Command
from bus.shell.files import Files
from bus.shell.words import Output

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node

_MAX_NODES_DEEP: Final = 120
"""How deep syntax may nest before the rest is left out; Python's own stack ends not far beyond it."""

NOTHING: Final = Output()


class Found:
    """What one line shares over all its scripts: the commands so far, the functions, and how deep the reader is."""

    __slots__ = (
        "aliases", "budget", "depth", "files", "functions", "incomplete", "items", "redirected", "too_deep", "unread",
    )  # fmt: skip

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.items: list[Command] = []
        self.functions: dict[str, tuple[bytes, Node]] = {}
        """By name, the source that each was found in, and its body."""
        self.aliases: dict[str, str] = {}
        self.files = Files()
        self.redirected = False
        """A command so far has a redirection."""
        self.incomplete = False
        self.unread: set[str] = set()
        """The raw names (`bus.shell.raw`) of the parts that could not be parsed."""
        self.depth = 0
        self.too_deep = False

    @property
    def reads_files(self) -> bool:
        """Whether a command of the line may read what an earlier one, or the network, has put into a file."""
        files = self.files
        return bool(self.redirected or files.sources or files.texts or files.socket)

    def may_go_on(self) -> bool:
        """Whether the budget and Python's stack allow to read a further part."""
        if self.depth > _MAX_NODES_DEEP:
            self.too_deep = True
        return not self.too_deep and not self.budget.stopped


class Call(NamedTuple):
    """What surrounds the words of a simple command."""

    stdin: Output = NOTHING
    assignments: tuple[tuple[str, str], ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()
    piped_from: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether its standard input is a pipe, a file or a text of the line."""
        return bool(self.piped_from) or self.stdin != NOTHING or any(sign == "<" for sign, _ in self.redirects)


def together(texts: list[str | None]) -> str | None:
    """What several statements print one after the other; None where one of them cannot be told."""
    known = [text for text in texts if text is not None]
    return "\n".join(text for text in known if text) if known and len(known) == len(texts) else None
