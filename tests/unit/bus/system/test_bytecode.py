"""Bytecode of an `up` in an environment where Python keeps none."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from bus.system.bytecode import _is_current

PROGRAM = """
import sys
from pathlib import Path
from bus.system.bytecode import kept_bytecode

before = sys.pycache_prefix, sys.dont_write_bytecode
with kept_bytecode(Path(sys.argv[1])):
    import looked_for
assert (sys.pycache_prefix, sys.dont_write_bytecode) == before
"""


@pytest.mark.req("X-14")
@pytest.mark.parametrize("writes", [False, True], ids=["Python keeps none", "Python keeps it"])
def test_bytecode_is_kept_where_python_keeps_none(tmp_path: Path, writes: bool) -> None:
    (tmp_path / "looked_for.py").write_text("found = 1\n")
    kept, usual = tmp_path / "kept", tmp_path / "usual"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "PYTHONPYCACHEPREFIX": str(usual),
    }
    environment["PYTHONDONTWRITEBYTECODE"] = "" if writes else "1"
    subprocess.run([sys.executable, "-c", PROGRAM, str(kept)], env=environment, check=True)
    in_ours, in_pythons = (
        [path.name.partition(".")[0] for path in folder.rglob("looked_for*.pyc")] for folder in (kept, usual)
    )
    assert (in_ours, in_pythons) == ([], ["looked_for"]) if writes else (["looked_for"], [])
    assert not kept.exists() or kept.stat().st_mode & 0o777 == 0o700


@pytest.mark.req("X-14")
def test_bytecode_of_an_older_source_does_not_count(tmp_path: Path) -> None:
    source, cached = tmp_path / "one.py", tmp_path / "one.pyc"
    source.write_text("value = 1\n")
    assert not _is_current(str(source), str(cached))
    py_compile.compile(str(source), cfile=str(cached))
    assert _is_current(str(source), str(cached))
    source.write_text("value = 20\n")
    assert not _is_current(str(source), str(cached))
    py_compile.compile(str(source), cfile=str(cached), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert _is_current(str(source), str(cached))
    cached.write_bytes(b"damaged")
    assert not _is_current(str(source), str(cached))
