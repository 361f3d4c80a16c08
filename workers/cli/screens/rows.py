"""The lists of events, deliveries and dead letters: their columns, and the order in which columns are dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from bus.ids import short_form
from workers.cli.common import Context
from workers.cli.formatting import COLOURS, event_subject, local_time, outcome, short, when
from workers.cli.screens.columns import (
    ENDLESS,
    ID_CHARACTERS,
    Cell,
    Column,
    fit,
    id_length,
    line,
    session_colour,
    sign,
    terminal_width,
)

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from workers.delivery.dead_letters import DeadLetter
    from workers.delivery.deliveries import Delivery
    from workers.records.events import RecordedEvent

F = TypeVar("F", bound=Callable[..., Any])

_HOOK_FAILED: Final = re.compile(r"^hook '[^']*' \([^)]*\) failed: ")

EVENT_COLUMNS: Final = (
    Column("TIME", 8),
    Column("DECISION", 10),
    Column("AGENT", 8, 9, rank=3),
    Column("SESSION", 8, 8, rank=4),
    Column("TOOL", 6, 12, rank=2),
    Column("WHAT", 16, 48, rank=1),
    Column("TYPE", 16, 20, rank=5),
    Column("WHY", 24, rank=6),
    Column("ID", 10),
)
"""In a narrow terminal the reason is dropped first, then the type, the session and the agent."""

TAIL_COLUMNS: Final = tuple(
    column._replace(most=ENDLESS) if column.name == "WHAT" else column
    for column in EVENT_COLUMNS
    if column.name not in {"TYPE", "WHY"}
)
TAIL_WIDTHS: Final = {"TIME": 8, "DECISION": 10, "AGENT": 8, "SESSION": 8, "TOOL": 8, "ID": ID_CHARACTERS}

DELIVERY_COLUMNS: Final = (
    Column("TIME", 8),
    Column("STATE", 11),
    Column("TARGET", 16, 32, rank=1),
    Column("TRIES", 5, 5, rank=2),
    Column("TYPE", 16, 20, rank=4),
    Column("NOTE", 16, rank=3),
    Column("ID", 10),
)

DEAD_COLUMNS: Final = (
    Column("TIME", 8),
    Column("TARGET", 16, 32, rank=1),
    Column("TRIES", 5, 5, rank=3),
    Column("TYPE", 16, 20, rank=4),
    Column("REASON", 16, rank=2),
    Column("ID", 10),
)


def no_trunc_option(function: F) -> F:
    """`--no-trunc` for a list."""
    return click.option("--no-trunc", "whole", is_flag=True, help="Show every column and every id whole.")(function)


def show_events(fleet: Context, found: Sequence[RecordedEvent], *, whole: bool) -> None:
    """Events as a list."""
    ids = shown_ids([seen.id for seen in found], whole)
    times = list_times([seen.ms for seen in found])
    rows = [
        [Cell(time, "bright_black"), *event_cells(seen), Cell(name, "bright_black")]
        for time, seen, name in zip(times, found, ids, strict=True)
    ]
    fleet.table(EVENT_COLUMNS, rows, whole=whole)


def event_cells(seen: RecordedEvent) -> list[Cell]:
    """An event's cells from DECISION to WHY."""
    event = seen.event
    return [
        decision_cell(seen),
        Cell(event.source),
        Cell(event.session[:8], session_colour(event.session)),
        Cell(event.tool),
        Cell(_what(seen), "cyan"),
        Cell(event.type, "bright_black"),
        Cell(_why(seen), decision_cell(seen).colour),
    ]


def tail_line(fleet: Context, seen: RecordedEvent | None) -> str:
    """One event as a line of `tail`, whose columns have fixed widths; for None, the names of the columns."""
    natural = [TAIL_WIDTHS.get(column.name, ENDLESS) for column in TAIL_COLUMNS]
    layout = fit(TAIL_COLUMNS, natural, terminal_width())
    if layout[-1][1] and terminal_width() == ENDLESS:  # without the blanks of an endless line before the id
        layout = tuple((index, 64 if TAIL_COLUMNS[index].name == "WHAT" else size) for index, size in layout)
    if seen is None:
        return line([Cell(column.name, "bright_black") for column in TAIL_COLUMNS], layout, fleet.plain_style)
    time = Cell(local_time(seen.ms).strftime("%H:%M:%S"), "bright_black")
    name = seen.id if terminal_width() == ENDLESS else short_id(seen.id)
    cells = [time, *event_cells(seen)[:5], Cell(name, "bright_black")]
    if seen.fallback_reason or seen.decision in {"deny", "ask"}:
        cells[5] = Cell(f"{_what(seen)}  {_why(seen)}", cells[1].colour)
    if terminal_width() == ENDLESS:
        layout = (*layout[:-1], (layout[-1][0], len(name)))
    return line(cells, layout, fleet.plain_style)


