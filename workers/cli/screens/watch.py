"""What `watch` shows: events, calls that wait for a person, sessions, endpoints and dead letters, as large as the terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from bus.events import OWN_SOURCE
from workers.cli.formatting import health_text, local_time, plain, short
from workers.cli.output import Colour, Styler
from workers.cli.screens.columns import Cell, Column, fit, line, measure, session_colour
from workers.cli.screens.rows import (
    DEAD_COLUMNS,
    TAIL_COLUMNS,
    TAIL_WIDTHS,
    dead_letter_cells,
    event_cells,
    short_id,
)

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from rich.text import Text

    from workers.approvals.decisions import Verb
    from workers.approvals.questions import Question
    from workers.delivery.dead_letters import DeadLetter
    from workers.delivery.endpoint_health import EndpointHealth
    from workers.records.events import RecordedEvent

Panel = Literal["events", "questions", "sessions", "endpoints", "dead"]
PANELS: Final[tuple[Panel, ...]] = ("events", "questions", "sessions", "endpoints", "dead")
_TITLES: Final[dict[Panel, str]] = {
    "events": "EVENTS",
    "questions": "WAIT FOR A PERSON",
    "sessions": "SESSIONS",
    "endpoints": "ENDPOINTS",
    "dead": "DEAD LETTERS",
}
_KEPT: Final = 1_000

_QUESTION_COLUMNS: Final = (
    Column("ASKED", 8),
    Column("AGENT", 8, 9, rank=3),
    Column("SESSION", 8, 8, rank=4),
    Column("TOOL", 6, 12, rank=2),
    Column("CALL", 16, rank=1),
    Column("ID", 10),
)
_SESSION_COLUMNS: Final = (
    Column("SESSION", 8),
    Column("AGENT", 8),
    Column("EVENTS", 6),
    Column("DENIED", 6),
    Column("LAST", 8),
    Column("WHAT", 12, rank=1),
)
_ENDPOINT_COLUMNS: Final = (Column("ENDPOINT", 12, 32, rank=1), Column("STATE", 12), Column("WHY", 12, rank=2))
_KEYS: Final = "Tab list · j k move · Enter trace · r retry · p pause · q end"
_QUESTION_KEYS: Final = "Tab list · j k move · a approve · d deny · q end"
_TRACE_KEYS: Final = "j k scroll · q back"


@dataclass
class WatchedSession:
    """What one session has done since the view began."""

    agent: str
    events: int = 0
    denied: int = 0
    last: int = 0
    what: str = ""
    event: str = ""


@dataclass
class View:
    """Everything that is on the screen, and what is selected."""

    namespace: str = "default"
    events: deque[RecordedEvent] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """Oldest first."""
    sessions: dict[str, WatchedSession] = field(default_factory=dict)
    questions: Sequence[Question] = ()
    """The calls that wait for a person, oldest first."""
    asked: tuple[Verb, Question] | None = None
    """The answer that the next key confirms."""
    endpoints: Sequence[EndpointHealth] = ()
    dead: Sequence[DeadLetter] = ()
    panel: Panel = "events"
    at: dict[Panel, int] = field(default_factory=dict)
    """The selected row of each panel; 0 is the first."""
    trace: list[str] = field(default_factory=list)
    """The lines of an open trace; empty if none is open."""
    top: int = 0
    """The first line of the trace on the screen."""
    message: str = ""
    stopped: str = ""
    """What is stopped, on the first line; empty if nothing is."""
    away: str = ""
    """Why the server cannot be asked; empty if it can."""

    def add(self, seen: RecordedEvent) -> None:
        """Add an event; a selected event stays selected."""
        self.events.append(seen)
        if self.at.get("events", 0):
            self.at["events"] += 1
        name = seen.event.session
        if not name:
            return
        session = self.sessions.pop(name, None) or WatchedSession(seen.event.source)
        if seen.event.source != OWN_SOURCE:  # events of Fleethook about a session do not say which agent it is of
            session.agent = seen.event.source
        session.events += 1
        session.denied += seen.decision == "deny"
        session.last, session.what, session.event = seen.ms, event_cells(seen)[4].text, seen.id
        self.sessions[name] = session  # the session with the latest event is the last one
        if len(self.sessions) > _KEPT:
            del self.sessions[next(iter(self.sessions))]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The lists on the screen; the list of questions is there only while a call waits."""
        return tuple(panel for panel in PANELS if panel != "questions" or self.questions)

    def rows(self, panel: Panel) -> int:
        """How many rows a panel has."""
        lists = (self.events, self.questions, self.sessions, self.endpoints, self.dead)
        return len(dict(zip(PANELS, lists, strict=True))[panel])

    def move(self, step: int) -> None:
        """Select the next or previous row, or scroll the trace."""
        if self.trace:
            self.top = max(0, min(len(self.trace) - 1, self.top + step))
        else:
            self.at[self.panel] = max(0, min(self.rows(self.panel) - 1, self.selected(self.panel) + step))

    def selected(self, panel: Panel) -> int:
        """The selected row of a panel."""
        return max(0, min(self.at.get(panel, 0), self.rows(panel) - 1))

    def selected_event(self) -> str:
        """The id of the event of the selected row; empty if there is none."""
        at = self.selected(self.panel)
        if self.panel == "events":
            return self.events[-1 - at].id if self.events else ""
        if self.panel == "sessions":
            return list(self.sessions.values())[-1 - at].event if self.sessions else ""
        letter = self.selected_letter() if self.panel == "dead" else None
        return letter.event if letter is not None else ""

    def selected_letter(self) -> DeadLetter | None:
        """The selected dead letter."""
        return self.dead[self.selected("dead")] if self.dead else None

    def selected_question(self) -> Question | None:
        """The selected call that waits for a person."""
        return self.questions[self.selected("questions")] if self.questions else None

    def selected_endpoint(self) -> EndpointHealth | None:
        """The selected endpoint."""
        return self.endpoints[self.selected("endpoints")] if self.endpoints else None


