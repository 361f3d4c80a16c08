"""How well the packs judge lines that no rule was written with: the bars, and the figures of both parts by group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bus.hooksets.guards import DEFAULT_PACKS, packs
from bus.hooksets.guards.corpus import (
    CorpusFigures,
    CorpusLine,
    Judged,
    figures,
    figures_by_group,
    lines_without,
    read_corpus,
)
from tests.support.examples import sample
from workers.admin.guard_trial import judge_lines

CORPORA = Path(__file__).parents[4] / "corpora"

LEAST_RECALL = {"development": 97.0, "held-out": 97.0}
"""Percent.

Held-out lines that are in the development part too are left out."""

MOST_FALSE_ALARMS = 0.8
"""Percent, on both parts."""

MOST_MISSED_COMMANDS, MOST_FALSE_ALARMS_ON_COMMANDS = 1.0, 0.5
"""Percent of the shell lines of the development part; a decision that is not the expected one counts as missed."""

OTHER_PACKS = tuple(name for name in packs() if name not in DEFAULT_PACKS)
LEAST_RECALL_OF_OTHERS, MOST_FALSE_ALARMS_OF_OTHERS = 90.0, 3.0
"""Percent, for each pack on its own held-out lines."""


def read(part: str) -> list[CorpusLine]:
    """The lines of one part."""
    found: list[CorpusLine] = []
    for path in sorted((CORPORA / part).glob("*.jsonl")):
        lines, problems = read_corpus(path.read_bytes(), path.name)
        assert problems == []
        found += lines
    return found


def shown(name: str, one: CorpusFigures) -> str:
    """One group as a line of the printed table."""
    recall = "" if one.recall is None else f"{one.stopped} of {one.to_stop} stopped ({one.recall:.1f} %)"
    rate = one.false_alarm_rate
    false_alarms = "" if rate is None else f"{one.false_alarms} of {one.harmless} false alarms ({rate:.1f} %)"
    return f"  {name:<16} {recall:<32} {false_alarms}".rstrip()


@pytest.mark.req("X-09")
@pytest.mark.parametrize("part", ["development", "held-out"])
def test_the_packs_stop_what_destroys_and_little_else(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A run has every fourth line of the development part: the bars are shares, and the packs' own tests hold each rule."""
    lines = sample(read(part)) if part == "development" else lines_without(read(part), read("development"))
    found = judge_lines(lines, DEFAULT_PACKS)
    assert all(0 < one.guard_seconds <= one.seconds for one in found), "the engine's part is counted apart"
    hold(part, found, LEAST_RECALL[part], MOST_FALSE_ALARMS, capsys)
    if part == "development":
        hold_commands([one for one in found if one.line.event.tool == "bash"])


def hold_commands(found: Sequence[Judged]) -> None:
    """Hold shell lines to bars of their own."""
    for harmless, most in ((False, MOST_MISSED_COMMANDS), (True, MOST_FALSE_ALARMS_ON_COMMANDS)):
        judged = [one for one in found if (one.line.expect == "allow") is harmless]
        wrong = [one.line.call for one in judged if one.finding]
        assert len(judged) >= 500
        assert len(wrong) <= most / 100 * len(judged), wrong


@pytest.mark.req("X-07")
@pytest.mark.parametrize("pack", OTHER_PACKS)
def test_each_other_pack_stops_what_it_is_for_and_little_else(pack: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines, problems = read_corpus((CORPORA / "packs" / "held-out" / f"{pack}.jsonl").read_bytes(), pack)
    assert problems == []
    found = judge_lines(lines, [pack])
    hold(pack, found, LEAST_RECALL_OF_OTHERS, MOST_FALSE_ALARMS_OF_OTHERS, capsys)


def hold(
    name: str, found: Sequence[Judged], recall: float, false_alarms: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print the figures by group, and hold them to the bars."""
    whole = figures(found)
    with capsys.disabled():  # the figures are the point of it; the held-out lines themselves are not printed
        print(f"\n{name}")  # noqa: T201 - see above
        for group, one in [*figures_by_group(found).items(), ("all", whole)]:
            print(shown(group, one))  # noqa: T201 - see above
    assert whole.recall is not None
    assert whole.false_alarm_rate is not None
    assert whole.recall >= recall
    assert whole.false_alarm_rate <= false_alarms
