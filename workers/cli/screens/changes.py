"""How `install` and `uninstall` show what they change: a table, facts, the diff, and what is left to the person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workers.cli.common import Context
from workers.cli.formatting import plain
from workers.cli.output import Colour
from workers.cli.screens.columns import Cell, Column, hanging, highlight_commands, home_as_tilde, terminal_width

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from workers.admin.file_changes import FileSummary

_COLUMNS: Final = (
    Column("", 1),
    Column("AGENT", 8),
    Column("EVENTS", 8),
    Column("FILE", 16, rank=1, keep_end=True),
    Column("CHANGE", 10, rank=3),
    Column("THEN YOU", 8, rank=2),
)
_SIGNS: Final[Mapping[str, tuple[str, Colour]]] = {
    "new": ("+", "green"),
    "changed": ("~", "yellow"),
    "removed": ("-", "red"),
    "unchanged": ("✓", "bright_black"),
}
_LEFT_OUT: Final[tuple[str, Colour]] = ("✗", "red")
_DIFF_COLOURS: Final[tuple[tuple[str, Colour], ...]] = (
    ("---", "bright_black"),
    ("+++", "bright_black"),
    ("@@", "cyan"),
    ("+", "green"),
    ("-", "red"),
)
_LONGEST: Final = 1_000
"""The most characters that are shown of one message."""

Row = Sequence[Cell]


def change_row(label: str, file: FileSummary, then: str = "") -> Row:
    """One file of an agent; `then` names the steps that are left to the person."""
    sign, colour = _SIGNS[file.state]
    number = f"{file.files} " if file.files > 1 else ""
    words = {"new": f"{number}new" if number else "new file", "removed": f"{number}deleted"}
    changed = [
        f"{len(events)} {word}"
        for word, events in (("added", file.added), ("updated", file.updated), ("removed", file.removed))
        if events
    ]
    kept = [f"{len(file.kept)} kept"] if file.kept else []
    return [
        Cell(sign, colour),
        Cell(label),
        Cell(", ".join(changed + kept)),
        Cell(home_as_tilde(file.path), "cyan"),
        Cell(words.get(file.state, file.state), "bright_black"),
        Cell(then, "yellow"),
    ]


def left_out_row(label: str, path: str) -> Row:
    """An agent whose file cannot be changed; the command's last message says why."""
    sign, colour = _LEFT_OUT
    return [
        Cell(sign, colour),
        Cell(label),
        Cell("left out", colour),
        Cell(home_as_tilde(path), "cyan"),
        Cell(""),
        Cell(""),
    ]


def show_changes(fleet: Context, rows: Sequence[Row]) -> None:
    """Show the table of the files, one line for each file."""
    if rows:
        fleet.table(_COLUMNS, rows)


def show_facts(fleet: Context, facts: Iterable[tuple[str, str]]) -> None:
    """Show each fact on its own line: its name, then its text. The further lines of a long text are indented."""
    found = list(facts)
    width = max((len(name) for name, _ in found), default=0) + 2
    lines = []
    for name, text in found:
        first, *more = hanging(home_as_tilde(plain(text, _LONGEST)), width, terminal_width())
        lines += [fleet.style(f"{name:<{width}}", "bright_black") + first, *more]
    if lines:
        fleet.data("\n" + "\n".join(lines))


def answer_files_fact(states: Mapping[str, str]) -> tuple[str, str]:
    """One fact about all answer files. `states` says for each path what happens to the file; all are in one folder."""
    if len(states) == 1:
        return "answer file", "".join(f"{path} ({state})" for path, state in states.items())
    by_state: dict[str, list[str]] = {}
    for path, state in states.items():
        by_state.setdefault(state, []).append(Path(path).name)
    folder = Path(next(iter(states))).parent
    return "answer files", f"{folder}: " + "; ".join(
        f"{', '.join(names)} ({state})" for state, names in by_state.items()
    )


def announces(report: Mapping[str, Any]) -> str:
    """At which events the agent does not wait, and why it waits at others that it could announce."""
    reasons: dict[str, list[str]] = {}
    for event, why in report["needed"].items():
        reasons.setdefault(why, []).append(event)
    waits = [f"waits at {', '.join(events)}: {why}" for why, events in reasons.items()]
    goes_on = f"does not wait at {', '.join(report['announced'])}, as no hook in force answers there"
    return "; ".join([*([goes_on] if report["announced"] else []), *waits])


def event_reasons(report: Mapping[str, Any]) -> str:
    """Why events are installed whose answers do not count, and which are left out."""
    return "; ".join(f"{', '.join(events)}: {why}" for why, events in report["reasons"].items() if events)


def show_diff(fleet: Context, diff: str) -> None:
    """Show a unified diff in colours; its secrets are redacted already."""
    for line in ["", *diff.splitlines()] if diff else ():
        colour = next((colour for start, colour in _DIFF_COLOURS if line.startswith(start)), None)
        fleet.data(fleet.style(line, colour) if colour else line)


def show_warnings(fleet: Context, warnings: Mapping[str, Sequence[str]]) -> None:
    """Show each warning once, on stderr. `warnings` has the labels of the agents for each text."""
    if warnings:
        fleet.say("")
    for text, labels in warnings.items():
        message = f"{', '.join(labels)}: {text}" if labels else text
        first, *more = hanging(home_as_tilde(plain(message, _LONGEST)), len("warning: "), terminal_width())
        fleet.say("\n".join([f"{fleet.style('warning:', 'yellow', err=True)} {first}", *more]))


def show_steps(fleet: Context, title: str, steps: Sequence[str]) -> None:
    """Show a numbered list of what only the person can do, on stderr."""
    lines = [fleet.style(title, "yellow", err=True)]
    for number, step in enumerate(steps, 1):
        start = f"  {number}. "
        first, *more = hanging(home_as_tilde(plain(step, _LONGEST)), len(start), terminal_width())
        lines += [highlight_commands(line, partial(fleet.style, err=True)) for line in (start + first, *more)]
    fleet.say("\n" + "\n".join(lines))
