"""When an `up` starts another evaluator."""

from __future__ import annotations

import pytest

from bus.wire.keys import EVALUATORS_MS
from workers.waiting.on_demand import LATE_MS, needs_evaluator


@pytest.mark.req("G-11", "X-14")
def test_plugins_have_one_evaluator_unless_its_heartbeat_is_late() -> None:
    on_time, late = EVALUATORS_MS, EVALUATORS_MS - LATE_MS - 1
    assert needs_evaluator(1, on_time, 0)
    assert not needs_evaluator(0, on_time, 0)
    assert not needs_evaluator(3, on_time, 1), "another evaluator would have another instance of each plugin"
    assert needs_evaluator(0, late, 1), "but somebody has to answer"
    assert needs_evaluator(1, on_time, ValueError()), "an ACL that is older than the key"
