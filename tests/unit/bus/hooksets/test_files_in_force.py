"""A hook file that was in force and now has an error changes nothing, in any process and over any restart (X-10)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from bus.hooksets.files_in_force import FileInForce, file_in_force
from bus.hooksets.last_good import kept_file

pytestmark = pytest.mark.req("X-10", "F-11")

A = "{id: a, on: tool:pre_execute, command: run-a}"
B = "{id: b, on: tool:pre_execute, command: run-b}"
GOOD = f"hooks: [{A}, {B}]\nendpoints: [{{id: e, url: 'https://h.example/'}}]\nguards: {{destructive-commands: true}}\n"
PIGO = {"plugins": [{"name": "one", "hooks": {"tool_start": [{"command": "first"}]}}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where copies are kept."""
    return tmp_path / "data" / "last-good"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The user's hook file."""
    return tmp_path / "fleethook.yaml"


def ids(found: FileInForce) -> list[str]:
    """The hooks and endpoints in force."""
    return [*(hook.id for hook in found.file.hooks), *(one.id for one in found.file.endpoints)]


def commands(found: FileInForce) -> list[str]:
    """The commands in force."""
    return [hook.command for hook in found.file.hooks]


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        (GOOD.replace("command: run-a", "comand: run-a"), ":1:"),
        (GOOD.replace("tool:pre_execute, command: run-b", "'tool:pre_execute:[', command: run-b"), ":1:"),
        (GOOD.replace("destructive-commands", "destructive-comands"), ":3:"),
        (GOOD.replace("https:", "htps:"), ":2:"),
        (GOOD + "network: {allow: [nonsense/99]}\n", ":4:"),
        (GOOD + "settings: {slots: many}\n", ":4:"),
        (GOOD + "import: [not-there.json]\n", ":4:"),
        ("hooks: [", ":2:"),
        (GOOD[:40], ":2:"),
        ("\x00\x01", ":1:"),
        ("", ":1"),
        ("# nothing but a remark\n", ":1"),
        ("version: 9\n", ":1:"),
        ("- a list\n", ":1:"),
    ],
)
def test_a_file_with_any_error_changes_nothing(file: Path, folder: Path, bad: str, place: str) -> None:
    """Neither what is wrong in it nor what is right."""
    file.write_text(GOOD)
    before = file_in_force(file, "user", folder)
    assert ids(before) == ["a", "b", "e"]
    file.write_text(bad.replace("run-b", "changed"))
    now = file_in_force(file, "user", folder)
    assert now.file.digest == before.file.digest
    (rejected,) = now.rejected
    assert f"{file}{place}" in rejected.text
    assert "the last good content stays in force" in rejected.text
    assert file_in_force(file, "user", folder).rejected[0].digest == rejected.digest, "the same over a restart"
    file.write_text(GOOD.replace("run-b", "changed"))
    assert commands(file_in_force(file, "user", folder)) == ["run-a", "changed"]


def test_a_file_that_cannot_be_read_keeps_what_was_in_force(file: Path, folder: Path) -> None:
    """Not text, a folder in its place, a link that leads nowhere."""
    file.write_text(GOOD)
    file_in_force(file, "user", folder)
    file.write_bytes(b"\xff\xfe\x00")
    assert ids(file_in_force(file, "user", folder)) == ["a", "b", "e"]
    file.unlink()
    file.mkdir()
    assert ids(file_in_force(file, "user", folder)) == ["a", "b", "e"]
    file.rmdir()
    file.symlink_to("nowhere.yaml")
    found = file_in_force(file, "user", folder)
    assert ids(found) in ([], ["a", "b", "e"])


def test_what_a_person_removes_is_gone(file: Path, folder: Path) -> None:
    """An entry that a valid file lacks, and the whole file: then nothing of it is kept, either."""
    file.write_text(GOOD)
    file_in_force(file, "user", folder)
    file.write_text(f"hooks: [{B}]\n")
    assert ids(file_in_force(file, "user", folder)) == ["b"]
    file.write_text("hooks: [")
    assert ids(file_in_force(file, "user", folder)) == ["b"], "what was removed does not come back"
    file.unlink()
    assert ids(file_in_force(file, "user", folder)) == []
    assert not kept_file(folder, file).exists()
    file.write_text("hooks: [")
    found = file_in_force(file, "user", folder)
    assert ids(found) == []
    assert "nothing of it is in force" in found.rejected[0].text
    file.write_text(f"hooks: [{A}, {{id: bad, on: tool:pre_execute, comand: x}}]\n")
    assert ids(file_in_force(file, "user", folder)) == ["a"], "what could never be read is nothing that was in force"


