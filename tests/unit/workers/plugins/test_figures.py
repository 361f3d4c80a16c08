"""What `plugins list` says of a plugin that several workers run."""

from __future__ import annotations

import pytest

from workers.plugins.figures import PluginFigures, PluginState
from workers.plugins.listing import summaries


@pytest.mark.req("G-22", "G-17")
def test_calls_of_all_workers_are_added_and_the_times_are_those_of_the_slowest() -> None:
    quick, slow = PluginFigures(), PluginFigures()
    for number in range(100):
        quick.note(1.0, failed=number < 3)
        slow.note(2.0 if number < 98 else 50.0, failed=False)
    states = [
        PluginState(
            name="guard",
            layer="user",
            state=state,  # type: ignore[arg-type]
            worker=worker,
            version="1.2.0",
            handlers=(("check", "before_tool", 10),),
            calls=figures.calls,
            failures=figures.failures,
            p50_ms=figures.percentile(0.5),
            p99_ms=figures.percentile(0.99),
        )
        for worker, state, figures in (("evaluator-1", "running", quick), ("evaluator-2", "waiting", slow))
    ]
    (found,) = summaries((), states)
    assert (found.name, found.version, found.state, found.hooks) == ("guard", "1.2.0", "mixed", 1)
    assert (found.calls, found.failures, found.p50_ms, found.p99_ms) == (200, 3, 2.0, 50.0)
    assert [one.worker for one in found.workers] == ["evaluator-1", "evaluator-2"]
    assert (summaries((), states[:1])[0].state, PluginFigures().percentile(0.99)) == ("running", 0.0)
