"""How `doctor` reports: one line for each group, then unseen checks, warnings and problems, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from workers.cli.common import Context
from workers.cli.formatting import plain
from workers.cli.output import Colour
from workers.cli.screens.columns import (
    GAP,
    Cell,
    Column,
    hanging,
    highlight_commands,
    home_as_tilde,
    terminal_width,
)
from workers.runtime.wording import counted

if TYPE_CHECKING:  # 100 ms that `doctor --help` does not need
    from workers.admin.doctor import Check, State

SIGNS: Final[Mapping[State, tuple[str, Colour]]] = {
    "ok": ("✓", "green"),
    "unknown": ("?", "bright_black"),
    "warn": ("!", "yellow"),
    "fail": ("✗", "red"),
}
"""The states from the best to the worst."""

_ORDER: Final = tuple(SIGNS)
_COLUMNS: Final = (Column("", 1), Column("CHECKED", 12), Column("PASSED", 6), Column("IN ORDER", 10, rank=1))
_LONGEST: Final = 1_000
"""The most characters of one finding."""


def show_report(fleet: Context, checks: Sequence[Check], *, verbose: bool = False) -> None:
    """Write the report on stdout; `verbose` names every check that passed."""
    from workers.admin.doctor import by_group, label_of

    groups = by_group(checks)
    labels = {group: label_of(group) for group in groups}
    if verbose:
        fleet.data("\n".join(_verbose_lines(fleet, groups, labels)))
    else:
        fleet.table(_COLUMNS, _group_rows(groups, labels, terminal_width()))
    findings = list(_finding_lines(fleet, groups, labels, verbose=verbose))
    if findings:
        fleet.data("\n".join(findings))
    repairable = sum(bool(check.repair) for check in checks if check.status in {"warn", "fail"})
    if repairable:
        fleet.data(f"\n{fleet.style('fleethook doctor --fix', 'cyan')} repairs {repairable} of these.")
    fleet.data("\n" + _summary(fleet, checks))


def counts(checks: Sequence[Check]) -> dict[str, int]:
    """How many problems, warnings, checks that could not be made, and checks that passed."""
    names = {"fail": "problems", "warn": "warnings", "unknown": "unknown", "ok": "passed"}
    return {name: sum(check.status == state for check in checks) for state, name in names.items()}


def _summary(fleet: Context, checks: Sequence[Check]) -> str:
    number = counts(checks)
    parts: tuple[tuple[int, str, Colour], ...] = (
        (number["problems"], counted(number["problems"], "problem"), "red"),
        (number["warnings"], counted(number["warnings"], "warning"), "yellow"),
        (number["unknown"], f"{number['unknown']} not seen", "bright_black"),
        (number["passed"], counted(number["passed"], "check passed", "checks passed"), "green"),
    )
    return ", ".join(fleet.style(text, colour) for count, text, colour in parts if count)


def _row(checks: Sequence[Check], label: str, width: int) -> list[Cell]:
    passed = [check for check in checks if check.status == "ok"]
    sign, colour = SIGNS[max((check.status for check in checks), key=_ORDER.index)]
    share = f"{len(passed):>{width}} of {len(checks)}"
    return [Cell(sign, colour), Cell(label), Cell(share, "bright_black")]


def _group_rows(groups: Mapping[str, Sequence[Check]], labels: Mapping[str, str], width: int) -> Iterator[list[Cell]]:
    digits = _digits(groups)
    rows = {group: _row(checks, labels[group], digits) for group, checks in groups.items()}
    before = zip(_COLUMNS, *rows.values(), strict=False)
    room = width - sum(
        GAP + max(len(column.name), *(cell_len(cell.text) for cell in cells)) for column, *cells in before
    )
    for group, checks in groups.items():
        briefs = [plain(check.brief) for check in checks if check.status == "ok" and check.brief]
        yield [*rows[group], Cell(_listed(briefs, room))]


def _listed(names: Sequence[str], room: int) -> str:
    """As many of the names as fit into `room` cells, and how many more there are."""
    for shown in range(len(names), 0, -1):
        text = ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if shown < len(names) else "")
        if cell_len(text) <= room:
            return text
    return ", ".join(names)


def _verbose_lines(fleet: Context, groups: Mapping[str, Sequence[Check]], labels: Mapping[str, str]) -> Iterator[str]:
    """Each group with the checks that passed below it."""
    width = _digits(groups)
    names = {check.id: check.id.removeprefix(f"{check.agent}-") for checks in groups.values() for check in checks}
    longest = max(map(len, names.values()), default=0)
    label_width = max(map(len, labels.values()), default=0)
    for group, checks in groups.items():
        sign, label, share = _row(checks, labels[group], width)
        heading = f"{label.text:<{label_width}}  {fleet.style(share.text, 'bright_black')}"
        yield f"{fleet.style(sign.text, sign.colour or 'green')}  {heading}"
        for check in checks:
            if check.status == "ok":
                name = f"   {names[check.id]:<{longest}}  "
                text, *more = hanging(_text(check, labels[group]), len(name), terminal_width())
                yield fleet.style(name, "bright_black") + text
                yield from more


def _finding_lines(
    fleet: Context, groups: Mapping[str, Sequence[Check]], labels: Mapping[str, str], *, verbose: bool
) -> Iterator[str]:
    """The checks that did not pass, the worst last: what and where, then what to do; an empty line before each state.

    If a check could not be made because another one failed, it is listed below that one.
    """
    label_width = max(map(len, labels.values()), default=0)
    indent, width = 1 + GAP + label_width + GAP, terminal_width()
    for state in _ORDER[1:]:
        sign, colour = SIGNS[state]
        own = {
            group: [check for check in checks if check.status == state and not check.cause]
            for group, checks in groups.items()
        }
        if any(own.values()):
            yield ""
        for group, checks in own.items():
            for text, fix, names in _merged(checks, labels[group]):
                first, *more = hanging(text, indent, width)
                label = f"{labels[group]:<{label_width + GAP}}"
                grey = state == "unknown"
                yield fleet.style(sign, colour) + " " * GAP + label + (fleet.style(first, colour) if grey else first)
                yield from (fleet.style(line, colour) if grey else line for line in more)
                yield from _fix_lines(fleet, fix, indent, width)
                if unseen := _unseen_because(names, groups, labels, verbose=verbose):
                    shown = " " * indent + "\n".join(hanging(unseen, indent, width))
                    yield from (fleet.style(line, "bright_black") for line in shown.splitlines())


def _merged(checks: Sequence[Check], label: str) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Findings of one state as text, fix and ids. Several checks with the same text and fix are one finding."""
    found: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        found.setdefault((_text(check, label), home_as_tilde(plain(check.fix, _LONGEST))), []).append(check.id)
    for (text, fix), names in found.items():
        yield (f"{', '.join(names)}: {text}" if len(names) > 1 else text), fix, names


