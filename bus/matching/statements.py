"""Finds database statements that destroy data. Reads SQL statement by statement, without comments and quoted texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_plus

from bus.lazy.regex import lazy_regex
from bus.matching.facts.kinds import Destroyed

_MAX_LENGTH: Final = 256 * 1024
"""As much as is read of a whole command line."""
WORTH: Final = frozenset(["drop", "truncate", "delete", "update"])
"""Every text that destroys something contains at least one of these words, in some case."""
_WORTH: Final = lazy_regex("|".join(sorted(WORTH)), re.IGNORECASE)
_OPTION: Final = lazy_regex(r"""--[\w-]+=|-[A-Za-z](?=[A-Za-z"'`(])""")
_EXECUTES: Final = lazy_regex(r"\bexec(?:ute)?(?:\s+immediate|\s+format|\s+sp_executesql)?[\s(]*n?'", re.IGNORECASE)
_IGNORED: Final = lazy_regex(
    r"""(?:(?<=\s)|\A)--[^\n]*|/\*(?!!).*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`""", re.DOTALL
)
_DATABASE: Final = lazy_regex(r"\bdrop\s+(?:database|schema|keyspace|owned)\b")
_TABLE: Final = lazy_regex(
    r"\bdrop\s+(?:foreign\s+)?(?:table|materialized\s+view|collection|tablespace|user|role|measurement|series|warehouse|dictionary|catalog|graph|stream)\b"
)
_COLUMN: Final = lazy_regex(
    r"\balter\s+table\b[^;]{0,4096}?\bdrop\s+(?!constraint\b|index\b|default\b|primary\b|foreign\b|key\b|not\b|check\b|expression\b)"
)
_IN_REQUEST: Final = lazy_regex(r"^(?:https?://\S*[?&])?(?:query|q|sql|stmt|command)=(?=\S)")
_MADE: Final = lazy_regex(r"\bcreate\s+(?:temp\w*\s+|unlogged\s+|or\s+replace\s+)*table\s+(?!if\b)([\w.\"]+)")
_DROPPED: Final = lazy_regex(r"\s*drop\s+table\s+(?:if\s+exists\s+)?([\w.\"]+)\s*")
_TRUNCATE: Final = lazy_regex(r"(?:\A|\b(?:begin|then|do|exec|execute)\s)\s*truncate\s+\S")
_DELETE: Final = lazy_regex(r"\bdelete\s+(?:\S+\s+)?from\s+\S|\balter\s+table\s+\S+\s+delete\b")
_UPDATE: Final = lazy_regex(r"\bupdate\s+(?:only\s+|low_priority\s+|ignore\s+)*(\S+)(?:\s+(?:as\s+)?\w+)?\s+set\s")
_WHERE: Final = lazy_regex(r"\bwhere\s+(.*)", re.DOTALL)
_ALWAYS: Final = lazy_regex(r"(?:\(\s*)*(?:(\d+)\s*=\s*\1|true|1|''\s*=\s*'')(?:\s*\))*(?:\s+returning\b.*)?\s*")


@lru_cache(maxsize=256)
def destroyed(text: str) -> frozenset[Destroyed]:
    """The kinds of data that the statements of `text` destroy; empty for a text without SQL. The first 256 KiB are read."""
    if not _WORTH.search(text):
        return frozenset()
    plain = _OPTION.sub("", text[:_MAX_LENGTH], count=1) if text.startswith("-") else text[:_MAX_LENGTH]
    if "\\gexec" in plain or _EXECUTES.search(plain):  # psql runs what the query makes; the server, a text
        plain += ";" + ";".join(text.strip("'") for text in _IGNORED.findall(plain) if text[0] == "'")
    if (request := _IN_REQUEST.search(plain)) is not None:  # `curl 'http://clickhouse:8123/?query=DROP+TABLE+x'`
        plain = unquote_plus(plain[request.end() :])
    elif plain[:1] in ("{", "["):  # the body of a request: `{"sql": "DROP TABLE x"}`
        plain = ";".join(text[1:-1] for text in _IGNORED.findall(plain) if text[0] == '"')
    plain = _IGNORED.sub(lambda found: _emptied(found[0]), plain).lower()
    made: set[str] = set()
    found: set[Destroyed] = set()
    for statement in plain.split(";"):
        if made and (dropped := _DROPPED.fullmatch(statement)) is not None and dropped[1] in made:
            continue  # the same text made it
        if "create" in statement:
            made.update(_MADE.findall(statement))
        found.update(_of_statement(statement.strip()))
    return frozenset(found)


def _emptied(text: str) -> str:
    return " " if text[0] in "-/" else text[0] * 2


def _of_statement(statement: str) -> Iterator[Destroyed]:
    if statement.startswith(("explain ", "help ", "\\h")) and not re.match(r"explain\s*\(?\s*analy[sz]e", statement):
        return
    if _DATABASE.search(statement):
        yield "database"
    if _TABLE.search(statement):
        yield "table"
    if _COLUMN.search(statement):
        yield "column"
    if _TRUNCATE.search(statement) or (_DELETE.search(statement) and _reaches_all(statement)):
        yield "rows"
    if _UPDATE.search(statement) and _reaches_all(statement):
        yield "values"


def _reaches_all(statement: str) -> bool:
    where = _WHERE.search(statement)
    return where is None or _ALWAYS.fullmatch(where[1]) is not None
