"""Lists on a terminal: one line for each row at every width. Columns are cut, then dropped, in a declared order."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from workers.cli.output import Colour, Styler, printable
from workers.cli.screens.line_wrap import wrap

ID_CHARACTERS: Final = 10
"""The length of an id's short form in a list. An id is longer if another one in the list has the same beginning."""

ENDLESS: Final = 10_000
GAP: Final = 2
_LEAST: Final = 8

SIGNS: Final[Mapping[str, str]] = {
    "deny": "✗",
    "ask": "?",
    "allow": "✓",
    "abstain": "·",
    "fallback": "!",
    "waiting": "…",
    "approved": "✓",
    "denied": "✗",
    "timed out": "!",
    "nobody could be asked": "!",
    "overtaken": "!",
    "delivered": "✓",
    "dead": "✗",
    "due": "↻",
    "retry": "↻",
    "parked": "…",
    "ready": "…",
    "running": "→",
    "queued": "…",
    "done": "✓",
    "stopped": "!",
    "failed": "✗",
    "active": "✓",
    "disabled": "✗",
    "paused": "…",
    "open": "!",
}
"""Each word has its own sign: it shows the difference without colours, and to people who do not see them."""

_SESSION_COLOURS: Final[tuple[Colour, ...]] = (
    "cyan",
    "magenta",
    "blue",
    "bright_cyan",
    "bright_magenta",
    "bright_blue",
)


_SPACES: Final = re.compile(r"\s")


class Column(NamedTuple):
    """One column of a list."""

    name: str
    least: int
    """Its narrowest width in cells. If not even that fits, columns are dropped."""
    most: int = ENDLESS
    """Its widest width in cells."""
    rank: int = 0
    """The highest rank is dropped first and gets spare room last; 0 is never dropped and never cut."""
    keep_end: bool = False
    """Whether a text that is too wide loses its beginning instead of its end, so that `path/file:line` keeps name and line."""
    halved: bool = False
    """Whether a column of rank 0 is cut to half of the line when it would leave no room for the column of rank 1."""


class Cell(NamedTuple):
    """A text and its colour; None for the terminal's own."""

    text: str
    colour: Colour | None = None


Layout = tuple[tuple[int, int], ...]
"""Which columns are shown, by index, and how wide in cells."""


def fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> Layout:
    """The columns and their widths that fit into `width` cells; `natural` are the widths of their widest cells.

    In an endless width every column is as wide as its widest cell.

    Columns of rank 0 stay whole, but for those that are `halved`: only they can make a line longer than `width`.
    """
    layout = _fit(columns, natural, width)
    shown = {index for index, _ in layout}
    needed = {index for index, column in enumerate(columns) if column.rank <= 1 and natural[index]}
    if needed <= shown and sum(size + GAP for _, size in layout) - GAP <= width:
        return layout
    halves = [
        min(size, max(column.least, width // 2)) if column.halved else size
        for column, size in zip(columns, natural, strict=True)
    ]
    return _fit(columns, halves, width)


def _fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> Layout:
    wanted = [
        max(size, column.least) if column.rank == 0 else min(size, column.most if width < ENDLESS else size)
        for column, size in zip(columns, natural, strict=True)
    ]
    least = [
        size if column.rank == 0 else min(size, column.least) for column, size in zip(columns, wanted, strict=True)
    ]
    kept = [index for index, size in enumerate(wanted) if size]
    by_rank = sorted(kept, key=lambda index: columns[index].rank)

    def taken() -> int:
        return sum(least[index] for index in kept) + GAP * (len(kept) - 1)

    while taken() > width and by_rank and columns[by_rank[-1]].rank:
        kept.remove(by_rank.pop())
    spare = max(0, width - taken())
    for index in sorted(
        by_rank, key=lambda index: columns[index].most == ENDLESS
    ):  # these columns get the space that is left
        more = min(spare, wanted[index] - least[index])
        least[index] += more
        spare -= more
    return tuple((index, least[index]) for index in kept)


def line(cells: Sequence[Cell], layout: Layout, style: Styler, columns: Sequence[Column] = ()) -> str:
    """One row as one line, in colours where `style` gives them; `columns` say which cells keep their end."""
    from rich.cells import cell_len

    parts, open_cells = [], 0
    for index, width in layout:
        text = one_line(cells[index].text)
        text = cut_beginning(text, width) if columns and columns[index].keep_end else cut(text, width)
        colour = cells[index].colour
        parts.append(" " * open_cells + (style(text, colour) if colour and text else text))
        open_cells = width - cell_len(text) + GAP
    return "".join(parts).rstrip()


def one_line(text: str) -> str:
    """A text without line breaks and control characters; its blanks stay."""
    return printable(_SPACES.sub(" ", text))


def cut(text: str, width: int) -> str:
    """The beginning of a text in `width` cells of a terminal; Chinese letters take two, combining marks none."""
    from rich.cells import cell_len, set_cell_size

    if len(text) <= width and text.isascii():
        return text
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 0 else ""


def cut_beginning(text: str, width: int) -> str:
    """The end of a text in `width` cells of a terminal."""
    from rich.cells import cell_len

    size, start = cell_len(text), 0
    if size <= width:
        return text
    while size > width - 1:
        size -= cell_len(text[start])
        start += 1
    return "…" + text[start:] if width > 0 else ""


def as_columns(columns: Sequence[Column | str]) -> list[Column]:
    """Columns with these names. The first one is never cut, and the last one is dropped first."""
    return [
        Column(one, max(len(one), _LEAST) if place else 0, rank=place, halved=not place)
        if isinstance(one, str)
        else one
        for place, one in enumerate(columns)
    ]


def as_cells(row: Sequence[object]) -> list[Cell]:
    """Cells with these texts; a dash for no value."""
    return [value if isinstance(value, Cell) else Cell("-" if value is None else str(value)) for value in row]


def measure(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> list[int]:
    """The width of the widest cell of each column, its name included."""
    from rich.cells import cell_len

    sizes = [0] * len(columns)
    for row in rows:
        for index, cell in enumerate(row):
            sizes[index] = max(sizes[index], cell_len(one_line(cell.text)))
    return [max(size, len(column.name)) if size else 0 for column, size in zip(columns, sizes, strict=True)]


def list_lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], style: Styler, width: int) -> Iterable[str]:
    """Print a list with the names of its columns, one line for each row. Columns that are empty in every row are left out."""
    layout = fit(columns, measure(columns, rows), width)
    yield line([Cell(column.name, "bright_black") for column in columns], layout, style)
    yield from (line(row, layout, style, columns) for row in rows)


def terminal_width() -> int:
    """The width of stdout in cells. It is endless if stdout is no terminal, since programs read it then."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else ENDLESS


def wrapped_lines(lines: Iterable[str]) -> str:
    """Lines as a text for stdout; on a terminal, long lines are wrapped."""
    width = terminal_width()
    return "\n".join(lines if width == ENDLESS else (wrap(line, width) for text in lines for line in text.split("\n")))


_COMMAND: Final = re.compile(r"`[^`]+`")


def hanging(text: str, indent: int, width: int) -> list[str]:
    """A text as lines of `width` cells, all but the first behind `indent` blanks; the caller writes what is before the text.

    A command in backquotes stays on one line if it fits into a line.
    """
    import textwrap

    if width == ENDLESS:
        return [text]
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, max(20, width - indent), break_long_words=False, break_on_hyphens=False) or [""]
    return [(" " * indent if number else "") + one.replace("\0", " ") for number, one in enumerate(lines)]


def highlight_commands(text: str, style: Styler) -> str:
    """A text with its commands in backquotes coloured."""
    return _COMMAND.sub(lambda found: style(found[0], "cyan"), text)


def home_as_tilde(text: str) -> str:
    """A text with this user's home written as `~` at the beginning of paths."""
    home = os.path.expanduser("~").rstrip("/")
    return re.sub(rf"(?<![\w/.-]){re.escape(home)}(?=/|\W|$)", "~", text) if home.startswith("/") else text


def id_length(ids: Iterable[str], least: int = ID_CHARACTERS) -> int:
    """How many characters distinguish these ids: `least`, or more if two ids have the same beginning."""
    length = least
    ordered = sorted(set(ids))
    for before, after in pairwise(ordered):
        if before[:length] == after[:length]:
            same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
            length = max(length, same + 1)
    return length


def sign(word: str) -> str:
    """A word with its sign before it; a dash if there is no word."""
    return f"{SIGNS.get(word, ' ')} {word}" if word else "-"


def session_colour(session: str) -> Colour:
    """The colour of a session, the same wherever it is shown."""
    return _SESSION_COLOURS[zlib.crc32(session.encode("utf-8", "replace")) % len(_SESSION_COLOURS)]