def test_the_good_entries_of_a_file_that_was_never_good_count(file: Path, folder: Path) -> None:
    """And stay, whatever error comes next; the errors that it always had keep no change back."""
    file.write_text(f"hooks: [{A}, {{id: bad, on: tool:pre_execute, comand: x}}]\n")
    first = file_in_force(file, "user", folder)
    assert (ids(first), len(first.file.problems)) == (["a"], 1)
    assert 'unknown key "comand"; did you mean "command"?' in first.rejected[0].text
    assert first.rejected[0].text.endswith("the wrong entries are left out, the others are in force")
    file.write_text("hooks: [")
    assert ids(file_in_force(file, "user", folder)) == ["a"]
    file.write_text(f"hooks: [{{id: bad, on: tool:pre_execute, comand: x}}, {A.replace('on:', 'onn:')}]\n")
    found = file_in_force(file, "user", folder)
    assert ids(found) == ["a"]
    assert "the last good content stays in force" in found.rejected[0].text
    file.write_text(f"hooks: [{{id: bad, on: tool:pre_execute, comand: x}},\n {B}]\n")
    found = file_in_force(file, "user", folder)
    assert ids(found) == ["b"]
    assert "the wrong entries are left out" in found.rejected[0].text


def test_each_imported_file_has_its_own_last_good_content(file: Path, folder: Path, tmp_path: Path) -> None:
    """A broken one keeps its own hooks, and holds up no change of another."""
    pigo, other = tmp_path / "pigo.json", tmp_path / "other.yaml"
    pigo.write_text(json.dumps(PIGO))
    other.write_text(f"hooks: [{A}]\n")
    pigo.write_text("{")
    file.write_text(f"import: [pigo.json, other.yaml]\nhooks: [{B}]\n")
    assert commands(file_in_force(file, "user", folder)) == ["run-a", "run-b"]
    pigo.write_text(json.dumps(PIGO))
    assert commands(file_in_force(file, "user", folder)) == ["first", "run-a", "run-b"]
    pigo.write_text("{")
    other.write_text(f"hooks: [{A.replace('run-a', 'new-a')}]\n")
    found = file_in_force(file, "user", folder)
    assert commands(found) == ["first", "new-a", "run-b"]
    assert [one.path for one in found.rejected] == [str(pigo)]
    other.write_text(f"hooks: [{A.replace('command', 'comand')}]\n")
    found = file_in_force(file, "user", folder)
    assert commands(found) == ["first", "new-a", "run-b"]
    assert {one.path for one in found.rejected} == {str(pigo), str(other)}
    pigo.unlink()
    assert commands(file_in_force(file, "user", folder)) == ["new-a", "run-b"], "taken away is another matter"
    file.write_text(f"hooks: [{B}]\n")
    found = file_in_force(file, "user", folder)
    assert (commands(found), found.rejected) == (["run-b"], ())


def test_an_import_that_cannot_be_read_keeps_its_hooks(file: Path, folder: Path, tmp_path: Path) -> None:
    """A folder, a pipe and bytes that are no text in its place: root could read a file that nobody may read."""
    pigo = tmp_path / "pigo.json"
    pigo.write_text(json.dumps(PIGO))
    file.write_text("import: [{path: pigo.json, dialect: pigo}]\n")
    file_in_force(file, "user", folder)
    for make in (pigo.mkdir, lambda: os.mkfifo(pigo), lambda: pigo.write_bytes(b"\xff\xfe")):
        pigo.rmdir() if pigo.is_dir() else pigo.unlink()
        make()
        found = file_in_force(file, "user", folder)
        assert commands(found) == ["first"]
        assert [one.path for one in found.rejected] == [str(pigo)]


@pytest.mark.req("X-10")
@pytest.mark.parametrize("linked", [False, True])
def test_an_import_that_becomes_a_broken_link_keeps_its_hooks(
    file: Path, folder: Path, tmp_path: Path, *, linked: bool
) -> None:
    """A link to nothing, to itself or to a broken file; the import may have been a link before, too. Removed, it is gone."""
    pigo, target = tmp_path / "pigo.json", tmp_path / "target.json"
    target.write_text(json.dumps(PIGO))
    pigo.symlink_to(target) if linked else pigo.write_text(json.dumps(PIGO))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    file.write_text("import: [{path: pigo.json, dialect: pigo}]\n")
    assert commands(file_in_force(file, "user", folder)) == ["first"]
    for aim in ("nowhere.json", "pigo.json", str(broken), "nowhere.json"):
        pigo.unlink()
        pigo.symlink_to(aim)
        for _ in range(2):
            found = file_in_force(file, "user", folder)
            assert commands(found) == ["first"], aim
            assert "the last good content stays in force" in found.rejected[0].text
    pigo.unlink()
    assert commands(file_in_force(file, "user", folder)) == []
    pigo.write_text(json.dumps(PIGO))
    assert commands(file_in_force(file, "user", folder)) == ["first"]


