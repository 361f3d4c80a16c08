"""The hook templates, run for real: an audit log, a desktop notification, a commit of each written file (F-14)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bus.errors import NotFound
from bus.events import Event
from bus.hooksets.hookfile import load_hook_file, parse_hook_file
from bus.hooksets.templates import names, template
from bus.matching.patterns import Index
from bus.runners.command import run_command
from bus.system.processes import Finished
from tests.cli_kit import fleethook


def run(name: str, event: Event) -> Finished:
    """One run of a template's hook, as a carrier makes it."""
    (hook,) = parse_hook_file(template(name).text, "user").hooks
    assert Index([(hook, hook.on)]).find(event), "the event is one that it is for"
    return asyncio.run(run_command(hook, event, hook.timeout))


def git(folder: Path, *args: str) -> str:
    """What a git command prints."""
    return subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True).stdout.strip("\n")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, of a person whose git knows who that is."""
    home, folder = tmp_path / "home", tmp_path / "repository"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / ".gitconfig").write_text("[user]\n name = A\n email = a@example.com\n[init]\n defaultBranch = main\n")
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "old.txt").write_text("old\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def wrote(folder: Path, path: str, *, tool: str = "write", **more: Any) -> Event:
    """An agent has written a file."""
    return Event(type="tool:post_execute", source="claude", tool=tool, cwd=str(folder), input={"path": path}, **more)


@pytest.mark.req("F-14")
def test_each_written_file_is_committed_alone(repository: Path) -> None:
    (repository / "staged.txt").write_text("the person's own")
    git(repository, "add", "staged.txt")
    name = "a $(touch owned) 'name'.txt"
    (repository / name).write_text("new")
    done = run("git-auto-commit", wrote(repository, str(repository / name)))
    assert (done.exit_code, done.stderr) == (0, b"")
    assert git(repository, "log", "-1", "--format=%s") == f"claude: write {name}"
    assert git(repository, "show", "--name-only", "--format=").strip('"') == name
    assert git(repository, "diff", "--cached", "--name-only") == "staged.txt", "what was staged stays staged"
    assert not (repository / "owned").exists(), "a file's name is no command"
    (repository / "old.txt").write_text("edited")
    assert run("git-auto-commit", wrote(repository, "old.txt", tool="edit")).exit_code == 0
    assert git(repository, "log", "-1", "--format=%s") == "claude: edit old.txt"


@pytest.mark.req("F-14")
def test_what_is_none_of_its_business_is_left_alone(repository: Path, tmp_path: Path) -> None:
    before = git(repository, "rev-parse", "HEAD")
    (repository / "x.log").write_text("ignored")
    (tmp_path / "outside.txt").write_text("x")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "x.txt").write_text("x")
    for path in (repository / "x.log", tmp_path / "outside.txt", other / "x.txt", repository / "gone.txt", "old.txt"):
        assert run("git-auto-commit", wrote(repository, str(path))).exit_code == 0
    assert run("git-auto-commit", wrote(tmp_path, str(tmp_path / "outside.txt"))).exit_code == 0, "no repository"
    (repository / "old.txt").write_text("in a merge")
    (repository / ".git" / "MERGE_HEAD").write_text(before)
    assert run("git-auto-commit", wrote(repository, "old.txt")).exit_code == 0
    assert git(repository, "rev-parse", "HEAD") == before


@pytest.mark.req("F-14")
def test_a_repository_without_a_branch_or_in_the_middle_of_something_is_left_alone(repository: Path) -> None:
    git(repository, "checkout", "-qb", "side")
    (repository / "old.txt").write_text("side\n")
    git(repository, "commit", "-qam", "side")
    git(repository, "checkout", "-q", "main")
    (repository / "old.txt").write_text("main\n")
    git(repository, "commit", "-qam", "main")
    assert subprocess.run(["git", "merge", "-q", "side"], cwd=repository, capture_output=True, check=False).returncode
    before = git(repository, "rev-parse", "HEAD")
    assert run("git-auto-commit", wrote(repository, "old.txt")).exit_code == 0
    assert git(repository, "rev-parse", "HEAD", "MERGE_HEAD").splitlines()[0] == before, "the merge goes on"
    git(repository, "merge", "--abort")
    git(repository, "checkout", "-q", "--detach")
    (repository / "old.txt").write_text("detached\n")
    assert run("git-auto-commit", wrote(repository, "old.txt")).exit_code == 0
    assert git(repository, "rev-parse", "HEAD") == before


@pytest.mark.req("F-14")
def test_what_gits_own_hooks_refuse_is_as_it_was_and_a_name_is_no_pattern(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho the tests fail >&2\nexit 1\n")
    hook.chmod(0o755)
    (repository / "new.txt").write_text("new")
    refused = run("git-auto-commit", wrote(repository, "new.txt"))
    assert refused.exit_code == 1
    assert b"the tests fail" in refused.stderr
    assert git(repository, "status", "--porcelain") == "?? new.txt", "it is not staged"
    hook.unlink()
    names = ("*.txt", ":(top)odd.txt", "-rf", "two\nlines.txt", " ünï ")
    for name in names:
        (repository / name).write_text(name)
        assert run("git-auto-commit", wrote(repository, f"./{name}")).exit_code == 0
        shown = git(repository, "show", "--name-only", "--format=", "-z")
        assert shown == f"{name}\0", "that file, and no other"
    before = git(repository, "rev-parse", "HEAD")
    assert run("git-auto-commit", wrote(repository, "./-rf")).exit_code == 0
    assert git(repository, "rev-parse", "HEAD") == before, "nothing changed, so nothing is committed"
    assert git(repository, "status", "--porcelain") == "?? new.txt"


@pytest.mark.req("F-14")
def test_without_a_known_person_the_commit_has_the_agents_name(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n useConfigOnly = true\n")
    (repository / "old.txt").write_text("newer\n")
    done = run("git-auto-commit", wrote(repository, "old.txt"))
    assert (done.exit_code, done.stderr) == (0, b"")
    assert git(repository, "log", "-1", "--format=%an <%ae>") == "claude <claude@localhost>"


@pytest.mark.req("F-14")
def test_the_audit_log_has_a_line_for_each_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AUDIT_LOG", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for command in ("ls", "echo 'two\nlines'"):
        event = Event(type="tool:pre_execute", tool="bash", cwd=str(tmp_path), input={"command": command})
        assert run("audit-log", event).exit_code == 0
    file = tmp_path / ".local/state/fleethook/audit.jsonl"
    assert [json.loads(line)["input"]["command"] for line in file.read_text().splitlines()] == [
        "ls",
        "echo 'two\nlines'",
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("AUDIT_LOG", str(tmp_path / "mine.jsonl"))
    assert run("audit-log", Event(type="session:end", cwd=str(tmp_path))).exit_code == 0
    assert len((tmp_path / "mine.jsonl").read_text().splitlines()) == 1


@pytest.mark.req("F-14")
def test_the_desktop_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program that this desktop has; here it writes down what it was given."""
    program = tmp_path / "bin" / "notify-send"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/told\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    done = run("desktop-notification", Event(type="agent:stop", source="codex", cwd=str(tmp_path)))
    assert done.exit_code == 0
    assert (tmp_path / "told").read_text().splitlines() == [
        "-a",
        "Fleethook",
        "--",
        "codex",
        f"has finished in {tmp_path}",
    ]
    run("desktop-notification", Event(type="notification", source="claude", cwd=str(tmp_path)))
    assert "waits for you" in (tmp_path / "told").read_text()
    program.unlink()
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    alone = run("desktop-notification", Event(type="notification", cwd=str(tmp_path)))
    assert alone.exit_code in {0, 1}, "0 only where this machine has a desktop"


