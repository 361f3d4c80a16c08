"""A run in forked processes reports every test once, also when a process dies (tests/support/processes.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.schedule import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="make test forks on Linux alone")

CONFTEST = """
from tests.support.processes import Processes

def pytest_configure(config):
    config.pluginmanager.register(Processes(2), "processes")
"""
SHARED = """
import os, warnings
from pathlib import Path
import pytest

@pytest.fixture(scope="session", autouse=True)
def shared(tmp_path_factory):
    yield
    (Path(__file__).parent / f"ended-{os.getpid()}").write_text(str(tmp_path_factory.getbasetemp()))
"""
FIRST = (
    SHARED
    + """
def test_passes(capfd):
    os.write(1, b"mine")
    assert capfd.readouterr().out == "mine"

def test_fails():
    print("what it", "printed")
    assert False, "as it should"

@pytest.mark.filterwarnings("default")
def test_warns():
    warnings.warn("look out")
"""
)
SECOND = (
    SHARED
    + """
def test_before():
    pass

def test_dies():
    if os.fork() == 0:  # it keeps its end of the pipe, so the other process cannot tell by that
        os.execvp("sleep", ["sleep", "5"])
    os._exit(1)

def test_after():
    pass
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("conftest", CONFTEST), ("test_first", FIRST), ("test_second", SECOND)):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def run(folder: Path, *more: str) -> str:
    """What pytest says of the tests in the folder."""
    words = [sys.executable, "-m", "pytest", "-rA", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    command = [*words, "-p", "no:hypothesispytest", "-p", "no:fleethook", "--rootdir", str(folder), str(folder), *more]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_every_test_is_reported_once_and_a_process_that_dies_fails_its_test_alone(folder: Path) -> None:
    said = run(folder)
    assert "2 failed, 4 passed, 1 warning" in said
    summary = said.partition("short test summary info")[2]
    for outcome, name in (
        ("PASSED", "first.py::test_passes"),
        ("FAILED", "first.py::test_fails - AssertionError: as it should"),
        ("PASSED", "first.py::test_warns"),
        ("PASSED", "second.py::test_before"),
        ("FAILED", "second.py::test_dies - process p"),
        ("PASSED", "second.py::test_after"),
    ):
        assert summary.count(f"{outcome} test_{name}") == 1, said
    assert said.count("what it printed") == 1
    assert "UserWarning: look out" in said
    ended = [path.read_text(encoding="utf-8") for path in folder.glob("ended-*")]
    assert len(ended) == len(set(ended)) >= 1, "a process that ran tests took down what they shared, in its own folder"


def test_a_run_ends_after_the_first_failure_where_that_is_wanted(folder: Path) -> None:
    said = run(folder, "-x", "-k", "first")
    assert "1 failed, 1 passed" in said
    assert "stopping after 1 failures" in said
