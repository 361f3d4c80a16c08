"""`hooks new`: a working hook with tests that pass at once (issue 11, "For authors")."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bus.hooksets.hookfile import load_hook_file
from tests.cli_kit import fleethook

pytestmark = pytest.mark.req("F-11", "X-07")

PACK = "guards: {destructive-commands: {}}\n"
BEFORE = f"""\
# top
{PACK}
hooks:
  # mine
  - {{id: mine, on: session:end, command: "true"}}  # beside it

# end
"""
EVENTS = (
    "tool:pre_execute",
    "tool:pre_execute:write",
    "tool:pre_execute:web_fetch",
    "user:prompt_submit",
    "session:start",
    "agent:stop",
    "claude:Stop",
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository; git knows it as one, and no server is anywhere."""
    folder = tmp_path / "my project"
    (folder / ".git/objects").mkdir(parents=True)
    (folder / ".git/refs").mkdir()
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / "sub").mkdir()
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", f"unix://{folder}/none.sock")
    (tmp_path / "person").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.chdir(folder)
    return folder


def new(name: str, kind: str, on: str, *more: str) -> None:
    """Write one hook; it has to work."""
    url = ("--url", "http://localhost:9876/decide") if kind == "http" else ()
    result = fleethook("hooks", "new", name, "--kind", kind, "--on", on, "--yes", *url, *more)
    assert result.code == 0, result.err


def test_the_tests_of_new_hooks_of_every_kind_pass_together_beside_a_guard_pack(project: Path) -> None:
    """Of every event in one file: each run of `hooks test` and of `hooks check` runs the pack's own thousand tests too."""
    (project / "fleethook.yaml").write_text(BEFORE)
    for number, on in enumerate(EVENTS):
        for kind in ("rule", "command", "python", "http"):
            new(f"{kind}-{number}", kind, on)
    result = fleethook("hooks", "test")
    assert result.code == 0, result.out + result.err
    assert fleethook("hooks", "check").code == 0


def test_comments_and_order_stay_and_the_script_is_executable(project: Path) -> None:
    (project / "fleethook.yaml").write_text(BEFORE)
    new("style", "command", "tool:pre_execute:write")
    after = (project / "fleethook.yaml").read_text()
    added = [line for line in after.splitlines() if line not in BEFORE.splitlines()]
    old = [line for line in after.splitlines() if line and line not in added]
    assert old == [line for line in BEFORE.splitlines() if line]
    assert "on: tool:pre_execute:write" in after
    assert stat.S_IMODE((project / "hooks/style.sh").stat().st_mode) & 0o700 == 0o700


def test_a_command_of_the_project_runs_below_its_folder_too(project: Path) -> None:
    new("style", "python", "tool:pre_execute:write")
    event = ("tool:pre_execute:write", "--set", "path=a.style", "--cwd", str(project / "sub"))
    found = fleethook("hooks", "test", *event, "--file", "fleethook.yaml", "--run", "--json").json
    assert found["verdict"]["decision"] == "deny"


def test_nothing_is_overwritten(project: Path) -> None:
    new("style", "command", "tool:pre_execute:write")
    before = {path: path.read_text() for path in (project / "fleethook.yaml", project / "hooks/style.sh")}
    again = fleethook("hooks", "new", "style", "--yes")
    assert (again.code, "has a hook 'style' already" in again.err) == (4, True)
    (project / "hooks/other.py").write_text("mine")
    taken = fleethook("hooks", "new", "other", "--kind", "python", "--yes")
    assert (taken.code, "other.py: is there already" in taken.err) == (4, True)
    assert {path: path.read_text() for path in before} == before
    assert (project / "hooks/other.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("bad/name", "--yes"), 4, "is no id of a hook"),
        (("x", "--on", "tool:*", "--yes"), 4, "names more than one event type"),
        (("x", "--on", "tool:pre_exec", "--yes"), 4, "did you mean 'tool:pre_execute'"),
        (("x", "--kind", "http", "--yes"), 2, "an http hook needs --url"),
        (("x", "--kind", "http", "--url", "ftp://a", "--yes"), 4, "fleethook.yaml"),
        (("--yes",), 2, "say NAME"),
        (("x",), 2, "say --yes"),
        (("x", "--kind", "comand"), 2, "did you mean command?"),
    ],
)
def test_what_cannot_be_written_leaves_nothing_behind(
    project: Path, args: tuple[str, ...], code: int, says: str
) -> None:
    result = fleethook("hooks", "new", *args)
    assert (result.code, says in result.err) == (code, True), result.err
    assert not (project / "fleethook.yaml").exists()
    assert not (project / "hooks").exists()


def test_a_file_that_cannot_be_written_leaves_no_script(project: Path) -> None:
    (project / "fleethook.yaml").write_text("hooks: [\n")
    assert fleethook("hooks", "new", "x", "--kind", "command", "--yes").code == 4
    assert not (project / "hooks").exists()


def test_the_user_and_json_files_and_what_comes_next(project: Path, tmp_path: Path) -> None:
    first = fleethook("hooks", "new", "ours", "--yes")
    assert "fleethook hooks trust" in first.out
    new("mine", "command", "tool:pre_execute:bash", "--to", "user")
    user = tmp_path / "home/config/fleethook.yaml"
    assert fleethook("hooks", "test", "--file", str(user)).code == 0
    said = fleethook("hooks", "new", "more", "--to", "user", "--yes")
    assert f"hooks test --file {user}" in said.out
    assert "in force within a second" in said.out
    new("x", "python", "tool:pre_execute:bash", "--to", "other.json")
    assert [hook.id for hook in load_hook_file(project / "other.json", "user").hooks] == ["x"]
    assert fleethook("hooks", "test", "--file", "other.json").code == 0
    given = fleethook("hooks", "new", "y", "--kind", "command", "--yes", "--json").json
    assert (given["id"], given["needs_trust"], Path(given["script"]).name) == ("y", True, "y.sh")
    assert given["tests"] == ["y stops what it is for", "y lets everything else pass"]
    assert os.access(given["script"], os.X_OK)
