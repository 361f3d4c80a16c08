"""Tables: aligned where a program reads them, cut to its width where a person has a terminal."""

from __future__ import annotations

import sys

import pytest

from workers.cli.output import write_table

HEADERS = ("HOOK", "ON", "FROM")
ROWS = [
    ("a-hook-with-a-rather-long-name", "tool:pre_execute, tool:post_execute", f"/home/me/project/.pigo/config.json:{n}")
    for n in range(150)
]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_many_rows_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write_table(HEADERS, ROWS, colour=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 151
    assert max(map(len, lines)) <= columns
    assert all(line.endswith(f":{n}") for n, line in enumerate(lines[1:])), "the line number stays"
    assert ("…" in lines[1]) == (columns < 110)


def test_a_program_gets_all_of_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    write_table(HEADERS, ROWS[:2])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines] == ["FROM", ROWS[0][2], ROWS[1][2]]
    write_table((), [])
    assert capsys.readouterr().out == ""
