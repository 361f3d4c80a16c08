"""The branch that a git command works on, read from the disk of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.events import Event
from bus.hooksets.guards import load_pack
from bus.matching.facts.branches import branch_of
from bus.matching.paths import place_of
from bus.matching.rules import judge
from bus.shell import commands


def repository(folder: Path, branch: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    (folder / "src").mkdir()
    return folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    repository(tmp_path / "shop", "main")
    repository(tmp_path / "lib", "feature/login")
    worktree = tmp_path / "fix"
    worktree.mkdir()
    (tmp_path / "shop" / ".git" / "worktrees" / "fix").mkdir(parents=True)
    (tmp_path / "shop" / ".git" / "worktrees" / "fix" / "HEAD").write_text("ref: refs/heads/release/2\n")
    (worktree / ".git").write_text("gitdir: ../shop/.git/worktrees/fix\n")
    (tmp_path / "loose" / ".git").mkdir(parents=True)
    (tmp_path / "loose" / ".git" / "HEAD").write_text("0123456789012345678901234567890123456789\n")
    return tmp_path / "shop"


@pytest.mark.req("X-07")
@pytest.mark.parametrize(
    ("line", "branch"),
    [
        ("git commit -m x", "main"),
        ("cd src && git commit -m x", "main"),
        ("git -C ../lib commit -m x", "feature/login"),
        ("cd ../lib/src; git commit", "feature/login"),
        ("git -C ../fix push", "release/2"),
        ("git -C ../loose commit", ""),
        ("git -C .. commit", ""),
        ("git -C $X commit", ""),
        ("git --git-dir=../lib/.git commit", ""),
    ],
)
def test_the_branch_is_that_of_the_folder_that_git_works_in(shop: Path, line: str, branch: str) -> None:
    command = commands(line).items[-1]
    assert branch_of(command, place_of(str(shop))) == branch


@pytest.mark.req("X-07")
def test_the_branch_of_another_machine_is_not_known(shop: Path) -> None:
    assert branch_of(commands("git commit").items[-1], place_of(str(shop), here=False)) == ""


@pytest.mark.req("X-07")
@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("git commit -m x", {"protected-commit"}),
        ("git push", {"protected-push"}),
        ("git push -u origin HEAD", {"protected-push"}),
        ("git push origin topic", set()),
        ("git -C ../lib commit -m x", set()),
        ("git -C ../lib push", set()),
        ("git -C ../fix push origin", {"protected-push"}),
        ("git status", set()),
    ],
)
def test_the_pack_asks_about_commits_and_pushes_on_a_protected_branch(shop: Path, line: str, rules: set[str]) -> None:
    event = Event(type="tool:pre_execute", tool="bash", cwd=str(shop), input={"command": line})
    shell = [hook for hook in load_pack("git").rules if hook.tool == "bash"]
    assert {
        hook.id.removeprefix("git_") for hook in shell if hook.rule is not None and judge(hook.rule, event) is not None
    } == rules
