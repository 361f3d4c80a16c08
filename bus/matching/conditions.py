"""The conditions in `when:`: CEL expressions over the event (and the verdict), compiled once; their errors are contained."""

from __future__ import annotations

import difflib
import re
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, Protocol

from bus.errors import ConditionError, NotBoolean, PatternError
from bus.lazy.regex import lazy_regex
from bus.matching.condition_cost import CHEAP_MICROSECONDS, STRING, Shape, Size, shape_of
from bus.matching.facts.session_facts import (
    FACT_FUNCTIONS,
    NEVER,
    ORDER_FUNCTIONS,
    SessionFact,
    no_fields,
    session_facts,
)

MAX_LENGTH: Final = 2000
MAX_NESTING: Final = 24
"""How deep brackets may nest."""
MAX_DATA_DEPTH: Final = 64
"""How deep an event may nest. The library is recursive and crashes with SIGSEGV on very deep data (measured at 100,000)."""

VARIABLES: Final = frozenset({"event", "verdict", "session"})
FUNCTIONS: Final = frozenset(
    {
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "size",
        "has",
        "all",
        "exists",
        "exists_one",
        "map",
        "filter",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "type",
        "dyn",
        "in",
        "duration",
        "timestamp",
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
        *FACT_FUNCTIONS,
        *ORDER_FUNCTIONS,
    }
)
"""The functions that common-expression-language 0.10 can run. It compiles any other name too, and then fails at every event."""

_STRINGS: Final = lazy_regex(STRING)
_LITERAL_REGEX: Final = lazy_regex(rf"\.\s*matches\s*\(\s*({STRING})\s*\)")
_LOOP_NAME: Final = lazy_regex(r"\b(?:all|exists|exists_one|map|filter)\s*\(\s*(\w+)\s*,")
_SYNTAX_ERROR: Final = lazy_regex(r"ERROR: <input>:(\d+):(\d+): (Syntax error: .*)")
_OPERATORS: Final = {"and": "&&", "or": "||", "not": "!", "is": "=="}
_SHOWN: Final = 24
"""Characters of a condition that a message shows from the place of a mistake on."""
_NESTING: Final = (dict, list)
_NOT_OURS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)


class _CelProgram(Protocol):
    def execute(self, context: dict[str, Any], /) -> object: ...


class Condition:
    """A compiled condition. Called with `{"event": {...}, "verdict": {...}}`, it returns true or false.

    A missing key raises ConditionError, so missing data never makes a condition true or false. `has(event.input.path)`
    tests for a key, and CEL's `||` and `&&` ignore the side that cannot change the result. A result that is no boolean, a
    wrong type and an error inside the library raise ConditionError too.
    """

    __slots__ = ("_program", "_used", "facts", "reads_facts_only", "shape", "text", "uses_session", "uses_verdict")

    def __init__(
        self,
        text: str,
        program: _CelProgram,
        shape: Shape,
        *,
        used: frozenset[str],
        facts: tuple[SessionFact, ...] = (),
    ) -> None:
        """`used` are the variables and functions that it names; the library gets no others, since it copies each of them."""
        self.text, self.shape, self.facts = text, shape, facts
        self.uses_session, self.uses_verdict = "session" in used, "verdict" in used
        self.reads_facts_only = used.isdisjoint({"event", "verdict"}) and self.uses_session and not shape.depth
        self._program, self._used = program, used

    def is_costly(self, size: Size) -> bool:
        """Whether an event of this size has to be checked in a process that can be killed (`bus.matching.findings`)."""
        return self.shape.microseconds(size) > CHEAP_MICROSECONDS

    def __call__(self, variables: dict[str, Any]) -> bool:
        variables = {name: value for name, value in variables.items() if name in self._used}
        if not _shallow(variables, MAX_DATA_DEPTH):
            raise ConditionError(f"`{self.text}` was not evaluated: the event nests deeper than {MAX_DATA_DEPTH}")
        try:
            result = self._program.execute(self._context(variables))
        except _NOT_OURS:
            raise
        except (ValueError, OverflowError):
            # The library cannot take a lone surrogate or an integer beyond 64 bits: try again without them.
            result = self._again(variables)
        except BaseException as error:  # noqa: BLE001  (the library's panics descend from BaseException)
            raise self._failure(error) from None
        if not isinstance(result, bool):
            kind = type(result).__name__
            raise NotBoolean(f"`{self.text}` gives {kind}, not true or false; compare it with something")
        return result

    def _context(self, variables: dict[str, Any]) -> Any:
        """What the library runs the condition with: with functions where it reads facts of the session."""
        if not self.uses_session:
            return variables
        session: dict[str, Any] = variables.get("session") or {}
        named = {**variables, "session": session.get("fields") or no_fields()}
        return _with_functions(named, session.get("known", {})) if self.facts else named

    def _again(self, variables: dict[str, Any]) -> object:
        try:
            return self._program.execute(self._context({name: _crossable(value) for name, value in variables.items()}))
        except _NOT_OURS:
            raise
        except BaseException as error:  # noqa: BLE001  (as above)
            raise self._failure(error) from None

    def _failure(self, error: BaseException) -> ConditionError:
        reason = _first_line(error)
        if isinstance(error, KeyError):
            reason = f"there is no {reason}; test it with has(…) first"
        return ConditionError(f"`{self.text}` could not be evaluated: {reason}")


