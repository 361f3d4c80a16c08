"""Counts and times of hooks and endpoints out of the counters (G-22)."""

from __future__ import annotations

from collections import Counter

import pytest

from bus.errors import Unreachable
from bus.verdicts import Part, Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.records.run_figures import NO_RUNS, counts, endpoint_figures, hook_figures, quantile_ms
from workers.runtime.counters import Counters, VerdictCounts, attempt_counts, background_counts

pytestmark = pytest.mark.req("G-22", "G-19")


def added(*texts: str) -> Counter[str]:
    """The counters once scripts have added these counts."""
    lines = (line.partition(" ") for text in texts for line in text.splitlines())
    found: Counter[str] = Counter()
    for number, _, name in lines:
        found[name] += int(number)
    return found


def test_hooks_have_what_the_counters_counted() -> None:
    answers, one = VerdictCounts(), Counters(Connections("unix:///nowhere.sock"), Keys("n"))
    lint = [
        Part(hook="lint", decision="deny", ms=3.0),
        Part(hook="lint", decision="abstain", fallback="timed out", ms=400),
    ]
    verdicts = [Verdict(parts=(part,), silent={"here": {"no-rm": 300}}) for part in lint]
    verdicts.append(Verdict(parts=(Part(hook="no-rm", decision="deny", ms=0.1),)))
    for verdict in verdicts:
        one.count_checks(verdict)
    pairs = [answers.of_answer(verdict, "claude", "tool:pre_execute") for verdict in verdicts]
    counted = added(
        *(f"{number} {name}" for pair in pairs for name, number in zip(pair[::2], pair[1::2], strict=True)),
        background_counts("tell", "delivered", 0.02),
        background_counts("tell", "retry", 0.03),
    )
    found = hook_figures(counted + one.take())
    assert (found["lint"].runs, found["lint"].failed, found["lint"].outcomes) == (2, 1, {"deny": 1, "failed": 1})
    assert found["lint"].mean_ms == 201.5
    assert (found["no-rm"].runs, found["no-rm"].outcomes) == (3, {"deny": 1, "silent": 2})
    assert found["no-rm"].mean_ms == pytest.approx(0.233, abs=0.001)
    assert (found["tell"].runs, found["tell"].failed) == (2, 1)
    assert "never" not in found
    assert one.take() == {}, "what was taken is not counted again"


def test_endpoints_have_their_attempts() -> None:
    attempts = (("2xx", 0.02), ("5xx", 0.04), ("timeout", 15.0))
    counted = added(*(attempt_counts("chat", outcome, seconds) for outcome, seconds in attempts))
    chat = endpoint_figures(counted)["chat"]
    assert (chat.runs, chat.failed, chat.outcomes) == (3, 2, {"2xx": 1, "5xx": 1, "timeout": 1})
    assert chat.mean_ms == pytest.approx(5020)
    assert 20 < (chat.p50_ms or 0) <= 50
    assert 10_000 < (chat.p99_ms or 0) <= 30_000


def test_a_quantile_is_linear_within_its_bucket() -> None:
    assert quantile_ms({}, 0.5) is None
    assert quantile_ms({0: 4}, 0.5) == 0.25
    assert quantile_ms({0: 1, 3: 1}, 0.99) == pytest.approx(2 + 3 * 0.98)
    assert quantile_ms({15: 1}, 0.5) == 30_000, "above the last bound there is no estimate"


def test_counts_of_another_version_or_without_rights_are_left_out() -> None:
    assert counts(Unreachable("no rights")) == {}
    odd = {"handler_duration_seconds|x": 1, "handler_duration_seconds|x|deny|a|0": 1, "rule_checks|x|what": 2}
    assert hook_figures(odd) == {}
    assert (NO_RUNS.runs, NO_RUNS.p50_ms) == (0, None)
