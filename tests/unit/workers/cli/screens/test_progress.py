"""Progress of long work (issue 11, section 3): the rate and the time left, and calm lines where no terminal is."""

from __future__ import annotations

import pytest

from workers.cli.common import Context
from workers.cli.screens.progress import CALM_SECONDS, Progress, TimedPart, pace_text, rate, time_text


@pytest.mark.parametrize(
    ("done", "total", "a_second", "said"),
    [
        (1_200, 5_000, 240.0, "1,200 of 5,000 deliveries · 240/s · 16 s left"),
        (3, 100, 0.5, "3 of 100 deliveries · 0.5/s · 3 min 14 s left"),
        (3, 100, 0.01, "3 of 100 deliveries · 0.6/min · 2 h 41 min left"),
        (500, 0, 50.0, "500 deliveries · 50/s"),
        (0, 100, 0.0, "0 of 100 deliveries"),
        (100, 100, 10.0, "100 of 100 deliveries · 10/s"),
        (120, 100, 10.0, "120 of 100 deliveries · 10/s"),
    ],
)
def test_the_pace_in_words(done: float, total: int, a_second: float, said: str) -> None:
    assert pace_text(done, total, a_second, "deliveries") == said


def test_a_length_of_time_has_two_units_at_most() -> None:
    assert [time_text(one) for one in (0.2, 59.4, 60, 61, 3_600, 7_500)] == [
        "1 s",
        "59 s",
        "1 min",
        "1 min 1 s",
        "1 h",
        "2 h 5 min",
    ]


def test_the_rate_is_of_what_was_watched() -> None:
    """A job that is half done when somebody looks was not done in that second."""
    assert rate((5_000, 10.0), (5_100, 12.0)) == 50
    assert rate((5_000, 10.0), (5_000, 10.0)) == 0


def test_parts_of_known_length(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine that took twice as long for the first part takes twice as long for the others."""
    now = 0.0
    parts = [TimedPart("request", 10), TimedPart("shim", 20), TimedPart("start", 70)]
    with Progress(Context(), "bench", clock=lambda: now) as progress:
        progress.update_part(parts, 0)
        now = 20.0
        progress.update_part(parts, 1)
    assert capsys.readouterr().err == "bench: 2 of 3: shim · about 3 min left\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_pipe_gets_a_plain_line_now_and_then(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """One line in five seconds, and none for a program that reads JSON."""
    now = 0.0
    with Progress(Context(json=as_json), "job 1", 100, unit="deliveries", clock=lambda: now) as progress:
        for second in range(12):
            now = float(second)
            progress.update(second * 2)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = (
        []
        if as_json
        else [
            "job 1: 10 of 100 deliveries · 2.0/s · 45 s left",
            "job 1: 20 of 100 deliveries · 2.0/s · 40 s left",
        ]
    )
    assert shown.err.splitlines() == lines
    assert CALM_SECONDS == 5
