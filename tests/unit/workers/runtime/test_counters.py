"""The labels of counters: few, whatever agents and hooks are called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import get_args

import pytest

from bus.hooks import Hook
from bus.http.webhook_client import Failure, Reply
from bus.matching.rules import Rule
from bus.verdicts import Approval, ModelUse, Part, Verdict
from bus.wire.counts import LONG_BUCKETS, decisions, expanded
from bus.wire.exchange_times import ExchangeTimes
from bus.wire.scripts import script
from bus.wire.streams import ScriptCall
from workers.delivery.outcome_table import judge
from workers.delivery.results import FAILURES, AttemptDetails, AttemptResult, attempt_label
from workers.gateway.metric_families import _cumulative
from workers.records.series import least_counted
from workers.runtime.counters import Names, VerdictCounts, attempt_counts, event_counts, reason_label

pytestmark = pytest.mark.req("G-19")


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("no evaluator is alive; `fleethook up` starts one", "unreachable"),
        ("no verdict came within the budget", "timeout"),
        ("hook 'x' timed out after 5 s", "timeout"),
        ("the budget was used up before an evaluator was free", "overload"),
        ("redis is away: connection refused", "unreachable"),
        ("the evaluator failed on this request: KeyError", "handler_error"),
        ("exit code 1", "handler_error"),
    ],
)
def test_a_fallback_has_one_of_four_reasons(why: str, reason: str) -> None:
    assert reason_label(why) == reason


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        (Reply(status=204), "2xx"),
        (Reply(status=302), "3xx"),
        (Reply(status=503), "5xx"),
        (Reply(error="refused", detail="10.0.0.1 is private"), "blocked"),
        (Reply(error="tls", detail="the certificate is not accepted"), "tls"),
        (Reply(error="timeout", detail="no complete answer within 15 s"), "timeout"),
        (Reply(status=200, error="timeout", detail="its body broke off"), "timeout"),
        (Reply(error="connect", detail="Connection refused"), "connect"),
        (Reply(error="dns", detail="the name cannot be resolved"), "dns"),
    ],
)
def test_an_attempt_has_one_of_few_outcomes(reply: Reply, label: str) -> None:
    assert attempt_label(judge(reply)._replace(evidence=AttemptDetails(status=reply.status))) == label


def test_an_attempt_that_broke_off_is_another() -> None:
    assert attempt_label(AttemptResult("dead", "the attempt ended with an internal error: KeyError: 1")) == "other"
    assert set(FAILURES) | {"", "refused"} == set(get_args(Failure)), "each kind of failure has its name"


def counts(text: str) -> dict[str, int]:
    """The counts in the argument of a script."""
    return {name: int(number) for number, _, name in (line.partition(" ") for line in text.splitlines())}


def answered(pairs: Sequence[str | int]) -> dict[str, int]:
    """The counts of an answer as metrics have them, and those of `stats` with a colon."""
    return expanded({str(name): int(number) for name, number in zip(pairs[::2], pairs[1::2], strict=True)})


def test_what_decided_is_told_apart() -> None:
    one = VerdictCounts()
    one.note_kinds([Hook(id="lint", on=("*",), command="x", plugin="acme")])
    denied = Verdict(decision="deny", parts=(Part(hook="lint", decision="deny"),))
    approved = Verdict(decision="allow", approval=Approval(question="q", state="approved"))
    silent = Verdict(decision="deny", approval=Approval(question="q", state="timed_out"), parts=denied.parts)
    found = [
        answered(one.of_answer(verdict, "claude", "tool:pre_execute"))
        for verdict in (denied, approved, silent, Verdict(), Verdict(fallback="redis is away"))
    ]
    sources = [name.rpartition("|")[2] for each in found for name in each if name.startswith("verdicts|")]
    assert sources == ["plugin", "human", "plugin", "default", "fallback"]
    assert found[4]["fail_open|unreachable"] == found[4][":fallbacks"] == 1
    raw = one.of_answer(denied, "claude", "tool:pre_execute")
    assert decisions({str(raw[0]): 3}) == {"deny": 3}, "status has it too"
    assert {name.partition("|")[0] for name in found[3]} == {"verdicts", "verdict_duration_seconds"}
    assert not any(name.startswith("verdict_duration") for name in found[4]), "a fallback is no time of a verdict"


def test_the_hooks_of_the_same_call_are_counted_once() -> None:
    one = VerdictCounts()
    one.note_kinds([Hook(id="no-rm", on=("*",), rule=Rule(decision="deny"))])
    verdict = Verdict(decision="deny", parts=(Part(hook="no-rm", decision="deny"),))
    assert answered(one.of_answer(verdict, "codex", "tool:pre_execute"))["rule_matches|no-rm|deny"] == 1
    again = answered(one.of_answer(verdict, "codex", "tool:pre_execute", known=True))
    assert [name for name in again if "no-rm" in name or name.startswith(":")] == []
    assert again["verdicts|codex|tool:pre_execute|deny|rule"] == 1
    raw = one.of_answer(verdict, "codex", "tool:pre_execute", known=True)
    assert not decisions(dict.fromkeys(map(str, raw[::2]), 1)), "status counts decisions of hooks that ran"


def test_names_are_bounded_and_cannot_break_a_field() -> None:
    names = Names()
    labels = [names.label(f"e{number}") for number in range(600)]
    assert (len(set(labels)), labels.count("other")) == (501, 100)
    assert event_counts("acme|x", "a|b", blocking=True) == "1 events|other|other|true"
    assert "webhook_attempts|e1|a_b_c" in counts(attempt_counts("e1", "a|b\nc", 0.1))


def test_a_histogram_counts_each_time_in_its_bucket() -> None:
    part: Counter[str] = Counter()
    for seconds in (0.0005, 0.0006, 31.0):
        part.update(
            {n.rpartition("|")[2]: c for n, c in counts(attempt_counts("e", "2xx", seconds)).items() if "dur" in n}
        )
    assert part == {"0": 1, "1": 1, "15": 1, "sum": 31_001_100}
    buckets = dict(_cumulative(part))
    assert (buckets["0.0005"], buckets["0.001"], buckets["30.0"], buckets["+Inf"]) == (1, 2, 2, 3)


def test_the_scripts_have_the_same_long_buckets() -> None:
    found = re.search(r"^local LONG = \{(.*)\}", script("settle").text, re.MULTILINE)
    assert found is not None
    assert tuple(map(float, found[1].split(","))) == LONG_BUCKETS


def test_times_of_redis_have_the_names_of_commands_and_scripts() -> None:
    times = ExchangeTimes()
    times.note([("GET", "x")], 0.0004)
    times.note([ScriptCall("answer", ("k",), ()).command()], 0.003)
    times.note([("GET", "x"), ("GET", "y")], 40.0)
    times.note([("GET", "x"), ("XREADGROUP", "GROUP")], 5.0)  # it waits for entries
    times.note([("XREADGROUP", "GROUP"), ("HGETALL", "stops")], 5.0)  # so does an evaluator's read
    times.note_error(TimeoutError())
    times.note_error(ConnectionError("NOAUTH Authentication required."))
    times.note_error(ConnectionRefusedError("no"))
    assert times.take() == {
        "redis_command_duration_seconds|get|0": 1,
        "redis_command_duration_seconds|get|sum": 400,
        "redis_command_duration_seconds|answer.lua|3": 1,
        "redis_command_duration_seconds|answer.lua|sum": 3000,
        "redis_command_duration_seconds|pipeline|15": 1,
        "redis_command_duration_seconds|pipeline|sum": 40_000_000,
        "redis_errors|timeout": 1,
        "redis_errors|credentials": 1,
        "redis_errors|connection": 1,
    }
    assert times.take() == {}


def test_the_names_that_counted_least_lose_their_series() -> None:
    fields = {b"events|claude|x|true": 1, b"rule_matches|old|deny": 2, b"handler_duration_seconds|old|deny|0": 2}
    fields |= {b"handler_duration_seconds|old|deny|sum": 10**9, b"rule_matches|new|deny": 7, b"lost": 3}
    assert sorted(least_counted(fields, 1)) == sorted(name for name in fields if b"|old|" in name)
    assert len(least_counted(fields, 100)) == 4, "what has no name of a hook stays"


@pytest.mark.req("I-12")
def test_what_models_used_is_counted_by_model() -> None:
    use = ModelUse(name="small", requests=2, input_tokens=900, output_tokens=40, cost=0.00125, currency="USD")
    parts = (
        Part(hook="a", decision="deny", model=use),
        Part(hook="b", decision="abstain", model=ModelUse(name="small", cached=True)),
        Part(hook="c", decision="abstain", fallback="timed out", model=ModelUse(name="small", requests=1)),
    )
    counts = VerdictCounts().of_answer(Verdict(decision="deny", parts=parts), "claude", "tool:pre_execute")
    found: Counter[str] = Counter()
    for name, number in zip(counts[::2], counts[1::2], strict=True):
        found[str(name)] += int(number)
    assert {name: number for name, number in found.items() if name.startswith("model_") and number} == {
        "model_questions|small|answered": 1,
        "model_questions|small|remembered": 1,
        "model_questions|small|failed": 1,
        "model_requests|small": 3,
        "model_tokens|small|input": 900,
        "model_tokens|small|output": 40,
        "model_cost_millionths|small|USD": 1250,
    }
