"""The output of filters and queries: `tr a b`, `rev`, `sed s/a/b/`, `psql -c "select 'DROP …'"`."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import names
from bus.shell.words import MAYBE_EMPTY, UNKNOWN, UNSET

_LONGEST: Final = 16 * 1024
_HIDDEN: Final = f"{UNKNOWN}{UNSET}{MAYBE_EMPTY} \n"
_RANGE: Final = lazy_regex(r"(\w)-(\w)")
_CLASSES: Final = {
    "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[:lower:]": "abcdefghijklmnopqrstuvwxyz",
    "[:digit:]": "0123456789",
    "[:space:]": " \t\n",
    "[:blank:]": " \t",
}
_REPLACEMENT: Final = lazy_regex(r"s(.)((?:\\.|(?!\1)[^\\])*)\1((?:\\.|(?!\1)[^\\])*)\1([gI]*)")
_DELETION: Final = lazy_regex(r"/[^/]*/d")
_PLAIN: Final = lazy_regex(r"[\w ,.:;=/'\"@%~-]*")
"""A pattern of sed without special characters."""
_LITERAL: Final = lazy_regex(r"'((?:[^']|'')*)'")
_PLACE: Final = lazy_regex(r"%\d*\$?[sIL]")
"""The placeholders of `format('DROP TABLE %I', name)`."""
_SELECTS: Final = lazy_regex(r"(?i)\bselect\b")
_DROPS: Final = lazy_regex(r"\W{0,2}(drop|truncate)(?:\s+\w+)?\W*", re.IGNORECASE)

_FOLDER: Final = lazy_regex(r"[^\s:]*/[^\s]*")
"""The beginning of a path: `build/`, `/srv/app-`."""
_AWK_PRINTS: Final = lazy_regex(r"""\bprint\s*\(?\s*"([^"\\ :]*/[^"\\ ]*)"\s*\$\w+(?:\s*"([^"\\ ]*)")?""")
AWKS: Final = names("awk gawk mawk nawk")
CLIENTS: Final = names(
    "psql pgcli mysql mariadb mycli sqlite3 sqlite duckdb usql cockroach clickhouse-client sqlcmd cqlsh sqlplus snowsql"
)
"""Database clients that read SQL from standard input and print what a query finds."""


def rewritten(program: str, words: Sequence[str], text: str | None) -> str | None:
    """The output of a program that reads `text` (None: unknown input); None if the output is not known."""
    if program in CLIENTS:
        return _queried(words)
    if text is None:
        return _kept(words) if program in ("grep", "egrep") else _below(words) if program in ("sed", "gsed") else None
    if not text.strip(_HIDDEN) or len(text) > _LONGEST:
        return None
    made = _FILTERS[program](words, text)
    return made[:_LONGEST] if made is not None else None


def _queried(words: Sequence[str]) -> str | None:
    """The statements that a query makes: its quoted texts, with unknown parts between them."""
    for word in words:
        if "'" in word and _SELECTS.search(word):
            texts = [found.replace("''", "'") for found in _LITERAL.findall(word)]
            return _PLACE.sub(UNKNOWN, UNKNOWN.join([*texts, ""])) if texts else None
    return None


def _below(words: Sequence[str]) -> str | None:
    """The paths that `sed 's|^|/srv/|'` makes of lines that are not known."""
    for word in words:
        match = _REPLACEMENT.fullmatch(word.strip())
        if match is not None and match[2] == "^" and _FOLDER.fullmatch(match[3].replace("\\/", "/")):
            return match[3].replace("\\/", "/") + UNKNOWN
    return None


def listed_by_awk(words: Sequence[str]) -> str | None:
    """The paths that `awk '{print "/srv/" $1}'` makes of its input; None for any other output."""
    for word in words:
        match = _AWK_PRINTS.search(word)
        if match is not None:
            return f"{match[1]}{UNKNOWN}{match[2] or ''}"
    return None


