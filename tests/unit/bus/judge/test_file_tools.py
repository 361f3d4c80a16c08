"""The tools of agent hooks: what they read, and what they refuse."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bus.judge import file_tools
from bus.judge.file_tools import MOST_RESULT, FileTools, is_secret_path
from tests.support.rows import rows

pytestmark = pytest.mark.req("I-12")
LATER = time.monotonic() + 3600


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    for folder in ("src/deep", ".git", "node_modules/x", ".ssh"):
        (root / folder).mkdir(parents=True)
    for name, text in (
        ("src/app.py", "import os\ndef pay():\n    return 1\n"), ("src/deep/b.ts", "pay()\n"), ("README.md", "# Shop\n"),
        (".env", "A=1"), ("node_modules/x/i.js", "pay()"), (".git/config", "pay"), (".ssh/config", "pay"),
    ):  # fmt: skip
        (root / name).write_text(text)
    (tmp_path / "outside.txt").write_text("pay outside")
    return root


def call(root: Path, name: str, **arguments: Any) -> str:
    return FileTools(str(root), LATER).call(name, json.dumps(arguments))


def test_files_are_listed_read_and_searched(project: Path) -> None:
    assert call(project, "list_files") == "README.md\nsrc/app.py\nsrc/deep/b.ts"
    assert call(project, "list_files", glob="*.py") == "src/app.py"
    assert call(project, "list_files", glob="src/*") == "src/app.py\nsrc/deep/b.ts"
    assert call(project, "list_files", glob="*.rs") == "no file fits"
    assert call(project, "grep", pattern=r"pay\(\)") == "src/app.py:2: def pay():\nsrc/deep/b.ts:1: pay()"
    assert call(project, "grep", pattern="pay", glob="*.ts") == "src/deep/b.ts:1: pay()"
    assert call(project, "grep", pattern="nothing") == "no line matches"
    assert call(project, "read_file", path="src/app.py") == "import os\ndef pay():\n    return 1"
    assert call(project, "read_file", path="src/../README.md") == "# Shop"
    assert call(project, "read_file", path=str(project / "README.md")) == "# Shop"  # absolute, and inside


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../outside.txt", "leads out of the project"), ("/etc/hostname", "leads out of the project"),
        ("link", "leads out of the project"), ("up/outside.txt", "leads out of the project"),
        (".env", "hold secrets"), ("innocent", "hold secrets"), (".git/config", "hold secrets"),
        (".ssh/config", "hold secrets"),
        ("src", "not a file"), ("pipe", "not a file"), ("gone.py", "No such file"), ("", "empty"), ("a\x00b", "NUL"),
        ("binary", "not a text file"), ("loop", ""), ("x" * 5000, ""),
    ],
)  # fmt: skip
def test_what_is_no_file_of_the_project_is_refused(project: Path, path: str, why: str) -> None:
    (project / "link").symlink_to(project.parent / "outside.txt")
    (project / "up").symlink_to("..")
    (project / "innocent").symlink_to(".env")
    (project / "loop").symlink_to("loop")
    (project / "binary").write_bytes(b"pay\x00")
    os.mkfifo(project / "pipe")
    said = call(project, "read_file", path=path)
    assert said.startswith("refused: ")
    assert why in said
    for name in ("list_files", "grep"):
        assert "outside" not in call(project, name, pattern="pay|outside")


def test_a_hard_link_shows_nothing_since_it_may_be_a_secrets_other_name(project: Path) -> None:
    (project / "src" / "notes.md").hardlink_to(project / ".env")
    (project / "other.md").hardlink_to(project.parent / "outside.txt")
    for path in ("src/notes.md", "other.md"):
        assert "it has several names (hard links)" in call(project, "read_file", path=path)
    assert call(project, "grep", pattern="A=|outside") == "no line matches"
    (project / ".env").unlink()
    assert call(project, "read_file", path="src/notes.md") == "A=1", "with one name it is a file like any other"


def test_a_link_within_the_project_is_followed(project: Path) -> None:
    (project / "app").symlink_to("src/app.py")
    assert "def pay" in call(project, "read_file", path="app")


def test_a_link_that_is_put_in_the_way_leads_nowhere(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the check of the path and its opening, a folder becomes a link."""
    tools = FileTools(str(project), LATER)
    (project.parent / "app.py").write_text("outside")
    real = FileTools._inside

    def swapped(self: FileTools, path: str) -> str:
        found = real(self, path)
        (project / "src").rename(project / "old")
        (project / "src").symlink_to(project.parent)
        return found

    monkeypatch.setattr(FileTools, "_inside", swapped)
    assert tools.call("read_file", '{"path": "src/app.py"}').startswith("refused: ")