@pytest.mark.req("F-14", "G-21", "I-11")
def test_templates_are_installable_by_name(tmp_path: Path) -> None:
    user = tmp_path / "home" / "config" / "fleethook.yaml"
    listed = fleethook("hooks", "templates", "list", "--json").json
    assert [one["name"] for one in listed] == list(names())
    sections = {one["name"]: one["section"] for one in listed}
    assert sections == {
        "audit-log": "hooks",
        "code-guardian": "plugins",
        "desktop-notification": "hooks",
        "egress-after-secret": "hooks",
        "git-auto-commit": "hooks",
        "memory": "import",
        "slack": "endpoints",
        "stop-loop": "hooks",
        "tests-before-done": "hooks",
    }
    assert fleethook("hooks", "templates", "show", "audit-log").out.strip() == template("audit-log").text.strip()
    assert fleethook("hooks", "templates", "install", "slack", "--yes").code == 2, "it needs a URL"
    url = "https://hooks.slack.com/services/" + "/".join(("T0", "B0", "x" * 24))
    for name in names():
        done = fleethook("hooks", "templates", "install", name, "--yes", *(["--url", url] if name == "slack" else []))
        assert done.code == 0, done.err
    assert "already" in fleethook("hooks", "templates", "install", "audit-log", "--yes").err
    assert "already" in fleethook("hooks", "templates", "install", "memory", "--yes").err
    file = load_hook_file(user, "user")
    assert (file.problems, file.warnings) == ((), ())
    assert {hook.id for hook in file.hooks} >= {"audit-log", "desktop-notification", "git-auto-commit"}
    assert [endpoint.url for endpoint in file.endpoints] == [url]
    assert [plugin.path for plugin in file.plugins] == [str(user.parent / "plugins" / "code_guardian.py")]
    assert {hook.plugin for hook in file.hooks} >= {"code-guardian", "memory"}
    assert "# Commits each file" in user.read_text(), "what is said about them comes along"
    assert all(one["installed"] for one in fleethook("hooks", "templates", "list", "--json").json)
    assert fleethook("hooks", "templates", "show", "audit").code == 1
    thin = (
        "hooks",
        "templates",
        "install",
        "slack",
        "--url",
        url,
        "--thin",
        "--to",
        str(tmp_path / "thin.yaml"),
        "--yes",
    )
    assert fleethook(*thin).code == 0
    assert [one.payload for one in (*file.endpoints, *load_hook_file(tmp_path / "thin.yaml", "user").endpoints)] == [
        "full",
        "thin",
    ]
    assert fleethook("hooks", "templates", "install", "audit-log", "--thin", "--yes").code == 2, "it posts nothing"
    with pytest.raises(NotFound, match="audit-log"):
        template("audit-lgo")


@pytest.mark.req("G-21", "I-11")
def test_an_own_file_is_not_overwritten_and_without_a_yes_nothing_is_left(tmp_path: Path) -> None:
    config = tmp_path / "home" / "config"
    said = fleethook("hooks", "templates", "install", "memory")
    assert (said.code, "no terminal" in said.err) == (2, True)
    assert not (config / "plugins" / "memory").exists()
    mine = config / "plugins" / "code_guardian.py"
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("# mine\n")
    refused = fleethook("hooks", "templates", "install", "code-guardian", "--yes")
    assert (refused.code, "overwrites nothing" in refused.err) == (4, True)
    assert mine.read_text() == "# mine\n"
    assert not (config / "fleethook.yaml").exists()