def test_an_import_whose_target_is_removed_keeps_its_hooks(file: Path, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text(json.dumps(PIGO))
    (tmp_path / "pigo.json").symlink_to(target)
    file.write_text("import: [{path: pigo.json, dialect: pigo}]\n")
    file_in_force(file, "user", folder)
    target.unlink()
    assert commands(file_in_force(file, "user", folder)) == ["first"]


def test_the_copies_are_private_and_others_are_not_believed(file: Path, folder: Path) -> None:
    file.write_text(GOOD)
    file_in_force(file, "user", folder)
    kept = kept_file(folder, file)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    file.write_text("hooks: [")
    kept.chmod(0o666)
    assert ids(file_in_force(file, "user", folder)) == []
    kept.write_text("{")
    kept.chmod(0o600)
    assert ids(file_in_force(file, "user", folder)) == [], "one that is cut off is none"


def test_without_a_folder_the_process_itself_remembers(file: Path) -> None:
    file.write_text(GOOD)
    first = file_in_force(file, "user", None)
    file.write_text("hooks: [")
    assert ids(file_in_force(file, "user", None, first.kept)) == ["a", "b", "e"]
    assert ids(file_in_force(file, "user", None)) == []


def test_a_folder_that_cannot_be_used_is_said(file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    file.write_text(GOOD)
    assert ids(file_in_force(file, "user", tmp_path / "file" / "last-good")) == ["a", "b", "e"]
    assert "are not kept for the time after this process" in caplog.text


@pytest.mark.parametrize("target", ["nowhere", "fleethook.yaml", "/dev/zero", "other.yaml"])
def test_a_file_that_becomes_a_bad_link_changes_nothing(file: Path, folder: Path, tmp_path: Path, target: str) -> None:
    """What is in force belongs to the file's own path, wherever a link there leads (B1)."""
    file.write_text(GOOD)
    before = [hook.id for hook in file_in_force(file, "user", folder).file.hooks]
    (file.parent / "other.yaml").write_text("hooks: 5")
    file.unlink()
    file.symlink_to(target)
    for _ in range(2):  # also in a later process, which reads what is kept
        found = file_in_force(file, "user", folder)
        assert [hook.id for hook in found.file.hooks] == before
        assert len(found.rejected) == 1
    (file.parent / "other.yaml").write_text(GOOD)
    file.unlink()
    file.symlink_to("other.yaml")
    assert file_in_force(file, "user", folder).rejected == ()
    (file.parent / "third.yaml").write_text("hooks: [")
    file.unlink()
    file.symlink_to("third.yaml")
    assert [hook.id for hook in file_in_force(file, "user", folder).file.hooks] == before
    file.unlink()
    assert file_in_force(file, "user", folder).file.hooks == ()


@pytest.mark.parametrize("damage", ["", "{", "changed", "shortened", None])
@pytest.mark.parametrize("text", [GOOD, "hooks: ["])
def test_a_copy_that_is_lost_or_damaged_is_kept_again(file: Path, folder: Path, damage: str | None, text: str) -> None:
    """By a process that still has the content in force: else the next start would have nothing.

    A copy is damaged also if it is whole JSON. A process that knows no better does not replace it meanwhile.
    """
    file.write_text(GOOD)
    running = file_in_force(file, "user", folder)
    copy = kept_file(folder, file)
    before = copy.read_bytes()
    file.write_text(text)
    if damage is None:
        copy.unlink()
    else:
        shorter = before.replace(b"{id: a", b"#{id: a", 1).replace(b"hooks: [", b"hooks: [\\n", 1)
        damaged = {"changed": before.replace(b"run-b", b"run-x"), "shortened": shorter}
        copy.write_bytes(damaged.get(damage, damage.encode()))
        assert ids(file_in_force(file, "user", folder)) == (["a", "b", "e"] if text == GOOD else [])
    now = file_in_force(file, "user", folder, running.kept)
    assert any(source.path == str(copy) for source in now.sources), "the loss of the copy is seen"
    assert ids(now) == ["a", "b", "e"]
    assert copy.read_bytes() == before
    assert ids(file_in_force(file, "user", folder)) == ["a", "b", "e"], "a later process has it"


def test_a_copy_of_an_earlier_build_has_no_digest_and_counts(file: Path, folder: Path) -> None:
    file.write_text(GOOD)
    file_in_force(file, "user", folder)
    copy = kept_file(folder, file)
    older = {key: value for key, value in json.loads(copy.read_bytes()).items() if key != "check"}
    copy.write_bytes(json.dumps(older, separators=(",", ":")).encode())
    file.write_text("hooks: [")
    assert ids(file_in_force(file, "user", folder)) == ["a", "b", "e"]


@pytest.mark.parametrize(
    "text", ["---\n", "--- # mine\n", "---\n...\n", "%YAML 1.2\n---\n", "# mine\n---\n\n", "null\n"]
)
def test_a_file_with_the_marks_of_a_document_alone_is_empty(file: Path, folder: Path, text: str) -> None:
    """An editor or a program that writes in parts has written this much of a file; `{}` and `hooks: []` are on purpose."""
    file.write_text(GOOD)
    file_in_force(file, "user", folder)
    file.write_text(text)
    found = file_in_force(file, "user", folder)
    assert ids(found) == ["a", "b", "e"]
    assert "the file is empty" in found.rejected[0].text
    file.write_text("{}\n")
    assert ids(file_in_force(file, "user", folder)) == []
