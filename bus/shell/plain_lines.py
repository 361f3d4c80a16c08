"""Lines of plain words, which need no syntax tree: `cd src && pytest -q 2>&1 | tail`. Most lines of agents are like that.

The result is the same as by the tree: a test compares both on the corpora and on generated lines. Every other line, with a
variable, a bracket or a keyword in it, is left to the tree.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from bus.lazy.regex import lazy_regex
from bus.shell.inner import names

_LONGEST: Final = 2048
"""Characters; a longer line is left to the parser, which has a limit of time."""
_MOST_STAGES: Final = 16
_SIGNS: Final = r"\w./:@%+,~*?^\-"
_BARE: Final = rf"(?! [12]>) [{_SIGNS}][{_SIGNS}=]*+ (?! [<>('\"{{\\\\])"
"""A word of signs alone, with nothing else in it."""
_WORDS: Final = lazy_regex(rf"[{_SIGNS}][{_SIGNS}=]*+(?: ++[{_SIGNS}][{_SIGNS}=]*+)*+", re.ASCII)
"""Words with blanks between them. One that begins with `=` may be an operator to the grammar."""
_TOKEN: Final = lazy_regex(
    rf"""
    ( [ ]*+ (?:
    ( (?>{_BARE}) (?: [ ]++ (?>{_BARE}) )*+ )
    | ( (?!=) (?! [12]>) (?: [{_SIGNS}=]++ | '(?!~)[^']*+' | "(?!~)[^"$`\\]*+" | \{{\d*+\}} )++ (?![<>(])
      | (?<=[ ]) \\[;()] (?=[ ]|$) )
    | ( && | \|\|? | ; | \n+ )
    | (?<=[ ]) (?: [12]?>& [12] | ( [12&]?>>? ) [ ]* ( [\w./~-][{_SIGNS}]*+ ) ) (?! [^ ;|&\n] )
    ) )
    """,
    re.ASCII | re.VERBOSE,
)
"""All of it, and in it words of signs alone, one other word, what joins commands, and a redirection: operator and target."""
_PROGRAM: Final = lazy_regex(r"[A-Za-z_~./][\w./+~-]*|:", re.ASCII)
_ASSIGNMENT: Final = lazy_regex(r"([A-Za-z_]\w*)=([\w./:][\w./:-]*)", re.ASCII)
_QUOTED: Final = lazy_regex(r"""'([^']*)'|"([^"]*)"|\\(.)""")
_new: Final = tuple.__new__
_KEYWORDS: Final = names(
    "if then elif else fi for while until do done case esac in select function time coproc declare typeset export readonly"
    " local unset unsetenv"
)
"""Words that begin another kind of statement, to the shell or to the grammar."""


class Stage(NamedTuple):
    """A simple command of plain words."""

    words: list[str]
    assignments: tuple[tuple[str, str], ...] = ()
    redirected: bool = False
    redirects: tuple[tuple[str, str], ...] = ()
    """(operator, target), without those from one descriptor to another."""


Statement: TypeAlias = "list[list[Stage | Statement]]"
"""Pipelines with `&&` or `||` between them. The first stage of a pipeline may be a statement, which is piped as a whole."""


def plain_statements(text: str) -> list[Statement] | None:
    """The statements of a line of plain words; None for every other line. Takes time linear in the text."""
    words = plain_command(text)
    return other_statements(text) if words is None else [[[Stage(words)]]]


def plain_command(text: str) -> list[str] | None:
    """The words of a line that is one command without quotes, as half of all lines are; None for every other line."""
    if len(text) > _LONGEST or _WORDS.fullmatch(text) is None:
        return None
    words = text.split()
    return words if _names_program(words[0]) else None


def other_statements(text: str) -> list[Statement] | None:
    """`plain_statements` of a line that is no `plain_command`."""
    if len(text) > _LONGEST or not text.isascii():
        return None
    pipeline: list[Stage | Statement] = []
    statement: Statement = [pipeline]
    statements = [statement]
    words: list[str] = []
    assignments: tuple[tuple[str, str], ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()
    redirected, length, stages = False, 0, 0
    text = text.rstrip(" ")
    for token, bare, word, joint, operator, target in _TOKEN.findall(text):
        length += len(token)
        if joint:
            stages += 1
            if not words or stages == _MOST_STAGES:
                return None
            pipeline.append(_new(Stage, (words, assignments, redirected, redirects)))
            if joint == "|":
                if redirected and len(statement[0]) > 1:
                    return None
                if redirected and len(statement) > 1:
                    if any(len(one) > 1 for one in statement):
                        return None
                    pipeline = [statement]  # `a && b 2>&1 | c`: the grammar pipes both into c
                    statements[-1] = statement = [pipeline]
            elif joint != ";" and len(pipeline) > 2:
                return None  # `a | b | c && d`: the grammar pipes a into d, and may join a next line to c
            else:
                pipeline = []
                if joint in ("&&", "||"):
                    statement.append(pipeline)
                else:
                    statement = [pipeline]
                    statements.append(statement)
            words, assignments, redirects, redirected = [], (), (), False
        elif not (bare or word):
            if not words:
                return None
            redirected = True
            if target and not target.isdigit():
                redirects += ((operator.lstrip("12"), target),)
        elif redirected:
            return None
        elif words:
            words += bare.split() if bare else [_unquoted(word)]
        else:
            words = bare.split() if bare else [_unquoted(word)]
            while bare and words and "=" in words[0] and (pair := _ASSIGNMENT.fullmatch(words[0])):
                assignments += ((pair[1], pair[2]),)
                del words[0]
            if words and not _names_program(words[0] if bare else word):
                return None
    if length != len(text) or not words:  # a part that is no token was left out
        return None
    pipeline.append(_new(Stage, (words, assignments, redirected, redirects)))
    return statements


@lru_cache(maxsize=1024)
def _names_program(word: str) -> bool:
    """Whether a statement may begin with this word: the grammar splits many others, or reads them as assignments."""
    return _PROGRAM.fullmatch(word) is not None and word not in _KEYWORDS


def _unquoted(word: str) -> str:
    sign = word[0]
    if sign in "'\"" and word.find(sign, 1) == len(word) - 1:
        return word[1:-1]
    return _QUOTED.sub(r"\1\2\3", word)
