"""What code of other languages on a command line prints: `python -c 'print("/etc")'`, `node -p '"/etc"'`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import names
from bus.shell.python_code import PythonCode
from bus.shell.words import UNKNOWN

_LONGEST: Final = 4 * 1024
_MOST: Final = 64
_PYTHONS: Final = names("python python2 python3 pypy3")
_LANGUAGES: Final = names("perl ruby node php")
CODE: Final = _PYTHONS | _LANGUAGES
"""The programs whose code is looked at."""
_CODE_OPTIONS: Final = names("-c -e -E -p -r -le -ne --eval --print")
_PRINTED: Final = lazy_regex(
    r"""\s*(?:(?:print|puts|say|echo|console\.log|process\.stdout\.write)\b\s*\(?\s*)?(['"])([^'"\\$#]*)(?:\\n)?\1\s*\)?\s*;?\s*"""
)


def printed_by_code(program: str, words: Sequence[str]) -> str | None:
    """The text that a program prints which runs the code among its arguments; None if it is not known."""
    place = next((place for place, word in enumerate(words) if word in _CODE_OPTIONS), None)
    code = words[place + 1] if place is not None and place + 1 < len(words) else ""
    if not code or len(code) > _LONGEST:
        return None
    if program not in _PYTHONS:
        match = _PRINTED.fullmatch(code)
        return match[2] if match else None
    return _by_python(code)


def _by_python(code: str) -> str | None:
    """The one text that Python code prints: `import bus; print(bus.__file__)`."""
    if "print(" not in code or UNKNOWN in code:
        return None
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    printed = [
        one.value
        for one in tree.body
        if isinstance(one, ast.Expr)
        and isinstance(one.value, ast.Call)
        and getattr(one.value.func, "id", "") == "print"
    ]
    if len(printed) != 1 or len(printed[0].args) != 1:
        return None
    reader = PythonCode()
    list(islice(reader.calls(tree), _MOST))  # for the names and values of the code before it
    text = reader.argument(printed[0])
    return None if UNKNOWN in text else text
