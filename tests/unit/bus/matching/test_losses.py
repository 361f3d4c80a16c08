"""What git and the disk say about what a command would lose."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bus.events import Event
from bus.ids import host_name
from bus.matching.command_match import CommandMatch
from bus.matching.losses import _differs
from bus.matching.rules import Rule, judge

RESET = Rule(commands=(CommandMatch(program=("git",), flags_any=("--hard",), loses=("uncommitted",)),))
RESTORE = Rule(commands=(CommandMatch(program=("git",), subcommand=("checkout",), loses=("uncommitted",)),))
CLEAN = Rule(commands=(CommandMatch(program=("git",), subcommand=("clean",), loses=("untracked",)),))
EMPTY = Rule(commands=(CommandMatch(program=("", ":", "cp", "truncate"), loses=("contents",)),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    git("config", "user.email", "dev@example.com")
    git("config", "user.name", "dev")
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    git("add", ".")
    git("commit", "-qm", "first")
    return tmp_path


def fits(rule: Rule, folder: Path, command: str, host: str = "") -> bool:
    _differs.cache_clear()
    event = Event(type="tool:pre_execute", tool="bash", cwd=str(folder), host=host, input={"command": command})
    return judge(rule, event) is not None


@pytest.mark.req("X-09")
def test_a_reset_counts_where_something_is_not_committed(folder: Path) -> None:
    assert not fits(RESET, folder, "git reset --hard")
    assert not fits(RESET, folder, "git reset --har", host_name())
    assert fits(RESET, folder, "git reset --hard", "elsewhere"), "another host's disk cannot be asked"
    assert fits(RESET, folder, "git -C /nowhere-at-all reset --hard")
    (folder / "new.txt").write_text("x")
    assert not fits(RESET, folder, "git reset --hard"), "a file that git does not know stays"
    (folder / "a.txt").write_text("two\n")
    assert fits(RESET, folder, "git reset --hard")
    assert fits(RESET, folder, "git reset --har")
    assert fits(RESTORE, folder, "git checkout -- a.txt")
    assert not fits(RESTORE, folder, "git checkout -- .gitignore")


@pytest.mark.req("X-09")
def test_a_clean_counts_where_git_does_not_know_a_file(folder: Path) -> None:
    assert not fits(CLEAN, folder, "git clean -fd")
    (folder / "x.log").write_text("x")
    assert not fits(CLEAN, folder, "git clean -fd")
    assert fits(CLEAN, folder, "git clean -fdx")
    (folder / "new.txt").write_text("x")
    assert fits(CLEAN, folder, "git clean -fd")


@pytest.mark.req("X-09")
def test_a_redirection_counts_where_the_file_holds_something(folder: Path) -> None:
    (folder / "empty").touch()
    for line in ("> a.txt", ": > a.txt", "cp /dev/null a.txt", "truncate -s 0 a.txt", "cd . && > a.txt", "> $X"):
        assert fits(EMPTY, folder, line), line
    for line in ("> empty", ": > new", ": >> a.txt", "cp /dev/null new", "truncate -s 0 empty"):
        assert not fits(EMPTY, folder, line), line
    assert fits(EMPTY, folder, "> new", "elsewhere")


@pytest.mark.req("X-09")
def test_git_runs_nothing_that_the_repository_names(folder: Path) -> None:
    marker = folder / "ran"
    program = folder / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    program.chmod(0o755)
    for key in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor", "core.pager", "diff.external"):
        subprocess.run(["git", "config", key, str(program)], cwd=folder, check=True)
    (folder / ".gitattributes").write_text("* filter=evil\n")
    (folder / "a.txt").write_text("two\n")
    assert fits(RESET, folder, "git reset --hard")
    assert fits(CLEAN, folder, "git clean -fd")
    assert not marker.exists()
