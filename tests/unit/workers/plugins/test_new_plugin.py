"""What `plugins new` writes, for names that are no usual ones; the page on plugins runs a usual one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bus.errors import ConfigError
from workers.plugins.new_plugin import new_plugin, write_plugin

pytestmark = pytest.mark.req("G-11")


def test_a_name_of_one_of_pythons_own_modules_makes_a_working_plugin(tmp_path: Path) -> None:
    """Pytest puts the test's folder before Python's own: a `json.py` there would be imported as `json`."""
    for name in ("json", "secrets", "a-b2_c"):
        write_plugin(new_plugin(name, tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("test_")) == [
        "a_b2_c.py",
        "json_plugin.py",
        "secrets_plugin.py",
    ]
    runs = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(runs, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "6 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["", "3d", "Guard", "a--b", "-a", "../x", "\u00e4", "a" * 65, "a\n"])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no name of a plugin"):
        new_plugin(name, tmp_path)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_plugin(new_plugin("guard", tmp_path))
    with pytest.raises(ConfigError, match="nothing is overwritten"):
        new_plugin("guard", tmp_path)