def decision_cell(seen: RecordedEvent) -> Cell:
    """The decision as sign and word; an answer that no hook gave has the sign of a fallback."""
    if seen.pending:
        return Cell(sign("waiting"), "yellow")
    if seen.fallback_reason and not seen.of:
        return Cell(f"! {seen.decision}", "yellow")
    return Cell(sign(seen.decision), COLOURS.get(seen.decision, "bright_black"))


def _what(seen: RecordedEvent) -> str:
    """What an event is about. The type is added if there is no tool that says what happened."""
    subject = event_subject(seen.event, 400)
    return subject if seen.event.tool and subject else f"{seen.event.type} {subject}".rstrip()


def _why(seen: RecordedEvent) -> str:
    return outcome(seen).removeprefix(seen.decision).removeprefix(" · ")


def show_deliveries(fleet: Context, found: Sequence[Delivery], *, whole: bool) -> None:
    """Deliveries as a list."""
    ids = shown_ids([delivery.id for delivery in found], whole)
    rows = [
        [
            Cell(time, "bright_black"),
            Cell(sign(delivery.state), COLOURS.get(delivery.state, "bright_black")),
            Cell(delivery.target),
            Cell(str(delivery.attempts)),
            Cell(delivery.type, "bright_black"),
            Cell(_note(delivery), "yellow" if delivery.state == "due" else "red"),
            Cell(name, "bright_black"),
        ]
        for time, delivery, name in zip(list_times([delivery.created for delivery in found]), found, ids, strict=True)
    ]
    fleet.table(DELIVERY_COLUMNS, rows, whole=whole)


def show_dead_letters(fleet: Context, found: Sequence[DeadLetter], *, whole: bool) -> None:
    """Dead letters as a list."""
    ids = shown_ids([letter.id for letter in found], whole)
    rows = [
        dead_letter_cells(letter, time, name)
        for time, letter, name in zip(list_times([letter.ms for letter in found]), found, ids, strict=True)
    ]
    fleet.table(DEAD_COLUMNS, rows, whole=whole)


def dead_letter_cells(letter: DeadLetter, time: str, name: str) -> list[Cell]:
    """A dead letter's cells for `DEAD_COLUMNS`."""
    return [
        Cell(time, "bright_black"),
        Cell(letter.target or letter.stream),
        Cell(str(letter.attempts)),
        Cell(letter.type, "bright_black"),
        Cell(short_reason(letter.reason), "red"),
        Cell(name, "bright_black"),
    ]


def short_reason(reason: str) -> str:
    """A reason without the name and place of the hook that failed, which a list has in a column of its own."""
    return short(_HOOK_FAILED.sub("", reason), 400)


def short_id(name: str, length: int = ID_CHARACTERS, hook_length: int = ENDLESS) -> str:
    """The beginning of the short form of an event's id; for a delivery, the hook follows. Commands accept it as the id."""
    event, dot, hook = short_form(name).partition(".")
    return f"{event[:length]}{dot}{hook[:hook_length]}"


def _note(one: Delivery) -> str:
    if one.state == "due":
        return f"next {local_time(one.due).strftime('%H:%M:%S')}: {short_reason(one.reason)}"
    return short_reason(one.reason) if one.state == "dead" else ""


def shown_ids(ids: Sequence[str], whole: bool) -> list[str]:
    """The ids of a list: short on a terminal, but long enough to be different.

    The id of a delivery takes at most a third of the line: the hook's part is cut, too.
    """
    if whole or terminal_width() == ENDLESS:
        return list(ids)
    length = id_length(short_form(name).partition(".")[0] for name in ids)
    room = max(1, terminal_width() // 3 - length - 1)
    if len({short_id(name, length, room) for name in ids}) < len(set(ids)):
        room = id_length((short_form(name).partition(".")[2] for name in ids), room)
    return [short_id(name, length, room) for name in ids]


def list_times(moments: Sequence[int]) -> list[str]:
    """Times for a list: with the date for programs, and if one of the times is not of today."""
    from datetime import datetime

    if terminal_width() == ENDLESS:
        return [when(ms) for ms in moments]
    today = datetime.now().astimezone().date()
    same = all(local_time(ms).date() == today for ms in moments)
    return [local_time(ms).strftime("%H:%M:%S" if same else "%m-%d %H:%M") for ms in moments]
