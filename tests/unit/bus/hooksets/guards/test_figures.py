"""How well the packs judge lines that no rule was written with: the bars, and the figures of both parts by group."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.hooksets.guards import packs
from bus.hooksets.guards.corpus import CorpusLine, Figures, figures, figures_by_group, lines_without, read_corpus
from workers.admin.guard_trial import judge_lines

CORPORA = Path(__file__).parents[4] / "corpora"

LEAST_RECALL = {"development": 97.0, "held-out": 97.0}
"""Percent.

Held-out lines that are in the development part too are left out."""

MOST_FALSE_ALARMS = 0.8
"""Percent, on both parts."""


def read(part: str) -> list[CorpusLine]:
    """The lines of one part."""
    found: list[CorpusLine] = []
    for path in sorted((CORPORA / part).glob("*.jsonl")):
        lines, problems = read_corpus(path.read_bytes(), path.name)
        assert problems == []
        found += lines
    return found


def shown(name: str, one: Figures) -> str:
    """One group as a line of the printed table."""
    recall = "" if one.recall is None else f"{one.stopped} of {one.to_stop} stopped ({one.recall:.1f} %)"
    rate = one.false_alarm_rate
    false_alarms = "" if rate is None else f"{one.false_alarms} of {one.harmless} false alarms ({rate:.1f} %)"
    return f"  {name:<16} {recall:<32} {false_alarms}".rstrip()


@pytest.mark.req("X-09")
@pytest.mark.parametrize("part", ["development", "held-out"])
def test_the_packs_stop_what_destroys_and_little_else(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = read(part) if part == "development" else lines_without(read(part), read("development"))
    found = judge_lines(lines, packs())
    whole = figures(found)
    assert all(0 < one.guard_seconds <= one.seconds for one in found), "the engine's part is counted apart"
    with capsys.disabled():  # the figures are the point of it; the held-out lines themselves are not printed
        print(f"\n{part}")  # noqa: T201 - see above
        for name, one in [*figures_by_group(found).items(), ("all", whole)]:
            print(shown(name, one))  # noqa: T201 - see above
    assert whole.recall is not None
    assert whole.false_alarm_rate is not None
    assert whole.recall >= LEAST_RECALL[part]
    assert whole.false_alarm_rate <= MOST_FALSE_ALARMS
