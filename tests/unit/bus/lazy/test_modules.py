"""A lazy module is the module, later."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bus.lazy.modules import lazy_module

pytestmark = pytest.mark.req("X-14")


def test_it_has_the_names_of_the_module_and_is_imported_at_the_first() -> None:
    """In a process of its own, which has not imported it."""
    program = """
import sys
from bus.lazy.modules import lazy_module
colorsys = lazy_module("colorsys")
assert "colorsys" not in sys.modules
assert colorsys.rgb_to_hsv(1, 1, 1) == (0, 0, 1)
assert colorsys.hsv_to_rgb is sys.modules["colorsys"].hsv_to_rgb
assert type(colorsys) is type(sys)
import bus.config.documents
assert "yaml" not in sys.modules
assert bus.config.documents.loads("a: 1", file="x.yaml").value == {"a": 1}
assert "yaml" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_module_that_is_not_there_is_an_error_at_its_use() -> None:
    missing = lazy_module("no_such_module_of_ours")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            missing.something  # noqa: B018 - the use


def test_a_name_that_the_module_has_not_is_an_attribute_error() -> None:
    assert not hasattr(lazy_module("json"), "no_such_name")