def frame(view: View, width: int, height: int, style: Styler) -> Text:
    """The whole screen: `height` lines, none of them longer than `width` cells."""
    from rich.text import Text

    head = [style(view.stopped, "red")] if view.stopped else []
    height -= len(head)
    lines = [*(_trace(view, height) if view.trace else _lists(view, width, height, style))]
    lines = [*lines[: height - 1], *([""] * (height - 1 - len(lines)))]
    message = view.away or view.message
    keys = _TRACE_KEYS if view.trace else _QUESTION_KEYS if view.panel == "questions" else _KEYS
    lines.append(style(message, "yellow") if message else style(keys, "bright_black"))
    texts = [Text.from_ansi(text) for text in (*head, *lines)]
    for text in texts:
        text.truncate(width, overflow="ellipsis")
    return Text("\n", no_wrap=True, end="").join(texts)


def _trace(view: View, height: int) -> list[str]:
    return view.trace[view.top : view.top + height - 1]


def _lists(view: View, width: int, height: int, style: Styler) -> Iterator[str]:
    small = max(1, min(6, (height - 12) // 5))
    shown = view.panels
    heights = dict.fromkeys(shown, small) | {"events": max(1, height - 1 - 2 * len(shown) - (len(shown) - 1) * small)}
    for panel in shown:
        yield from _panel(view, panel, width, heights[panel], style)


def _panel(view: View, panel: Panel, width: int, height: int, style: Styler) -> Iterator[str]:
    """A title, the names of the columns, and `height` rows with the selected row among them."""
    here, at = panel == view.panel, view.selected(panel)
    title = f"{'▶' if here else ' '} {_TITLES[panel]} {view.rows(panel)}"
    yield style(f"{title} ".ljust(width, "─"), "cyan" if here else "bright_black")
    first = max(0, min(at - height + 1, view.rows(panel) - height)) if at >= height else 0
    columns, rows = _cells(view, panel, first, height)
    natural = [TAIL_WIDTHS.get(column.name, 400) for column in columns] if panel == "events" else measure(columns, rows)
    if panel != "events":
        natural = [max(size, len(column.name)) for column, size in zip(columns, natural, strict=True)]
    layout = fit(columns, natural, width - 2)
    yield "  " + line([Cell(column.name, "bright_black") for column in columns], layout, style)
    for number, row in enumerate(rows, first):
        mark = style("▸ ", "cyan") if here and number == at else "  "
        yield mark + line(row, layout, style)
    yield from [""] * (height - len(rows))


def _cells(view: View, panel: Panel, first: int, height: int) -> tuple[tuple[Column, ...], list[list[Cell]]]:
    if panel == "events":
        newest = list(view.events)[::-1][first : first + height]
        return TAIL_COLUMNS, [
            [_time(seen.ms), *event_cells(seen)[:5], Cell(short_id(seen.id), "bright_black")] for seen in newest
        ]
    if panel == "questions":
        return _QUESTION_COLUMNS, [_question(one) for one in view.questions[first : first + height]]
    if panel == "sessions":
        sessions = list(view.sessions.items())[::-1][first : first + height]
        return _SESSION_COLUMNS, [
            [
                Cell(name[:8], session_colour(name)),
                Cell(session.agent),
                Cell(str(session.events)),
                Cell(str(session.denied), "red" if session.denied else None),
                _time(session.last),
                Cell(session.what, "cyan"),
            ]
            for name, session in sessions
        ]
    if panel == "endpoints":
        return _ENDPOINT_COLUMNS, [_endpoint(health) for health in view.endpoints[first : first + height]]
    letters = view.dead[first : first + height]
    return DEAD_COLUMNS, [
        dead_letter_cells(letter, local_time(letter.ms).strftime("%H:%M:%S"), short_id(letter.id)) for letter in letters
    ]


def _question(one: Question) -> list[Cell]:
    return [
        _time(one.asked),
        Cell(plain(one.source)),
        Cell(plain(one.session)[:8], session_colour(one.session)),
        Cell(plain(one.tool)),
        Cell(short(one.summary, 400), "yellow"),
        Cell(short_id(one.id), "bright_black"),
    ]


def _endpoint(health: EndpointHealth) -> list[Cell]:
    colour: Colour = "green" if health.healthy else "red" if health.standing == "disabled" else "yellow"
    word = "failing" if health.standing == "active" and not health.healthy else health.standing
    mark = {"active": "✓", "disabled": "✗", "paused": "…"}.get(word, "!")
    why = "" if health.healthy and not health.parked else short(health_text(health), 400)
    return [Cell(health.endpoint), Cell(f"{mark} {word}", colour), Cell(why, colour)]


def _time(ms: int) -> Cell:
    return Cell(local_time(ms).strftime("%H:%M:%S"), "bright_black")
