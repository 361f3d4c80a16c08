"""The full-screen view (issue 11, `watch`): as large as the terminal, and what is selected stays on it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.events import Event
from bus.verdicts import Verdict
from tests.support.examples import examples
from workers.approvals.questions import Question
from workers.cli.output import styler
from workers.cli.screens.watch import PANELS, View, frame
from workers.delivery.dead_letters import DeadLetter
from workers.delivery.endpoint_health import EndpointHealth
from workers.records.events import RecordedEvent

TEXT = st.text(max_size=120)


def test_a_session_keeps_its_agent_when_fleethook_says_something_about_it() -> None:
    shown = View()
    for number, source in enumerate(("fleethook", "codex", "fleethook")):
        event = Event(type="approval:asked", source=source, session="s1")
        shown.add(RecordedEvent(id=f"e{number:032}", entry="1-0", ms=number, event=event))
        assert shown.sessions["s1"].agent == ("fleethook" if number == 0 else "codex")


def view(texts: list[str]) -> View:
    """A view with an event, an endpoint and a dead letter for each text."""
    made = View()
    for number, text in enumerate(texts):
        event = Event(
            type="tool:pre_execute", source="claude", session=f"s{number}", tool="bash", input={"command": text}
        )
        made.add(
            RecordedEvent(id=f"e{number:032}", entry="1-0", ms=number, event=event, verdict=Verdict(decision="deny"))
        )
    made.endpoints = [EndpointHealth(target=f"endpoint:{number}", reason=text) for number, text in enumerate(texts)]
    made.questions = [
        Question(
            id=f"e{number:032}", state="waiting", asked=0, due=9, ends=9, default="deny", summary=text, source="claude"
        )
        for number, text in enumerate(texts)
    ]
    made.dead = [
        DeadLetter(id=f"e{number}.x", kind="delivery", ms=0, reason=text, event=f"e{number}")
        for number, text in enumerate(texts)
    ]
    return made


@settings(max_examples=examples(30), deadline=None)
@given(
    texts=st.lists(TEXT, max_size=30),
    trace=st.lists(TEXT, max_size=50),
    moves=st.lists(st.sampled_from([-1, 1, 5, 20]), max_size=6),
    panel=st.sampled_from(PANELS),
    width=st.integers(60, 180),
    height=st.integers(16, 60),
)
def test_a_frame_has_the_size_of_the_terminal(
    texts: list[str], trace: list[str], moves: list[int], panel: str, width: int, height: int
) -> None:
    shown = view(texts)
    shown.panel = panel  # type: ignore[assignment]  # drawn from PANELS
    shown.trace = [text.replace("\n", " ") for text in trace]
    for step in moves:
        shown.move(step)
    drawn = frame(shown, width, height, styler(True))
    lines = drawn.split("\n", allow_blank=True)
    assert len(lines) == height
    assert max(line.cell_len for line in lines) <= width


def test_keys_move_over_what_is_there() -> None:
    """An event that is selected stays selected when others come; each list knows the event that it is about."""
    shown = view(["a", "b", "c"])
    assert shown.selected_event() == f"e{2:032}"
    shown.move(1)
    shown.add(RecordedEvent(id="new", entry="1-0", ms=0, event=Event(type="session:end")))
    assert shown.selected_event() == f"e{1:032}"
    shown.move(99)
    assert shown.selected_event() == f"e{0:032}"
    shown.panel = "sessions"
    assert shown.selected_event() == f"e{2:032}"
    assert list(shown.sessions.values())[-1].denied == 1
    shown.panel = "dead"
    assert shown.selected_event() == "e0"
    assert View().selected_event() == ""
    assert (View().selected_letter(), View().selected_endpoint()) == (None, None)


@pytest.mark.parametrize("height", [24, 40])
def test_the_selected_row_is_on_the_screen(height: int) -> None:
    shown = view([str(number) for number in range(50)])
    for panel in PANELS:
        shown.panel = panel
        shown.move(30)
        lines = frame(shown, 100, height, styler(False)).plain.splitlines()
        assert [line.startswith("▸ ") for line in lines].count(True) == 1
