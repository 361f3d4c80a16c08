"""Long files start first, so that a run of several processes has no tail."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import schedule
from tests.support.schedule import ROOT, longest_first


class Collected(NamedTuple):
    """A test as it was collected."""

    path: Path
    name: str


def test_the_longest_files_come_first_and_a_file_stays_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "SECONDS", {"tests/unit/test_b.py": 9, "tests/live/test_a.py": 30})
    names = ["contract/test_c", "flow/test_d", "live/test_a", "test_house", "unit/test_a", "unit/test_b"]
    items = [Collected(ROOT / "tests" / f"{name}.py", test) for name in names for test in ("second", "first")]
    shown = [(str(item.path.relative_to(ROOT / "tests")), item.name) for item in longest_first(items)]
    order = ["live/test_a", "unit/test_b", "flow/test_d", "contract/test_c", "test_house", "unit/test_a"]
    assert shown == [(f"{name}.py", test) for name in order for test in ("second", "first")]


def test_xdist_keeps_this_order(pytestconfig: pytest.Config) -> None:
    """Its own order is by the number of tests."""
    assert not pytestconfig.getoption("loadscopereorder", False)


def test_every_file_with_a_time_is_there() -> None:
    """A file that was renamed would start among the last."""
    assert [name for name in schedule.SECONDS if not (ROOT / name).is_file()] == []
