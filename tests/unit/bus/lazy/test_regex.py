"""A lazy expression is the expression that `re.compile` gives, later."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from bus.lazy.regex import lazy_regex

pytestmark = pytest.mark.req("X-14")


def test_it_does_what_the_compiled_one_does() -> None:
    lazy, compiled = lazy_regex(r"(?P<word>b+) | x", re.VERBOSE), re.compile(r"(?P<word>b+) | x", re.VERBOSE)
    text = "abba x bb"
    for _ in range(2):  # the first use compiles
        assert lazy.findall(text) == compiled.findall(text)
        assert lazy.sub(r"<\g<word>>", text) == compiled.sub(r"<\g<word>>", text)
        assert [one.span() for one in lazy.finditer(text)] == [one.span() for one in compiled.finditer(text)]
        found = lazy.search(text, 4)
        assert found is not None
        assert found.re is re.compile(lazy.pattern, re.VERBOSE)
        assert lazy.match(text) is lazy.fullmatch(text) is None
        assert lazy.split("abc") == compiled.split("abc")


def test_of_bytes_too() -> None:
    assert lazy_regex(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_a_wrong_pattern_raises_at_its_first_use_and_each_time() -> None:
    wrong = lazy_regex("(")
    for _ in range(2):
        with pytest.raises(re.error):
            wrong.search("")


def test_a_name_that_no_expression_has_is_an_attribute_error() -> None:
    assert not hasattr(lazy_regex("x"), "serch")


def test_our_own_expressions_are_right_and_none_is_compiled_by_importing_it() -> None:
    """Every one compiles, in a process of its own: another test may have used them."""
    program = """
import importlib, pkgutil, re._compiler
import bus, workers.cli.output
from bus.lazy import regex as lazy_regex
compile_now, own = re._compiler.compile, []
def compiled(pattern, flags=0):
    import sys
    frame = sys._getframe(1)
    while "/re/" in frame.f_code.co_filename: frame = frame.f_back
    if any(f"/bus/{name}/" in frame.f_code.co_filename for name in LAZY): own.append(frame.f_code.co_filename)
    return compile_now(pattern, flags)
re._compiler.compile = compiled
LAZY = ("shell", "matching", "secrets")
for name in LAZY:
    package = importlib.import_module(f"bus.{name}")
    for found in pkgutil.walk_packages(package.__path__, f"bus.{name}."): importlib.import_module(found.name)
assert not own, f"compiled at the import, where bus.lazy.regex waits for the first use: {own}"
import gc
lazy = [one for one in gc.get_objects() if isinstance(one, lazy_regex._Uncompiled)]
assert len(lazy) > 200, len(lazy)
for one in lazy: one.pattern and one.search(one.pattern[:0])
assert not [one for one in gc.get_objects() if isinstance(one, lazy_regex._Uncompiled)]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
