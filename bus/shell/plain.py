"""Lines of plain words, which need no syntax tree: `cd src && pytest -q 2>&1 | tail`. Most lines of agents are such.

What is read here is what the tree would give (a test compares them on the corpora and on made lines); every other line,
with a variable, a bracket or a keyword in it, is left to the tree.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

from bus.shell.inner import names

_LONGEST: Final = 2048
"""Characters; a line that is longer is left to the parser and its limits of time."""
_MOST_STAGES: Final = 16
_SIGNS: Final = r"\w./:@%+,~*?^\-"
_BARE: Final = rf"(?! [12]>) [{_SIGNS}][{_SIGNS}=]*+ (?! [<>('\"{{\\\\])"
"""A word of signs alone, with nothing else in it."""
_WORDS: Final = re.compile(rf"[{_SIGNS}][{_SIGNS}=]*(?: +[{_SIGNS}][{_SIGNS}=]*)*", re.ASCII)
"""Words with blanks between them. One that begins with `=` may be an operator to the grammar."""
_TOKEN: Final = re.compile(
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
_PROGRAM: Final = re.compile(r"[A-Za-z_~./][\w./+~-]*|:", re.ASCII)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=([\w./:][\w./:-]*)", re.ASCII)
_QUOTED: Final = re.compile(r"""'([^']*)'|"([^"]*)"|\\(.)""")
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
"""Pipelines with `&&` or `||` between them; the first stage of one may be such a list, which is piped as a whole."""


def plain_statements(text: str) -> list[Statement] | None:
    """The statements of a line of plain words; None for every other line. Takes time linear in the text."""
    if len(text) > _LONGEST:
        return None
    if _WORDS.fullmatch(text):
        words = text.split()
        if _names_program(words[0]):
            return [[[Stage(words)]]]
    return _statements(text) if text.isascii() else None


def _statements(text: str) -> list[Statement] | None:
    statements: list[Statement] = [[[]]]
    words: list[str] = []
    assignments: tuple[tuple[str, str], ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()
    redirected, length, stages = False, 0, 0
    text = text.rstrip(" ")
    for token, bare, word, joint, operator, target in _TOKEN.findall(text):
        length += len(token)
        if bare or word:
            more = bare.split() if bare else [_unquoted(word)]
            if not words:
                while bare and more and "=" in more[0] and (pair := _ASSIGNMENT.fullmatch(more[0])):
                    assignments += ((pair[1], pair[2]),)
                    del more[0]
                if more and not _names_program(more[0] if bare else word):
                    return None
            if redirected:
                return None
            words += more
        elif joint:
            stages += 1
            if not words or stages == _MOST_STAGES:
                return None
            statement = statements[-1]
            statement[-1].append(Stage(words, assignments, redirected, redirects))
            if joint == "|":
                if redirected and len(statement[0]) > 1:
                    return None
                if redirected and len(statement) > 1:
                    if any(len(pipeline) > 1 for pipeline in statement):
                        return None
                    statements[-1] = [[statement]]  # `a && b 2>&1 | c`: the grammar pipes both into c
            elif joint != ";" and len(statement[-1]) > 2:
                return None  # `a | b | c && d`: the grammar pipes a into d, and may join a next line to c
            elif joint in ("&&", "||"):
                statement.append([])
            else:
                statements.append([[]])
            words, assignments, redirects, redirected = [], (), (), False
        else:
            if not words:
                return None
            redirected = True
            if target and not target.isdigit():
                redirects += ((operator.lstrip("12"), target),)
    if length != len(text) or not words:  # a part that is no token was left out
        return None
    statements[-1][-1].append(Stage(words, assignments, redirected, redirects))
    return statements


def _names_program(word: str) -> bool:
    """Whether a statement may begin with this word: the grammar takes many another apart, or for an assignment."""
    return _PROGRAM.fullmatch(word) is not None and word not in _KEYWORDS


def _unquoted(word: str) -> str:
    sign = word[0]
    if sign in "'\"" and word.find(sign, 1) == len(word) - 1:
        return word[1:-1]
    return _QUOTED.sub(r"\1\2\3", word)
