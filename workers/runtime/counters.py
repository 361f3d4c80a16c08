"""What a worker counts for the fleet's metrics in Redis, where counts add up over all processes and outlive each of them.

Most counts are written by the script that makes the change, so none is lost and none is counted twice. `Counters` writes the
others once a second and when its worker ends: a worker that is killed loses those of its last second.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

from bus.errors import FleethookError
from bus.events import SOURCES, EventType
from bus.hooks import Hook
from bus.secrets.replacements import replaced
from bus.verdicts import ModelUse, Verdict
from bus.wire.connections import Connection, Connections
from bus.wire.counts import (
    ANSWERS,
    BETWEEN,
    BUCKETS,
    OTHER,
    SUM,
    bucket_of,
    count_text,
    field,
    micros,
    observed,
)
from bus.wire.exchange_times import ExchangeTimes
from bus.wire.keys import Keys
from workers.waiting.pulses import pulse

CHECKS: Final = "rule_checks"
"""The name of the counts of rules that were checked and did not fit. It is a histogram as the others, which Prometheus does not
get: each rule of each guard pack would be a series."""

_MICRO_BUCKETS: Final = tuple(bound * 1e6 for bound in BUCKETS)
_SECONDS: Final = 1.0
_TIMES_SECONDS: Final = 30.0
"""How long the times of exchanges with Redis wait if nothing else was counted: a process that does nothing has those alone."""
_MOST_NAMES: Final = 500
"""How many hooks and endpoints one worker counts by name."""
_AGENTS: Final = frozenset({*SOURCES, "fleethook"})
_TYPES: Final = frozenset(kind.value for kind in EventType)
_REASONS: Final = (
    ("overload", ("evaluator was free", "full", "too many")),
    ("timeout", ("timed out", "budget", "in time", "took longer", "timeout", " ended after ")),
    ("unreachable", ("no evaluator", "redis", "gateway", "connect", "unreachable", "refused", "no worker")),
)
REASONS: Final = (*(name for name, _ in _REASONS), "handler_error")
"""The kinds of fallbacks."""


class Names:
    """The names of hooks and endpoints that are labels: the first ones by themselves, all others as `other`."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        """The label for a name."""
        if name not in self._names:
            if len(self._names) >= _MOST_NAMES:
                return OTHER
            self._names.add(name)
        return name


class VerdictCounts:
    """What an evaluator's answers add to the metrics; labels have few values."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._names = Names()

    def note_kinds(self, hooks: Iterable[Hook]) -> None:
        """Note what kind each hook is of, for the label `source`."""
        for hook in hooks:
            if hook.id not in self._kinds and len(self._kinds) < _MOST_NAMES:
                self._kinds[hook.id] = "plugin" if hook.plugin else "rule" if hook.kind == "rule" else "hook"

    def of_answer(
        self, verdict: Verdict, source: str, event_type: str, *, known: bool = False
    ) -> tuple[str | int, ...]:
        """The counts of one answer, in turn fields and numbers: its decision, its time and its hooks.

        `known`: the verdict is that of the same call before, whose hooks were counted then.
        """
        agent, kind = agent_label(source), type_label(event_type)
        counts: list[str | int] = []
        if verdict.fallback:
            counts += (field("verdicts", agent, kind, verdict.decision, "fallback"), 1, ":fallbacks", 1)
            counts += _failure(verdict.decision, reason_label(verdict.fallback))
        else:
            seconds, decider = verdict.ms / 1000, self._decider(verdict)
            bucket = bucket_of(seconds)
            if known:
                counts += (field("verdicts", agent, kind, verdict.decision, decider), 1)
                counts += (field("verdict_duration_seconds", agent, kind, bucket), 1)
            else:
                counts += (field(ANSWERS, agent, kind, verdict.decision, decider, bucket), 1)
            counts += (field("verdict_duration_seconds", agent, kind, SUM), micros(seconds))
        if verdict.lost:
            counts += (":lost", len(verdict.lost))
        if not known and verdict.parts:
            counts += self._of_parts(verdict)
        return tuple(counts)

    def _of_parts(self, verdict: Verdict) -> Iterable[str | int]:
        for part in verdict.parts:
            name = self._names.label(part.hook)
            if part.fallback:
                reason = reason_label(part.fallback)
                yield from (":fallbacks", 1)
                yield from _failure(part.decision, reason if reason == "timeout" else "handler_error")
            elif self._kinds.get(part.hook) == "rule":
                yield from (field("rule_matches", name, part.decision), 1)
            if part.model is not None:
                yield from self._of_model(part.model, failed=bool(part.fallback))
            outcome = "failed" if part.fallback else part.decision
            for count in observed(field("handler_duration_seconds", name, outcome), part.ms / 1000):
                yield from count

    def _of_model(self, use: ModelUse, *, failed: bool) -> Iterable[str | int]:
        name = self._names.label(use.name)
        outcome = "failed" if failed else "remembered" if use.cached else "answered"
        yield from (field("model_questions", name, outcome), 1)
        yield from (field("model_requests", name), use.requests)
        yield from (field("model_tokens", name, "input"), use.input_tokens)
        yield from (field("model_tokens", name, "output"), use.output_tokens)
        if use.cost is not None:
            yield from (field("model_cost_millionths", name, use.currency), micros(use.cost))

    def _decider(self, verdict: Verdict) -> str:
        """What decided: `rule`, `hook`, `plugin`, `human`, `fallback`, or `default` if nothing did."""
        if verdict.fallback:
            return "fallback"
        if verdict.stop or (verdict.approval is not None and verdict.approval.state in {"approved", "denied"}):
            return "human"
        for part in verdict.parts:
            if part.decision == verdict.decision != "abstain":
                return self._kinds.get(part.hook, "hook")
        return "default"