def test_results_are_bounded_and_redacted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "ghp" + "_" + "R8sK2mQ9vT4xZ1nB7cL5wY3jH6dF0gP2aE8u"
    (project / "conf.py").write_text(f"TOKEN = '{token}'\n")
    assert token not in call(project, "read_file", path="conf.py") + call(project, "grep", pattern="TOKEN")
    (project / "long.txt").write_text("".join(f"line {n}\n" for n in range(1000)))
    said = call(project, "read_file", path="long.txt", first_line=301)
    assert said.startswith("line 300\n")
    assert "300 more lines; read on with first_line 701" in said
    (project / "wide.txt").write_text("pay " * 100_000)
    assert len(call(project, "grep", pattern="pay", glob="wide.txt")) < 500
    (project / "many.txt").write_text("x" * 1500 + "\n" + ("y" * 1500 + "\n") * 100)
    wide = call(project, "read_file", path="many.txt")
    assert "the rest is not shown" in wide
    assert len(wide) < MOST_RESULT + 100
    tools = FileTools(str(project), LATER)
    read = [tools.call("read_file", '{"path": "many.txt"}') for _ in range(12)]
    assert sum(map(len, read)) < file_tools.MOST_RESULTS + 12 * 100
    monkeypatch.setattr(file_tools, "_MOST_READ", 100)
    assert "longer than what is read" in call(project, "read_file", path="many.txt")
    monkeypatch.setattr(file_tools, "_MOST_LISTED", 2)
    assert "more files" in call(project, "list_files")


def test_a_call_that_cannot_be_understood_is_refused(project: Path) -> None:
    for tool in ("list_files", "grep"):
        assert "has no parameter path; write glob" in call(project, tool, path="src", pattern="pay")
    tools = FileTools(str(project), LATER)
    for name, arguments in (
        ("read_file", "not json"), ("read_file", "[1]"), ("read_file", '{"path": 7}'), ("read_file", '{"file": "a"}'),
        ("grep", '{"pattern": "("}'), ("grep", "{}"), ("write_file", "{}"), ("read_file", "[" * 100_000),
        ("list_files", json.dumps({"glob": "x" * 1000})),
    ):  # fmt: skip
        assert tools.call(name, arguments).startswith("refused: "), (name, arguments[:40])
    for root in ("", "/", "/etc", "/etc/ssl", "/home", "/var/log", "/usr/share", str(project / "gone")):
        assert "no project" in FileTools(root, LATER).call("list_files", "{}")
    assert FileTools(str(project), 0.0).call("list_files", "{}") == "no file fits"  # its time is over


@rows(
    ("path", "secret"),
    [
        (".env", True), (".env.local", True), (".env.example", False), ("prod.env", True), ("a/id_rsa", True),
        ("tls/server.key", True), ("certs/ca.pem", True), (".npmrc", True), (".aws/credentials", True), (".ssh/known", True),
        ("credentials.json", True), ("src/credentials.py", False), ("src/secrets.ts", False), ("db_password.txt", True),
        ("service-account-prod.json", True), ("terraform.tfstate", True), ("a.tfvars", True), ("SECRETS.YML", True),
        ("README.md", False), ("keys.py", False), ("monkey.txt", False), ("src/environment.ts", False), (".env.py", True),
        ("secrets/prod.yaml", True), ("src/secrets/sealing.py", False), (".bash_history", True), ("docs/history", False),
    ],
)  # fmt: skip
def test_files_with_secrets_are_known_by_their_names(path: str, secret: bool) -> None:
    assert is_secret_path(path) is secret
