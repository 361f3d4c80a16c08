"""The facts of a session in conditions: `session.ran("pytest").exit == 0`, `session.read_secret` (docs/limits.md).

Here is what a condition may say. What a session did is in `bus/memory/`; it is looked up before a condition runs, which only
reads the results.
"""

from __future__ import annotations

import ast
import difflib
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bus.errors import PatternError
from bus.lazy.regex import lazy_regex
from bus.matching.condition_cost import STRING
from bus.matching.globs import compile_path_glob

FACT_FUNCTIONS: Final = frozenset({"ran", "wrote", "read", "called"})
ORDER_FUNCTIONS: Final = frozenset({"after", "before"})
FIELDS: Final[dict[str, str]] = {
    "read_secret": "whether a file with secrets was read, or a tool's output had a key of a known format",
    "repeats": "how often in a row this same call has come to the same outcome",
    "tokens": "the tokens that its model has used, where events say it",
}
"""The fields of `session`, in words."""
FACT_FIELDS: Final[dict[str, str]] = {
    "found": "whether the session has done it",
    "exit": "the exit code of the last run; -1 where it is not known, or nothing ran",
    "ok": "whether the last run is known to have succeeded",
    "at": "when it was last done, in milliseconds; 0 for never",
}
"""The fields of what `session.ran(…)` and the others give."""
NEVER: Final[dict[str, Any]] = {"found": False, "exit": -1, "ok": False, "at": 0}
"""What a session has never done."""

_STRINGS: Final = lazy_regex(STRING)
_USE: Final = lazy_regex(r"(?<![\w.])session\b(?:\s*\.\s*(\w+))?(\s*\()?")
_CALL: Final = lazy_regex(
    rf"(?<![\w.])session\s*\.\s*(ran|wrote|read|called)\s*\(\s*({STRING})\s*\)(?:\s*\.\s*(\w+)(\s*\()?)?"
)
_ANY_CALL: Final = lazy_regex(r"\b(ran|wrote|read|called)\s*\(")
_MOST_FACTS: Final = 16


class SessionFact(NamedTuple):
    """One fact that a condition asks for: `ran` and `pytest`."""

    name: str
    pattern: str

    @property
    def key(self) -> str:
        """Its name among the answers."""
        return f"{self.name} {self.pattern}"

    @property
    def written(self) -> str:
        """As a condition has it."""
        return f'session.{self.name}("{self.pattern}")'


def session_facts(text: str) -> tuple[SessionFact, ...]:
    """The facts that a condition asks for; PatternError for one that does not exist or has a bad pattern."""
    plain = _STRINGS.sub("''", text)
    for found in _USE.finditer(plain):
        name, is_call = found[1] or "", bool(found[2])
        known = FACT_FUNCTIONS if is_call else FIELDS.keys()
        if name not in known:
            raise _unknown(text, f"session.{name}{'(…)' if is_call else ''}" if name else "session alone", name)
    facts, calls = [], list(_CALL.finditer(text))
    if len(calls) != len(_ANY_CALL.findall(plain)):
        raise PatternError(
            f'bad condition {text!r}: a fact is asked for as session.ran("…"), with one text',
            hint="the text is fixed: it cannot be computed from the event",
        )
    for found in calls:
        field, is_call = found[3] or "", bool(found[4])
        if field and field not in (ORDER_FUNCTIONS if is_call else FACT_FIELDS):
            raise _unknown(text, f"{found[1]}(…).{field}", field)
        facts.append(SessionFact(found[1], _pattern(text, found[1], found[2])))
    if len(facts) > _MOST_FACTS:
        raise PatternError(f"the condition asks for {len(facts)} facts; {_MOST_FACTS} is the most")
    return tuple(dict.fromkeys(facts))


def _pattern(text: str, name: str, literal: str) -> str:
    try:
        pattern = ast.literal_eval(literal)
    except (ValueError, SyntaxError) as error:
        raise PatternError(f"bad condition {text!r}: {literal} is no text") from error
    if not pattern.strip() or len(pattern) > 200:
        raise PatternError(f"bad condition {text!r}: session.{name} needs a text of 1 to 200 characters")
    if name in {"wrote", "read"}:
        compile_path_glob(pattern)
    return str(pattern)


def _unknown(text: str, what: str, name: str) -> PatternError:
    known = [*FIELDS, *FACT_FIELDS, *FACT_FUNCTIONS, *ORDER_FUNCTIONS]
    near = difflib.get_close_matches(name, known, 1)
    return PatternError(
        f"bad condition {text!r}: there is no {what}",
        hint=f"did you mean {near[0]}?"
        if near
        else f"there are session.{', session.'.join(FIELDS)}, and session.ran, wrote, read and called with "
        f"{', '.join(FACT_FIELDS)}, after and before",
    )


def no_fields() -> dict[str, Any]:
    """The fields of a session that Fleethook knows nothing about."""
    return {"read_secret": False, "repeats": 0, "tokens": 0}


@lru_cache(maxsize=16_384)
def runs(pattern: str, line: str) -> bool:
    """Whether a command is what a pattern names: its program, and then the pattern's other words among its own, in order."""
    program, *rest = _words(pattern)
    words = line.split()
    if not words or not any(fnmatchcase(words[0], one) for one in program.split("|")):
        return False
    left = iter(words[1:])
    return all(any(fnmatchcase(word, wanted) for word in left) for wanted in rest)


@lru_cache(maxsize=1024)
def _words(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split())