class Counters:
    """The counts of one process that belong to no change in Redis: rules that did not fit, secrets, times of Redis."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._counted: Counter[str] = Counter()
        self._checks: dict[str, list[int]] = {}
        """Checks of rules that did not fit, not labelled yet: for each rule its buckets, then the sum of its microseconds."""
        self._names = Names()
        self._times = Connection.times = Connection.times or ExchangeTimes()
        self._sent = self._times_sent = 0.0

    def add(self, name: str, *labels: str) -> None:
        """Count one."""
        self._counted[field(name, *labels)] += 1

    def count_checks(self, verdict: Verdict) -> None:
        """Count the rules that were checked for a verdict and did not fit. There can be dozens, so they are sent together."""
        for rules in verdict.silent.values():
            for rule, took in rules.items():
                row = self._checks.get(rule) or self._checks.setdefault(rule, [0] * (len(BUCKETS) + 2))
                row[bisect_left(_MICRO_BUCKETS, took)] += 1
                row[-1] += took

    def take(self) -> Counter[str]:
        """The counts so far, by their fields; begins anew."""
        self._counted.update({field("redactions", kind): number for kind, number in replaced.items()})
        self._counted.update(self._times.take())
        for rule, row in self._checks.items():
            key = field(CHECKS, self._names.label(rule))
            self._counted.update(
                {f"{key}{BETWEEN}{part}": n for part, n in zip((*range(len(BUCKETS) + 1), SUM), row, strict=True)}
            )
        counted, self._counted = +self._counted, Counter()
        replaced.clear()
        self._checks.clear()
        return counted

    async def send(self, *, now: bool = False) -> None:
        """Add the counts to the fleet's figures, at most once a second without `now`; raises Unreachable."""
        if not now and time.monotonic() - self._sent < _SECONDS:  # asked at every turn of a busy loop
            return
        only_times = not (self._counted or self._checks or replaced or self._times.has_errors)
        if not now and only_times and time.monotonic() - self._times_sent < _TIMES_SECONDS:
            return
        self._times_sent = time.monotonic()
        # They are gone if the exchange fails: whether the server has them is not known, and nothing is counted twice.
        counted, self._sent, metrics = self.take(), time.monotonic(), self._keys("metrics")
        if not counted:
            return
        with self._connections.lease() as connection:
            await connection.exchange([("HINCRBY", metrics, name, number) for name, number in counted.items()])

    async def send_always(self) -> None:
        """Send once a second until cancelled; while Redis is away the counts wait."""
        while True:
            await pulse()
            try:
                await self.send()
            except FleethookError:
                continue


def event_counts(source: str, event_type: str, *, blocking: bool) -> str:
    """The counts of a dispatched event; `blocking`: its agent waited for a verdict."""
    return count_text(
        [(field("events", agent_label(source), type_label(event_type), "true" if blocking else "false"), 1)]
    )


def agent_fallback_counts(reason: str) -> str:
    """The counts of an agent's report that it got no verdict and its hook command's failure policy answered."""
    return count_text([(field("agent_fallbacks", reason_label(reason)), 1)])


def attempt_counts(endpoint: str, outcome: str, seconds: float) -> str:
    """The counts of one attempt of a webhook."""
    counts = [(field("webhook_attempts", endpoint, outcome), 1)]
    return count_text(counts + observed(field("webhook_duration_seconds", endpoint), seconds))


def background_counts(hook: str, outcome: str, seconds: float) -> str:
    """The counts of one attempt of a background hook; `outcome` is that of its delivery."""
    ended = "delivered" if outcome == "delivered" else "failed"
    return count_text(observed(field("handler_duration_seconds", hook, ended), seconds))


def agent_label(source: str) -> str:
    """The agent's name if it is one that Fleethook knows."""
    return source if source in _AGENTS else OTHER


def type_label(event_type: str) -> str:
    """The event's type if it is a canonical one."""
    return event_type if event_type in _TYPES else OTHER


def reason_label(why: str) -> str:
    """The kind of a fallback: `overload`, `timeout`, `unreachable` or `handler_error`."""
    text = why.lower()
    return next((name for name, words in _REASONS if any(word in text for word in words)), "handler_error")


def _failure(decision: str, reason: str) -> tuple[str, int]:
    return field("fail_closed" if decision in {"deny", "ask"} else "fail_open", reason), 1
