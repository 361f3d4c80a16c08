"""Tables: one line a row, cut to its width where a person has a terminal, and whole where a program reads them."""

from __future__ import annotations

import sys

import pytest
from rich.cells import cell_len

from workers.cli.common import Context
from workers.cli.guards import RULE_COLUMNS
from workers.cli.hooks.listing import HOOK_COLUMNS
from workers.cli.screens.columns import Column
from workers.cli.webhooks import ENDPOINT_COLUMNS

HEADERS = (Column("HOOK", 8), Column("ON", 12, rank=1), Column("FROM", 12, rank=2, keep_end=True))
ROWS = [
    ("a-hook-with-a-rather-long-name", "tool:pre_execute, tool:post_execute", f"/home/me/project/.pigo/config.json:{n}")
    for n in range(150)
]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_rows_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Context(colour=False).table(HEADERS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 151
    assert max(map(len, lines)) <= columns
    assert all(line.endswith(f":{n}") for n, line in enumerate(lines[1:])), "the line number stays"
    assert ("…" in lines[1]) == (columns < 110)


@pytest.mark.parametrize("columns", [ENDPOINT_COLUMNS, HOOK_COLUMNS, RULE_COLUMNS])
@pytest.mark.parametrize("width", [80, 110, 170])
def test_lists_have_one_line_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: tuple[Column, ...], width: int
) -> None:
    """`hooks list`, `guards list` and `webhooks list`: columns are cut and dropped in their order, and the id never is."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = [
        "an-id-of-thirty-two-characters-x",
        *(f"{column.name} 世界 and more of it {'x' * 40}" for column in columns[1:]),
    ]
    if columns is ENDPOINT_COLUMNS:
        row[1] = "✗ disabled"
    Context(colour=False).table(columns, [row] * 3)
    head, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(cell_len(line) <= width and line.startswith(row[0]) for line in lines)
    shown = [column for column in columns if f" {column.name}" in f" {head} "]
    dropped = [column.rank for column in columns if column not in shown]
    assert not dropped or min(dropped) > max(column.rank for column in shown)
    Context(colour=False).table(columns, [row], whole=True)
    uncut = capsys.readouterr().out
    assert all(text in uncut for text in row)


def test_a_program_gets_all_of_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    Context().table(HEADERS, ROWS[:2])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines] == ["FROM", ROWS[0][2], ROWS[1][2]]
    Context().table(HEADERS, ROWS[:1], head=False)
    assert capsys.readouterr().out.splitlines() == lines[1:2]


def test_what_is_never_cut_is_wrapped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that stands in no other place is shown whole, and no word of it is broken."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    words = " ".join(f"word{n}" for n in range(30))
    Context(colour=False).table((Column("SETTING", 8), Column("VALUE", 8)), [("namespace", words)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines[1:]).split()) == f"namespace {words}"
