"""Trust in a project's hooks: by content, and taken back by any change of it."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from bus.errors import ConfigError
from bus.hooksets.trust import is_trusted, listed, project_file, trust, untrust

HOOKS = """
hooks:
  - {on: "*", command: ./check.sh --strict}
  - {on: "*", command: "sh -c 'python3 tools/a.py && $FLEETHOOK_CWD/tools/b.sh' /etc/hosts ../outside.sh"}
  - {on: "*", command: "'my scripts/c.sh'; ./d.sh", working_dir: sub}
  - {on: "*", rule: {decision: deny}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("check.sh", "tools/a.py", "tools/b.sh", "my scripts/c.sh", "sub/d.sh", "unnamed.sh"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "outside.sh").write_text("x")
    (folder / "fleethook.yaml").write_text(HOOKS)
    return folder / "fleethook.yaml"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state" / "trust.json"


@pytest.mark.req("G-20")
def test_nothing_is_trusted_before_somebody_says_so(project: Path, store: Path) -> None:
    assert not is_trusted(project, store)
    trust(project, store)
    assert is_trusted(project, store)
    assert [entry.path for entry in listed(store)] == [str(project)]
    assert untrust(project, store)
    assert not untrust(project, store)
    assert not is_trusted(project, store)
    assert listed(store) == ()


@pytest.mark.req("G-20")
@pytest.mark.parametrize(
    "changed", ["fleethook.yaml", "check.sh", "tools/a.py", "tools/b.sh", "my scripts/c.sh", "sub/d.sh"]
)
def test_changed_content_is_untrusted_again(project: Path, store: Path, changed: str) -> None:
    trust(project, store)
    target = project.parent / changed
    before = target.read_text()
    target.write_text(f"{before}\non_failure: deny\n" if changed == "fleethook.yaml" else f"{before}\n# changed\n")
    assert not is_trusted(project, store)
    target.write_text(before)
    assert is_trusted(project, store)
    target.unlink()
    assert not is_trusted(project, store)


def test_the_tests_and_the_comments_of_a_file_do_not_count(project: Path, store: Path) -> None:
    """Issue 11: only `hooks test` reads `tests:`, so a new test needs no new trust."""
    trust(project, store)
    for tests in ("", "\n# a comment\n", "\ntests: [{name: a, command: ls, expect: allow}]\n"):
        project.write_text(HOOKS + tests)
        assert is_trusted(project, store), tests
    project.write_text(HOOKS.replace("--strict", "--loose"))
    assert not is_trusted(project, store)


@pytest.mark.req("G-20")
def test_a_hook_that_takes_its_command_from_the_tests_counts(project: Path, store: Path) -> None:
    """An anchor in `tests:` is a way to change a hook without changing a line of `hooks:`."""
    text = "tests: [{name: &it ./a.sh, command: ls, expect: allow}]\nhooks: [{on: '*', command: *it}]\n"
    project.write_text(text)
    trust(project, store)
    project.write_text(text.replace("./a.sh", "./b.sh"))
    assert not is_trusted(project, store)


def test_what_no_command_names_does_not_count(project: Path, store: Path) -> None:
    trust(project, store)
    (project.parent / "unnamed.sh").write_text("changed")
    (project.parent.parent / "outside.sh").write_text("changed")
    assert is_trusted(project, store)


def test_a_named_file_that_appears_later_takes_the_trust_back(project: Path, store: Path) -> None:
    (project.parent / "check.sh").unlink()
    trust(project, store)
    (project.parent / "check.sh").write_text("surprise")
    assert not is_trusted(project, store)


def test_trust_belongs_to_the_real_place(project: Path, store: Path, tmp_path: Path) -> None:
    trust(project, store)
    link = tmp_path / "link"
    link.symlink_to(project.parent)
    assert is_trusted(link / "fleethook.yaml", store)
    copy = tmp_path / "copy" / "fleethook.yaml"
    copy.parent.mkdir()
    copy.write_text(HOOKS)
    assert not is_trusted(copy, store)


def test_what_cannot_be_read_cannot_be_trusted(project: Path, store: Path) -> None:
    trust(project, store)
    project.write_text("hooks: [")
    assert not is_trusted(project, store)
    with pytest.raises(ConfigError, match=r"fleethook\.yaml:\d+:\d+"):
        trust(project, store)
    project.unlink()
    assert not is_trusted(project, store)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"trusted": {"/x": 3}}', b"[" * 100_000])
def test_a_broken_store_trusts_nobody_and_says_so(project: Path, store: Path, content: bytes) -> None:
    trust(project, store)
    store.write_bytes(content)
    assert not is_trusted(project, store)
    for ask in (lambda: listed(store), lambda: trust(project, store)):
        with pytest.raises(ConfigError, match="not a list of trusted folders"):
            ask()


def test_a_store_that_others_can_write_trusts_nobody(project: Path, store: Path) -> None:
    trust(project, store)
    assert store.stat().st_mode & 0o777 == 0o600
    assert store.parent.stat().st_mode & 0o777 == 0o700
    store.chmod(0o620)
    assert not is_trusted(project, store)
    store.chmod(0o600)
    elsewhere = store.with_name("elsewhere.json")
    store.rename(elsewhere)
    store.symlink_to(elsewhere)
    assert not is_trusted(project, store)


def _trust_some(folder: Path, store: Path) -> None:
    for file in sorted(folder.glob("*/fleethook.yaml")):
        trust(file, store)


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path, store: Path) -> None:
    for number in range(24):
        file = tmp_path / f"half{number % 2}" / str(number) / "fleethook.yaml"
        file.parent.mkdir(parents=True)
        file.write_text("hooks: []")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_trust_some, args=(tmp_path / f"half{half}", store)) for half in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
        writer.close()
    assert len(listed(store)) == 24
    assert len(json.loads(store.read_bytes())["trusted"]) == 24
    assert sorted(os.listdir(store.parent)) == ["trust.json", "trust.lock"]


def test_the_nearest_file_upward_is_the_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    deep = home / "repo" / "pkg" / "src"
    deep.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (home / "fleethook.yaml").write_text("")
    assert project_file(deep) is None  # the home directory is nobody's project
    assert project_file(home) is None
    (home / "repo" / "fleethook.json").write_text("{}")
    assert project_file(deep) == home / "repo" / "fleethook.json"
    (home / "repo" / "pkg" / ".git").write_text("gitdir: elsewhere")
    assert project_file(deep) is None  # a repository inside another is a project of its own
    (home / "repo" / "pkg" / "fleethook.yml").write_text("")
    assert project_file(deep) == home / "repo" / "pkg" / "fleethook.yml"
    assert project_file(deep, user=home / "repo" / "pkg" / "fleethook.yml") is None  # where the user keeps the own file
    assert project_file(tmp_path / "gone") is None
