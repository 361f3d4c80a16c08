"""Filters that rewrite files in place and print nothing, which empties the files: `perl -i -ne ''`, `awk -i inplace '{}'`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner

_CLUSTER: Final = lazy_regex(r"-[a-zA-Z0-9.]*")
_PRINTS: Final = lazy_regex(r"\b(?:print|printf|say|puts|write|putc|syswrite|exit|die|p)\b|\$_\s*=~|<<")
_CLEARED: Final = lazy_regex(
    r"""^\s*(?:\$_\s*=\s*(?:''|""|q\(\)|q\{\}|undef|nil)|undef(?:\s*\(?\s*\$_\s*\)?)?|\$_\.clear|\$_\.replace\(\s*(?:''|"")\s*\)"""
    r"""|s(.)\^?\.[*+](?:\$|\\n)?\$?\1\1[a-z]*|s(.)\.\|\\n\2\2[a-z]*|next|1\s*while\s*<>)\s*;?\s*$"""
)
_NEVER: Final = lazy_regex(r"^\s*(?:0|\"\"|''|NR\s*(?:<|<=|==)\s*0|!1|BEGIN\s*\{[^}]*\}|END\s*\{[^}]*\}|)\s*$")
_AWK_PRINTS: Final = lazy_regex(r"\bprintf?\b|\bgetline\b")
_ONLY_ACTIONS: Final = lazy_regex(r"^\s*(?:[^{}]*\{[^{}]*\}\s*)+$")
_SWITCHES: Final = frozenset("pnaF0lwsW")


def emptied_by_filter(args: Sequence[Arg]) -> Iterator[Inner]:
    """For perl and ruby: `truncate -s 0 FILE…` if these arguments print nothing into the files that they rewrite."""
    letters, code, files = "", [], []
    place = 0
    while place < len(args):
        text = args[place].text
        place += 1
        if text == "--":
            continue
        if text[:1] != "-" or text == "-":
            files.append(args[place - 1])
        elif _CLUSTER.fullmatch(text):
            before, ends, _ = text[1:].partition("e")
            if "i" in before:
                before = (
                    before.partition("i")[0] + "i" + "".join(filter(_SWITCHES.__contains__, before.partition("i")[2]))
                )
            letters += before
            if (ends or text[-1:] == "E") and place < len(args):
                code.append(args[place].text)
                place += 1
    whole = ";".join(code)
    if "i" not in letters or not code or not files:
        return
    if ("n" in letters and "p" not in letters and not _PRINTS.search(whole)) or (
        "p" in letters and _CLEARED.search(whole)
    ):
        yield Inner(argv=(Arg("truncate"), Arg("-s"), Arg("0"), *files))


def emptied_by_awk(args: Sequence[Arg]) -> Iterator[Inner]:
    """`truncate -s 0 FILE…` if these arguments of `awk -i inplace` print nothing."""
    words = [arg.text for arg in args]
    given = [
        arg
        for place, arg in enumerate(args)
        if arg.text[:1] != "-" and (place == 0 or words[place - 1] not in ("-i", "-v", "-F", "--include", "-f"))
    ]
    if not given or "inplace" not in " ".join(words[:4]):
        return
    program = given[0].text
    if _NEVER.match(program) or (_ONLY_ACTIONS.match(program) and not _AWK_PRINTS.search(program)):
        yield Inner(argv=(Arg("truncate"), Arg("-s"), Arg("0"), *given[1:]))
