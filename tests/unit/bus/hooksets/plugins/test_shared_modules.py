"""Plugins that have state in common, and the variables of the environment that a plugin's source reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.hooksets.plugins.environment_reads import variables_read
from bus.hooksets.plugins.shared_modules import imported_files, state_files
from tests.support.rows import rows


def write(folder: Path, **sources: str) -> None:
    for name, text in sources.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.req("G-11", "G-13")
@rows(
    ("helper", "use", "shared"),
    [
        ("SEEN = {}\n", "helper.SEEN['a'] = 1\n", True),
        ("SEEN: set[str] = set()\ndef note(x):\n    SEEN.add(x)\n", "", True),
        ("COUNT = 0\ndef note():\n    global COUNT\n    COUNT += 1\n", "", True),
        ("class Store: pass\nSTORE = Store()\n", "", True),
        ("import collections\nBY = collections.Counter()\n", "helper.BY.update('a')\n", True),
        ("WORDS = ['a', 'b']\nPATHS = {'a': 1}\n", "x = helper.PATHS['a'] == 1\n", False),
        ("import logging\nlog = logging.getLogger('x')\ndef shout(x): return x.upper()\n", "", False),
        ("def broken(:\n", "", False),
    ],
)
def test_a_module_beside_plugins_is_shared_where_it_keeps_state(
    tmp_path: Path, helper: str, use: str, shared: bool
) -> None:
    write(tmp_path, helper=helper, one=f"import helper\n{use}", two="def later():\n    from helper import *\n")
    one, two = (state_files(str(tmp_path / f"{name}.py")) for name in ("one", "two"))
    both = state_files(str(tmp_path / "one.py")) & state_files(str(tmp_path / "two.py"))
    assert (str(tmp_path / "helper.py") in one) is shared
    assert {str(tmp_path / "one.py")} <= one
    assert {str(tmp_path / "two.py")} <= two
    if not use:
        assert bool(both) is shared


def test_imports_are_followed_into_packages_and_by_dots(tmp_path: Path) -> None:
    write(
        tmp_path,
        one="from .kit import words\nimport os\n",
        kit__words="",
        kit__store="KEPT = {}\nKEPT['x'] = 1\n",
    )
    (tmp_path / "kit" / "__init__.py").write_text("from kit.store import KEPT\n")
    found = {Path(path).relative_to(tmp_path).as_posix() for path in imported_files(str(tmp_path / "one.py"))}
    assert found == {"kit/__init__.py", "kit/words.py", "kit/store.py"}
    assert str(tmp_path / "kit" / "store.py") in state_files(str(tmp_path / "one.py"))


@pytest.mark.req("G-11")
@rows(
    ("source", "names"),
    [
        ("import os\nx = os.environ['TOKEN']\ny = os.environ.get('MODE', '')\n", "TOKEN:2 MODE:3"),
        ("from os import environ, getenv\ndef f():\n    return getenv('A'), environ['B']\n", "A:3 B:3"),
        ("import os\nNAME = 'KEY'\nprint(os.getenv(NAME), 'CI' in os.environ)\n", "KEY:3 CI:3"),
        (
            "import os\nos.environ['SET'] = '1'\nprint(os.environ['SET'], os.environ['HOME'], os.environ['LC_ALL'])\n",
            "",
        ),
        ("import os\nprint(os.environ.get('PASSED'))\n", ""),
    ],
)
def test_variables_that_a_source_reads_are_known_before(tmp_path: Path, source: str, names: str) -> None:
    write(tmp_path, one=source)
    found = variables_read(str(tmp_path / "one.py"), ["PASSED"])
    assert sorted(f"{read.name}:{read.line}" for read in found) == sorted(names.split())
