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
_WORDS: Final = re.compile(rf"[{_SIGNS}][{_SIGNS}=]*(?: +[{_SIGNS}][{_SIGNS}=]*)*", re.ASCII)
"""Words with blanks between them. One that begins with `=` may be an operator to the grammar."""
_TOKEN: Final = re.compile(
    rf"""
    ( [ ]*+ (?:
    ( (?!=) (?! [12]>) (?: [{_SIGNS}=]++ | '(?!~)[^']*+' | "(?!~)[^"$`\\]*+" )++ (?![<>(]) )
    | ( && | \|\|? | ; | \n+ )
    | (?<=[ ]) (?: [12]?>& [12] | ( [12&]?>>? ) [ ]* ( [\w./~-][{_SIGNS}]*+ ) ) (?! [^ ;|&\n] )
    ) )
    """,
    re.ASCII | re.VERBOSE,
)
"""All of it, and in it a word, what joins commands, and the operator and the target of a redirection."""
_PROGRAM: Final = re.compile(r"[A-Za-z_~./][\w./+~-]*|:", re.ASCII)
_QUOTED: Final = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_KEYWORDS: Final = names(
    "if then elif else fi for while until do done case esac in select function time coproc declare typeset export readonly"
    " local unset unsetenv"
)
"""Words that begin another kind of statement, to the shell or to the grammar."""


class Stage(NamedTuple):
    """A simple command of plain words."""

    words: list[str]
    redirected: bool = False
    redirects: tuple[tuple[str, str], ...] = ()
    """(operator, target), without those from one descriptor to another."""


Statement: TypeAlias = "list[list[Stage]]"
"""Pipelines with `&&` or `||` between them."""


def plain_statements(text: str) -> list[Statement] | None:
    """The statements of a line of plain words; None for every other line. Takes time linear in the text."""
    if len(text) > _LONGEST:
        return None
    if _WORDS.fullmatch(text):
        words = text.split()
        return [[[Stage(words)]]] if _names_program(words[0]) else None
    return _statements(text) if text.isascii() else None


def _statements(text: str) -> list[Statement] | None:
    statements: list[Statement] = [[[]]]
    words, redirects, redirected = list[str](), list[tuple[str, str]](), False
    length = stages = 0
    text = text.rstrip(" ")
    for token, word, joint, operator, target in _TOKEN.findall(text):
        length += len(token)
        if word:
            if redirected or (not words and not _names_program(word)):
                return None
            words.append(_unquoted(word) if "'" in word or '"' in word else word)
        elif joint:
            stages += 1
            if not words or stages == _MOST_STAGES:
                return None
            statement = statements[-1]
            statement[-1].append(Stage(words, redirected, tuple(redirects)))
            if joint == "|":
                if redirected and (len(statement) > 1 or len(statement[0]) > 1):
                    return None  # `a && b 2>&1 | c`: the grammar pipes both into c
            elif joint != ";" and len(statement[-1]) > 2:
                return None  # `a | b | c && d`: the grammar pipes a into d, and may join a next line to c
            elif joint in ("&&", "||"):
                statement.append([])
            else:
                statements.append([[]])
            words, redirects, redirected = [], [], False
        else:
            if not words:
                return None
            redirected = True
            if target and not target.isdigit():
                redirects.append((operator.lstrip("12"), target))
    if length != len(text) or not words:  # a part that is no token was left out
        return None
    statements[-1][-1].append(Stage(words, redirected, tuple(redirects)))
    return statements


def _names_program(word: str) -> bool:
    """Whether a statement may begin with this word: the grammar takes many another apart, or for an assignment."""
    return _PROGRAM.fullmatch(word) is not None and word not in _KEYWORDS


def _unquoted(word: str) -> str:
    sign = word[0]
    if sign in "'\"" and word.find(sign, 1) == len(word) - 1:
        return word[1:-1]
    return _QUOTED.sub(r"\1\2", word)
