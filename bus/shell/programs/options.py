"""Options whose value is a command, of programs that have no reader of their own: `newtool --exec 'rm x'`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, Unwrap, names, run_by_unknown
from bus.shell.programs.compiled_code import other_calls
from bus.shell.words import Output

_RUNS: Final = lazy_regex(
    r"-{1,2}(?:[bcex]|batch|g|up|down|client-connect|X\w*|build-cmd|on-\w+|(?:pre|post)-\w+|prepare|setup|cleanup|conclude|preview|bind"
    r"|(?:[\w-]*-)?(?:exec(?:ute)?|command|cmd|run|eval|expr|expression|script|shell|hook|pager|editor|wrapper|program|toolexec"
    r"|callback|action|rsh|askpass|launcher|runner|cmd-cmd))"
)
"""Options that are named after something that runs."""
_ELSEWHERE: Final = names("ssh exec invoke rsh")
"""Subcommands that run a script on another machine."""
_HOLDS_CODE: Final = lazy_regex(r"""[\["'(`{\\]""")
_SYSTEM: Final = lazy_regex(
    r"""(?:\b(?:system|exec|shell|command|sh|run|runner|write18|popen|spawn)\b|!|`)\W{0,4}?(?:(["'`])((?:(?!\1).)+)\1|\{([^{}]+)\})"""
)
"""A function call in an unknown language, with the text that it hands to a shell."""
_BACKTICKS: Final = lazy_regex(r"^`([^`]+)`$")
_EXECUTES: Final = lazy_regex(r"\b(?:execute(?:-silent)?|become|reload|transform)\((.+)\)")
"""fzf's actions."""


def run_by_option(args: Sequence[Arg]) -> Iterator[Inner]:
    """The commands in options of an unknown program, if the option's name says that it runs something."""
    for place, arg in enumerate(args):
        name, equals, value = arg.text.partition("=")
        if not name.startswith("-"):
            if name in _ELSEWHERE:  # `kamal app exec 'rm x'`
                yield from (
                    Inner(script=one.text, sources=one.sources, remote=True)
                    for one in args[place + 1 :]
                    if " " in one.text
                )
                return
            if place == 0 and name in ("eval", "call"):  # `crystal eval 'system("rm x")'`
                value = args[1].text if len(args) > 1 else ""
            else:
                continue
        elif not _RUNS.fullmatch(name.partition(":")[0]):
            continue
        elif not equals and ":" in name:  # `nim --eval:'…'`
            value = name.partition(":")[2]
        elif not equals:
            value = args[place + 1].text if place + 1 < len(args) else ""
        if " " in value:
            yield from _scripts(value, arg.sources)


def _scripts(text: str, sources: tuple[str, ...]) -> Iterator[Inner]:
    """The commands in a text, read as a shell script and as code of an unknown language."""
    text = text.strip()
    if quoted := _BACKTICKS.match(text):
        text = quoted[1]
    if match := _EXECUTES.search(text):
        text = match[1]
    yield Inner(script=text.removeprefix("!").lstrip(":"), sources=sources)
    if _HOLDS_CODE.search(text):
        for match in _SYSTEM.finditer(text):
            yield Inner(script=match[2] or match[3])
        yield from other_calls(text)


def run_by_unknown_program(args: Sequence[Arg]) -> Iterator[Inner]:
    """The commands that an unknown program may run: the one among its arguments, and those in its options."""
    for arg in args:
        if " " in arg.text:
            return chain(run_by_unknown(args), run_by_option(args))
    return run_by_unknown(args)


def named_options(*names: str) -> Unwrap:
    """A program that hands the values of these options to a shell."""

    def unwrap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
        for place, arg in enumerate(args):
            name, equals, value = arg.text.partition("=")
            if name in names and equals:
                yield Inner(script=value.removeprefix("exec="), sources=arg.sources)
            elif arg.text in names and place + 1 < len(args):
                after = args[place + 1]
                yield Inner(script=after.text.removeprefix("exec="), sources=after.sources)

    return unwrap


def matching(pattern: str, *, stdin_too: bool = False) -> Unwrap:
    """A reader for a program whose arguments hold scripts: the parts that match `pattern`. Its input too, if asked."""
    regex = lazy_regex(pattern, re.MULTILINE)

    def unwrap(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
        for arg in args:
            if found := regex.search(arg.text):
                yield Inner(script=found[1], sources=arg.sources)
        for match in regex.finditer((stdin.text or "") if stdin_too else ""):
            yield Inner(script=match[1])

    return unwrap