def _unseen_because(
    names: Sequence[str], groups: Mapping[str, Sequence[Check]], labels: Mapping[str, str], *, verbose: bool
) -> str:
    """Which checks could not be made because those with these ids failed; empty if there are none."""
    unseen = {group: [check.id for check in checks if check.cause in names] for group, checks in groups.items()}
    parts = [
        f"{labels[group]}: {', '.join(ids)}" if verbose else f"{labels[group]} {len(ids)}"
        for group, ids in unseen.items()
        if ids
    ]
    text = "; ".join(parts) if verbose else f"{', '.join(parts)} (-v names them)"
    return f"not checked because of it: {text}" if parts else ""


def _text(check: Check, label: str) -> str:
    """The text of a check without its group's name, which is beside it."""
    text = check.what.removeprefix(f"{label}: ").removeprefix(f"{check.agent}: ")
    return home_as_tilde(plain(text, _LONGEST))


def _fix_lines(fleet: Context, fix: str, indent: int, width: int) -> Iterator[str]:
    """What to do, below the finding. A command stays on one line, so that it can be copied."""
    if not fix:
        return
    start = " " * indent + "→ "
    if fix.startswith(("fleethook ", "chmod ")):
        yield start + fleet.style(fix, "cyan")
        return
    lines = hanging(fix, len(start), width)
    for line, beginning in zip(lines, [start, *("" for _ in lines)], strict=False):
        yield beginning + highlight_commands(line, fleet.plain_style)


def _digits(groups: Mapping[str, Sequence[Check]]) -> int:
    return max((len(str(len(checks))) for checks in groups.values()), default=1)
