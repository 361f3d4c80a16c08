"""What a command runs that its own line has made before: an alias, a script, a download."""

from __future__ import annotations

from bus.shell.commands import Command
from bus.shell.found import Found
from bus.shell.inner import Inner
from bus.shell.interpreters import find_interpreter
from bus.shell.words import Output


def scripts_made(found: Found, command: Command, word: str, inside: tuple[str, ...]) -> list[Inner]:
    """The scripts of this line that a command runs; `word` is its first word, `inside` the aliases that are being read."""
    if not found.aliases and not found.files and not command.redirects:
        return []  # as most lines are
    made: list[Inner] = []
    if word in found.aliases and word not in inside:
        made.append(Inner(script=" ".join((found.aliases[word], *command.words)), alias=word))
    text, sources = found.files.script_of(command, word)
    if sources:
        made.append(Inner(sources=sources))
    interpreter = find_interpreter(command.program)
    if text is not None and interpreter is not None:
        made += interpreter((), Output(text))
    elif text is not None:
        made.append(Inner(script=text, parameters=(word, *command.words)))
    return made