def _kept(words: Sequence[str]) -> str | None:
    """The statements that `grep ^DROP` selects from a dump."""
    text = "".join(words).lower()
    if "drop" not in text and "truncate" not in text:
        return None
    operands = [word for word in words if not word.startswith("-")]
    if any(word[:1] == "-" and "v" in word for word in words) or len(operands) != 1:
        return None
    match = _DROPS.fullmatch(operands[0])
    return f"{match[1]} TABLE {UNKNOWN};" if match else None


def _tr(words: Sequence[str], text: str) -> str | None:
    flags = "".join(word[1:] for word in words if word[:1] == "-" and len(word) > 1)
    sets = [_characters(word) for word in words if word[:1] != "-"]
    if "c" in flags or "C" in flags or not sets:
        return None
    if "d" in flags:
        return text.translate({ord(sign): None for sign in sets[0]})
    if len(sets) < 2 or not sets[1]:
        return text
    pairs = zip_longest(sets[0], sets[1][: len(sets[0])], fillvalue=sets[1][-1])
    return text.translate({ord(old): new for old, new in pairs})


def _characters(text: str) -> str:
    for name, members in _CLASSES.items():
        text = text.replace(name, members)
    if "\\" in text:
        text = codecs.decode(text.encode("latin-1", "replace"), "unicode_escape")
    return _RANGE.sub(lambda found: "".join(map(chr, range(ord(found[1]), ord(found[2]) + 1))), text)


def _rev(_words: Sequence[str], text: str) -> str:
    return "\n".join(line[::-1] for line in text.split("\n"))


def _sed(words: Sequence[str], text: str) -> str | None:
    scripts = [word.removeprefix("--expression=") for word in words if word[:1] != "-" or word.startswith("--e")]
    for script in scripts:
        match = _REPLACEMENT.fullmatch(script.strip())
        if match is None:
            return None
        text = _replaced(match, text)
    return text


def _replaced(match: re.Match[str], text: str) -> str:
    pattern, new, flags = match[2], match[3].replace("\\/", "/"), match[4]
    if pattern == "^":
        return "\n".join(new + line for line in text.split("\n"))
    if pattern == "$":
        return "\n".join(line + new for line in text.split("\n"))
    whole = pattern in (".*", "^.*$", "^.*", ".*$")
    plain = pattern.replace("\\/", "/")
    if not whole and not _PLAIN.fullmatch(plain):
        return UNKNOWN
    old = re.compile(".+" if whole else re.escape(plain), re.IGNORECASE if "I" in flags else 0)
    lines = text.split("\n")
    return "\n".join(
        old.sub(lambda found: new.replace("&", found[0]), line, count=0 if "g" in flags else 1) for line in lines
    )


def _cut(words: Sequence[str], text: str) -> str | None:
    given = "".join(words)
    match = re.fullmatch(r"-[cb](\d+)-(\d*)", given)
    if match is None:
        return None
    start, end = int(match[1][:6]), int(match[2][:6]) if match[2] else None
    return "\n".join(line[max(start - 1, 0) : end] for line in text.split("\n"))


def _base64(words: Sequence[str], text: str) -> str | None:
    if not any(word in ("-d", "-D", "--decode", "-di", "-id") for word in words):
        return None
    try:
        return base64.b64decode(text, validate=False).decode() or None
    except (ValueError, binascii.Error):
        return None


def _xxd(words: Sequence[str], text: str) -> str | None:
    flags = "".join(word[1:] for word in words if word[:1] == "-")
    try:
        return bytes.fromhex(text).decode() or None if "r" in flags and "p" in flags else None
    except ValueError:
        return None


_FILTERS: Final[Mapping[str, Callable[[Sequence[str], str], str | None]]] = {
    "tr": _tr,
    "gtr": _tr,
    "rev": _rev,
    "sed": _sed,
    "gsed": _sed,
    "cut": _cut,
    "base64": _base64,
    "gbase64": _base64,
    "xxd": _xxd,
}
REWRITING: Final = frozenset(_FILTERS)
"""The filters whose output can be worked out."""
DECODING: Final = names("base64 gbase64 xxd")
"""Those of them that nobody can read the input of; what they print is judged, and running it counts as hidden code too."""


def is_worked_out(text: str | None) -> bool:
    """Whether all of a text is known."""
    return text is not None and UNKNOWN not in text and UNSET not in text
