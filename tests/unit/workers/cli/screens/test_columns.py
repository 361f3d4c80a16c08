"""Lists on a terminal (issue 11, section 3): no line is longer than the terminal, no id is cut or wrapped."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from bus.events import Event
from bus.verdicts import Verdict
from tests.support.examples import examples
from workers.cli.common import Context
from workers.cli.output import styler
from workers.cli.screens import rows
from workers.cli.screens.columns import Cell, Column, cut, id_length, list_lines, sign
from workers.cli.screens.line_wrap import wrap
from workers.cli.screens.rows import DEAD_COLUMNS, DELIVERY_COLUMNS, EVENT_COLUMNS, event_cells, tail_line
from workers.records.events import RecordedEvent

PLAIN = styler(False)
TEXT = st.text(max_size=60)
EVENT = Event(type="tool:pre_execute", source="claude", tool="bash", session="s-1", input={"command": "rm -rf /"})


@settings(max_examples=examples(60), deadline=None)
@given(
    columns=st.sampled_from([EVENT_COLUMNS, DELIVERY_COLUMNS, DEAD_COLUMNS]),
    texts=st.lists(st.lists(TEXT, min_size=9, max_size=9), min_size=1, max_size=6),
    width=st.integers(60, 200),
)
def test_no_line_is_longer_than_the_terminal(columns: tuple[Column, ...], texts: list[list[str]], width: int) -> None:
    """Whatever the cells hold: wide letters, line breaks, control characters. The id is the last word of its line."""
    shown = [[Cell(text) for text in row[: len(columns)]] for row in texts]
    for number, row in enumerate(shown):
        row[0], row[-1] = Cell("12:00:00"), Cell(f"e{number:012}")
        if columns[1].rank == 0:
            row[1] = Cell("✗ deny")
    head, *lines = list_lines(columns, shown, PLAIN, width)
    assert len(lines) == len(shown)
    assert all(cell_len(line) <= width for line in (head, *lines))
    assert all(line.endswith(f"  e{number:012}") for number, line in enumerate(lines))
    if columns[1].rank == 0:
        assert all(line.startswith("12:00:00  ✗ deny") for line in lines)


@given(ids=st.lists(st.text("abc", min_size=1, max_size=14), max_size=8))
def test_short_ids_tell_apart(ids: list[str]) -> None:
    """Ten characters, and as many more as it takes."""
    length = id_length(ids)
    assert length >= 10
    assert len({name[:length] for name in ids}) == len(set(ids))
    assert length == 10 or any(one[: length - 1] == other[: length - 1] for one, other in pairwise(sorted(set(ids))))


def test_a_long_name_leaves_room_for_the_most_important_column() -> None:
    """One hook with a name of 90 characters neither wraps its own row nor takes a column from the others."""
    columns = (Column("HOOK", 8, halved=True), Column("WAITS", 8, rank=1), Column("FROM", 8, rank=2))
    shown = [[Cell("short"), Cell("blocking"), Cell("here:1")], [Cell("x" * 90), Cell("blocking"), Cell("there:2")]]
    head, *lines = list_lines(columns, shown, PLAIN, 80)
    assert head.split() == ["HOOK", "WAITS", "FROM"]
    assert all(cell_len(line) <= 80 for line in lines)
    assert lines[1].startswith("x" * 39 + "…  blocking")
    assert list_lines(columns, shown, PLAIN, 170) != list_lines(columns, shown[:1], PLAIN, 170)
    assert [*list_lines(columns, shown, PLAIN, 170)][2].startswith("x" * 90), "it is whole where there is room"


def test_a_delivery_with_a_long_hook_id_has_a_short_id_that_is_a_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of one event's deliveries are told apart, however alike their hooks begin."""
    monkeypatch.setattr(rows, "terminal_width", lambda: 80)
    event = "e01a2072e5bc54b640e487b9dd884b516"
    ids = [f"{event}.{'long-name-' * 5}{end}" for end in ("a", "b")] + [f"{event}.audit"]
    shown = rows.shown_ids(ids, whole=False)
    assert shown[2] == "72e5bc54b6.audit"
    assert len(set(shown)) == 3
    assert all(
        name[6:].partition(".")[2].startswith(short.partition(".")[2]) for name, short in zip(ids, shown, strict=True)
    )
    assert rows.shown_ids([ids[0], ids[2]], whole=False)[0] == "72e5bc54b6.long-name-long-"
    assert rows.shown_ids(ids, whole=True) == ids


@given(text=TEXT, width=st.integers(1, 30))
def test_a_cut_text_fits(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width


@given(words=st.lists(st.text("abc\u4e16", min_size=1, max_size=33), max_size=20), indent=st.integers(0, 6))
def test_a_wrapped_line_breaks_no_word(words: list[str], indent: int) -> None:
    """Ids of 33 characters stay whole at 80 columns, also where they are coloured."""
    text = " " * indent + " ".join(styler(True)(word, "cyan") for word in words)
    lines = re.sub(r"\x1b\[\d+m", "", wrap(text, 80)).split("\n")
    assert [word for line in lines for word in line.split()] == words
    assert all(cell_len(line) <= 80 for line in lines)
    assert all(line.startswith(" " * (indent + 2)) for line in lines[1:])


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (RecordedEvent(id="e1", entry="1-0", ms=0, event=EVENT), "-"),
        (RecordedEvent(id="e1", entry="1-0", ms=0, event=EVENT, verdict=Verdict(decision="deny")), "✗ deny"),
        (RecordedEvent(id="e1", entry="1-0", ms=0, event=EVENT, verdict=Verdict(fallback="no evaluator")), "! abstain"),
        (RecordedEvent(id="e1", entry="1-0", ms=0, event=EVENT, of="e0", fallback="away"), "! fallback"),
        (RecordedEvent(id="e1", entry="1-0", ms=0, event=EVENT, pending=True), "… waiting"),
    ],
)
def test_a_decision_is_a_sign_and_a_word(one: RecordedEvent, said: str) -> None:
    assert event_cells(one)[0].text == said
    assert sign("") == "-"


@pytest.mark.parametrize("width", [80, 110, 170])
@settings(max_examples=25, deadline=None)
@given(command=TEXT, session=TEXT, tool=TEXT)
def test_a_line_of_tail_keeps_its_columns(width: int, command: str, session: str, tool: str) -> None:
    """Time, decision, agent, session, tool, what, id: each begins where the line before it has it."""
    event = msgspec.structs.replace(EVENT, input={"command": command}, session=session, tool=tool)
    one = RecordedEvent(
        id="e012345" + "6789abcdef" * 2 + "0" * 6,
        entry="1-0",
        ms=0,
        event=event,
        verdict=Verdict(decision="deny", reason=command),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "terminal_width", lambda: width)
        head, line = tail_line(Context(colour=False), None), tail_line(Context(colour=False), one)
    assert head.split() == ["TIME", "DECISION", "AGENT", "SESSION", "TOOL", "WHAT", "ID"]
    assert cell_len(head) <= width
    assert cell_len(line) == width
    assert line.endswith("  56789abcde")
    assert line[10:16] == "✗ deny"


def test_a_pipe_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs read whole ids and uncut texts."""
    long: Any = "x" * 300
    event = msgspec.structs.replace(EVENT, input={"command": long})
    line = tail_line(Context(colour=False), RecordedEvent(id="e" * 33, entry="1-0", ms=0, event=event))
    assert "e" * 33 in line
    assert "x" * 60 in line
