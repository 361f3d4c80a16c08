"""Commands inside commands: the value `Inner` that describes one, and how the arguments of a wrapper are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell.words import Output


class Arg(NamedTuple):
    """One argument as the program gets it, and the programs whose output is part of it."""

    text: str
    sources: tuple[str, ...] = ()


_new: Final = tuple.__new__


def args_of(words: Iterable[str]) -> list[Arg]:
    """Words as arguments without sources; takes a third of the time of `map(Arg, words)`."""
    return [_new(Arg, (text, ())) for text in words]


class Inner(NamedTuple):
    """A command inside a command: its arguments, or the text of a script; `sources` are the programs that wrote the script."""

    argv: tuple[Arg, ...] = ()
    script: str | None = None
    sources: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """The values of `$0`, `$1` … in the script."""
    remote: bool = False
    """Whether it runs on another machine, in the home directory there."""
    directory: str = ""
    """Where it runs, if elsewhere than its wrapper: `env -C /`."""
    assignments: tuple[tuple[str, str], ...] = ()
    """Variables that its wrapper sets: `env X=y bash -c …`."""
    alias: str = ""
    """The alias whose text the script is; empty without one."""
    unread: tuple[str, ...] = ()
    """Set where the rest was too much to be read: the programs that may be in it, besides the words of the line."""


Unwrap = Callable[[Sequence[Arg], Output], Iterator[Inner]]
"""A reader of one program: its arguments and its standard input into the commands that it runs."""


def names(text: str) -> frozenset[str]:
    """The names in a text that has blanks between them."""
    return frozenset(text.split())


class Options(NamedTuple):
    """The options in front of a wrapper's operands, in order, each with its value (empty where it has none)."""

    items: tuple[tuple[str, Arg], ...]
    end: int
    """The index of the first operand."""

    def value(self, *wanted: str) -> Arg | None:
        """The value of the last of these options that is given; None without one."""
        return next((value for name, value in reversed(self.items) if name in wanted), None)

    def has(self, *wanted: str) -> bool:
        """Whether one of these options is given."""
        return any(name in wanted for name, _ in self.items)


_NO_VALUE = Arg("")


def read_options(
    args: Sequence[Arg], values: frozenset[str], *, attached: frozenset[str] = frozenset(), start: int = 0
) -> Options:
    """Read options up to the first operand: `-nu root` is `-n` and `-u root`, `--chdir=/` and `--chdir /` are alike.

    `values` are the options that take a value; those in `attached` take one only where it is in the same word.
    """
    items: list[tuple[str, Arg]] = []
    place = start
    while place < len(args):
        text, sources = args[place]
        if text == "--":
            place += 1
            break
        if not text.startswith("-") or text == "-":
            break
        place += 1
        if text.startswith("--") or text in values:
            name, equals, value = text.partition("=")
            if not equals and name in values and place < len(args):
                items.append((name, args[place]))
                place += 1
            else:
                items.append((name, Arg(value, sources)))
            continue
        for index, letter in enumerate(text[1:], 2):
            name, rest = f"-{letter}", text[index:]
            if name in attached or (name in values and rest):
                items.append((name, Arg(rest.removeprefix("="), sources)))
                break
            if name in values:
                items.append((name, args[place] if place < len(args) else _NO_VALUE))
                place += 1
                break
            items.append((name, _NO_VALUE))
    return Options(tuple(items), min(place, len(args)))


def script_of(words: Sequence[Arg], *, remote: bool = False, directory: str = "") -> Inner:
    """Words that a program joins with blanks and hands to a shell."""
    sources = tuple(source for word in words for source in word.sources)
    return Inner(script=" ".join(word.text for word in words), sources=sources, remote=remote, directory=directory)


def script_from_stdin(stdin: Output, *, remote: bool = False) -> Inner:
    """A shell that reads its script from standard input."""
    return Inner(script=stdin.text, sources=stdin.programs, remote=remote)


RUN_BY_UNKNOWN: Final[dict[str, re.Pattern[str]]] = {
    **dict.fromkeys(["rm", "/bin/rm", "/usr/bin/rm"], lazy_regex(r"-\w|--(?:recursive|force)")),
    **dict.fromkeys(["sh", "bash", "zsh", "dash", "ksh", "fish", "/bin/sh", "/bin/bash"], lazy_regex(r"-\w*c$")),
    **dict.fromkeys(["python", "python3", "perl", "ruby", "node", "php"], lazy_regex(r"-\w*[cer]$")),
    "git": lazy_regex(
        r"(?:push|reset|clean|checkout|restore|branch|stash|worktree|filter-branch|update-ref|reflog|-C|-c)$"
    ),
    **dict.fromkeys(["find", "rimraf"], lazy_regex(r"[/~.]")),
    "dd": lazy_regex(r"(?:if|of|bs)="),
    **dict.fromkeys(
        names(
            "sudo doas shred dropdb psql mysql redis-cli mongosh terraform tofu pulumi kubectl helm aws gcloud mkfs.ext4 wipefs"
            " fleethook fleethook.exe"
        ),
        lazy_regex(r"[\w-]"),
    ),
}
"""Programs that an unknown program is taken to run where their name is among its arguments, by what follows the name."""
RUN_NAMES: Final = frozenset(RUN_BY_UNKNOWN)
TAKES_WORDS: Final = names(
    "ugrep pcregrep pcre2grep ast-grep semgrep cd pwd pytest ruff mypy eslint prettier curl wget http https xh"
    " echo printf print say espeak grep egrep fgrep zgrep rg ag ack hg svn jj man info tldr cheat whatis apropos help which"
    " whereis type hash figlet cowsay toilet banner logger wall notify-send pgrep pkill killall test [ expr set export read"
    " history fc complete compgen bind abbr alias unalias jq yq ls cat touch mkdir cp mv ln rm tee apk brew dnf yum pacman"
    " zypper pip pip3 gem claude codex gemini aider llm ollama opencode qwen cursor-agent copilot fleethook shellcheck"
    " wtype return exit kill wait shift unset basename dirname diff cmp wc head tail md5sum sha256sum stat file"
)
"""Programs that run none of their arguments, whatever words those are."""


def run_by_unknown(args: Sequence[Arg]) -> Iterator[Inner]:
    """The command among the arguments of an unknown program: `newtool --in /x rm -rf /etc`."""
    for place, arg in enumerate(args[:-1]):
        follows = RUN_BY_UNKNOWN.get(arg.text)
        if follows is not None and follows.match(args[place + 1].text):
            yield Inner(argv=tuple(args[place:]))
            return