def _with_functions(variables: dict[str, Any], known: dict[str, dict[str, Any]]) -> Any:
    """The variables and functions of a condition that calls facts of the session; what was not looked up is never."""
    import cel

    context = cel.Context(variables)
    for name in FACT_FUNCTIONS:
        context.add_function(name, lambda _session, pattern, name=name: known.get(f"{name} {pattern}", NEVER))
    context.add_function("after", lambda one, other: one["at"] > other["at"])
    context.add_function("before", lambda one, other: 0 < one["at"] < other["at"])
    return context


@lru_cache(maxsize=4096)
def compile_condition(
    text: str, variables: frozenset[str] = VARIABLES, functions: frozenset[str] = FUNCTIONS
) -> Condition:
    """Compile a CEL expression over `event.{type,tool,input,session,host,source,cwd,data}` and `verdict.…`.

    `variables` and `functions` are the names that it may use; a caller with others gives their values to the condition.

    PatternError for a syntax error, a name or function that does not exist, a bad regular expression in `matches("…")`,
    and an expression that is too long, nests too deep or clearly costs too much.
    """
    _measure(text)
    shape = shape_of(text)
    # The library would import its own command line, which nothing here needs: 390 modules, 135 ms of a core (measured).
    sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
    import cel  # 18 ms at the first condition; only files with a `when:` need it

    try:
        program = cel.compile(text)
        used, called = set(program.variables()), set(program.functions())
        for literal in _LITERAL_REGEX.findall(text):
            cel.compile(f"''.matches({literal})").execute({})
    except _NOT_OURS:
        raise
    except BaseException as error:  # noqa: BLE001  (the library's panics descend from BaseException)
        raise _bad_condition(text, error) from None
    if strange := sorted(used - variables - set(_LOOP_NAME.findall(text))):
        raise PatternError(
            f"bad condition {text!r}: there is no {strange[0]!r}",
            hint="a condition reads event.type, event.tool, event.input, event.session, event.host, event.source, "
            "event.cwd, event.data, "
            + (
                "session.ran and other facts, and for deliveries verdict.decision and verdict.reason"
                if variables == VARIABLES
                else f"and {', '.join(sorted(variables - {'event'}))}"
            ),
        )
    if strange := sorted(name for name in called - functions if name.isidentifier() and not name.startswith("_")):
        near = difflib.get_close_matches(strange[0], FUNCTIONS, 1)
        raise PatternError(
            f"bad condition {text!r}: there is no function {strange[0]!r}",
            hint=f"did you mean {near[0]}?"
            if near
            else "there are contains, startsWith, endsWith, matches, size, has, all, exists, filter, map, int, string",
        )
    uses_session = "session" in used
    facts = session_facts(text) if uses_session or called & FACT_FUNCTIONS else ()
    return Condition(text, program, shape, used=frozenset(used | called), facts=facts)


def _measure(text: str) -> None:
    """Raise PatternError for a text that is too long or too deep, before the library's recursive parser reads it."""
    if not text.strip():
        raise PatternError("the condition is empty", hint="leave `when` out to match always")
    if len(text) > MAX_LENGTH:
        raise PatternError(f"the condition has {len(text)} characters; {MAX_LENGTH} is the most")
    depth = deepest = 0
    for character in _STRINGS.sub("", text):
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise PatternError(f"the condition nests {deepest} brackets; {MAX_NESTING} is the most")


def _bad_condition(text: str, error: BaseException) -> PatternError:
    """The library's message as one line with the place, and a hint."""
    found = _SYNTAX_ERROR.search(str(error))
    if found is None:
        return PatternError(f"bad condition {text!r}: {_first_line(error)}")
    line, column = int(found[1]), int(found[2])
    written = (text.splitlines() or [""])[line - 1] if line <= len(text.splitlines()) else ""
    before, rest = written[: column - 1], written[column - 1 :]
    where = f"{f'line {line}, ' if line > 1 else ''}column {column}"
    if not rest.strip():
        return PatternError(f"bad condition {text!r}: it ends too early, at {where}", hint=_hint(before, "", found[3]))
    near = rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]}…"
    return PatternError(
        f"bad condition {text!r}: syntax error at {where}, at {near!r}", hint=_hint(before, rest, found[3])
    )


def _hint(before: str, rest: str, said: str) -> str:
    """A hint for a text that is not CEL; empty if there is none."""
    word, previous = re.match(r"\w*", rest), re.search(r"(\w+)\s*$", before)
    for name in (word[0] if word else "", previous[1] if previous else ""):
        if name.lower() in _OPERATORS:
            return f"for {name.lower()!r} write {_OPERATORS[name.lower()]}"
    if rest.startswith("=") and not rest.startswith("=="):
        return "compare with =="
    if rest[:1] in {"'", '"'}:
        return "is a quote not closed, or an operator missing before it?"
    missing = re.match(r"Syntax error: missing '(.)'", said)
    return f"a {missing[1]} is missing" if missing else ""


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__


def _shallow(value: object, depth: int) -> bool:
    """Whether lists and dictionaries nest at most `depth` deep."""
    level: list[Any] = [item for item in (value,) if isinstance(item, _NESTING)]
    for _ in range(depth):
        if not level:
            break
        parts = [one.values() if isinstance(one, dict) else one for one in level]
        level = [item for part in parts for item in part if isinstance(item, _NESTING)]
    return not level


def _crossable(value: object) -> object:
    """`value` without the lone surrogates, the integers beyond 64 bits and the types that the library cannot take."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, bool | float | bytes) or value is None or callable(value):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else float(min(max(value, -(10**300)), 10**300))
    if isinstance(value, dict):
        return {_crossable(key): _crossable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_crossable(item) for item in value]
    return None
