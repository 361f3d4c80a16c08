"""How `install` shows what it changes (issue 11, section 3): one line a file, long texts below their own beginning."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from workers.admin.file_changes import FileSummary
from workers.cli.common import Context
from workers.cli.screens import changes, columns

FILES = (
    FileSummary(path="/home/me/.claude/settings.json", state="new", added=tuple("abc")),
    FileSummary(path="/very" * 20 + "/hooks.json", state="changed", added=("a",), updated=("b",), kept=("c",)),
    FileSummary(path="/scripts", state="removed", files=4, removed=tuple("abcd")),
    FileSummary(path="/x.json", state="unchanged", kept=("a",)),
)


@pytest.mark.parametrize("width", [80, 110, 170])
def test_the_table_has_one_line_a_file_at_every_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(columns, "terminal_width", lambda: width)
    table = [changes.change_row("Claude Code", file, "step 2") for file in FILES]
    changes.show_changes(Context(colour=False), [*table, changes.left_out_row("Codex CLI", "/y.json")])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["AGENT", "EVENTS", "FILE", *([] if width == 80 else ["CHANGE"]), "THEN", "YOU"]
    assert [line[0] for line in lines] == ["+", "~", "-", "✓", "✗"]
    assert all(cell_len(line) <= width for line in lines)
    assert ("4 deleted" in lines[2]) == (width > 80)
    assert "1 added, 1 updated, 1 kept" in lines[1]


@pytest.mark.parametrize("width", [80, 110])
def test_warnings_and_steps_go_on_below_their_own_beginning(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changes, "terminal_width", lambda: width)
    fleet = Context(colour=False)
    changes.show_warnings(fleet, {"word " * 30: ["Claude Code", "Cursor"]})
    changes.show_steps(fleet, "Then:", ["one", "word " * 30 + "`fleethook up --detach`"])
    lines = capsys.readouterr().err.splitlines()
    assert all(len(line) <= width for line in lines)
    assert lines[1].startswith("warning: Claude Code, Cursor: word")
    assert lines[2].startswith("         word")
    at = lines.index("Then:")
    assert (lines[at + 1], lines[at + 2][:9], lines[at + 3][:9]) == ("  1. one", "  2. word", "     word")
    assert any("`fleethook up --detach`" in line for line in lines), "a command stays on one line"


def test_a_diff_in_colour_has_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"
    changes.show_diff(Context(colour=False), diff)
    assert capsys.readouterr().out == f"\n{diff}"
    changes.show_diff(Context(colour=True), diff)
    assert "\x1b[31m-x\x1b[0m\n\x1b[32m+y\x1b[0m\n" in capsys.readouterr().out
    changes.show_diff(Context(colour=False), "")
    assert capsys.readouterr().out == ""
