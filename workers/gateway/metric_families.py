"""The metrics of a fleet, by their Prometheus names."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from bus.wire.counts import BETWEEN, BUCKETS, LONG_BUCKETS, SUM
from bus.wire.exchange_times import ERRORS
from workers.gateway.live.feed import Transport
from workers.records.figures import Figures
from workers.records.status import Status
from workers.runtime.counters import REASONS

_COUNTERS = {
    "events": ("Events that were dispatched.", ("agent", "event", "blocking")),
    "verdicts": ("Answers to requests, by what decided.", ("agent", "event", "verdict", "source")),
    "fail_open": ("Hooks and requests without a verdict that let the agent go on.", ("reason",)),
    "fail_closed": ("Hooks and requests without a verdict that stopped the agent.", ("reason",)),
    "agent_fallbacks": ("Answers of agents' own hook commands because no verdict came to them.", ("reason",)),
    "rule_matches": ("Rules that took part in a verdict, by what each said.", ("rule", "verdict")),
    "model_questions": ("Runs of prompt and agent hooks, by how they ended.", ("model", "outcome")),
    "model_requests": ("Requests of prompt and agent hooks to the model's endpoint.", ("model",)),
    "model_tokens": ("Tokens of prompt and agent hooks, as the endpoint counts them.", ("model", "direction")),
    "model_cost_millionths": ("Cost by the configured prices, in millionths of the currency.", ("model", "currency")),
    "webhook_attempts": ("Attempts of webhooks.", ("endpoint", "outcome")),
    "reclaimed_messages": ("Entries that were taken over from a process that died.", ("stream", "group")),
    "redactions": ("Secrets that were replaced, each time that a text with one was shown or sent.", ("kind",)),
    "live_dropped": ("Clients of live feeds that were dropped because they were too slow.", ("transport",)),
    "redis_errors": ("Exchanges with Redis that failed.", ("reason",)),
}
_SEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(("fail_open", "fail_closed", "agent_fallbacks"), tuple((reason,) for reason in REASONS)),
    "redis_errors": tuple((reason,) for reason in ERRORS),
    "live_dropped": tuple((transport,) for transport in get_args(Transport)),
    "redactions": (("value",),),
    "reclaimed_messages": (("requests", "evaluators"), ("events", "dispatchers"), ("deliveries", "carriers")),
}
"""Series that begin with 0: one that begins with 1 has no rise that an alert could see."""
_HISTOGRAMS = {
    "verdict_duration_seconds": ("From a request's arrival at an evaluator to its verdict.", ("agent", "event")),
    "handler_duration_seconds": ("The time of one hook that took part in a verdict.", ("handler", "outcome")),
    "webhook_duration_seconds": ("The time of one attempt of a webhook.", ("endpoint",)),
    "redis_command_duration_seconds": (
        "The time of one exchange with Redis that did not wait on purpose.",
        ("command",),
    ),
}
_LONG_HISTOGRAMS = {
    "webhook_delivery_age_seconds": ("From a delivery's beginning to its success.", ("endpoint",)),
    "approval_wait_seconds": ("From a question to its answer or end.", ()),
}


def exposition(found: Status, figures: Figures, version: str, here: Here) -> tuple[bytes, str]:
    """The metrics in Prometheus' text format, and its media type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(tuple(families(found, figures, version, here))))
    return generate_latest(registry), CONTENT_TYPE_LATEST


def plain_exposition(
    counters: Iterable[tuple[str, str, float]],
    gauges: Iterable[tuple[str, str, float]],
    histograms: Iterable[tuple[str, str, Sequence[int], float]],
) -> bytes:
    """Metrics without labels in the text format: name, help, and the value or the counts of `BUCKETS` and the sum."""
    found: list[Metric] = [CounterMetricFamily(name, text, value=value) for name, text, value in counters]
    found += [GaugeMetricFamily(name, text, value=value) for name, text, value in gauges]
    for name, text, counts, total in histograms:
        by_number = {str(number): count for number, count in enumerate(counts)}
        found.append(HistogramMetricFamily(name, text, buckets=_cumulative(by_number), sum_value=total))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(tuple(found)))
    return generate_latest(registry)


class Here(NamedTuple):
    """What only this gateway knows."""

    clients: Mapping[str, int]
    """Clients of its live feed by transport."""
    rejected: int
    """Hook files of its machine whose newer content is not in force."""
    changed_at: float
    """When hooks were last put in force, in seconds since 1970."""


class _Collected(Collector):
    """Families that are collected already, in the form that the library asks for."""

    def __init__(self, families: tuple[Metric, ...]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

    def describe(self) -> Iterable[Metric]:
        return ()


def families(found: Status, figures: Figures, version: str, here: Here) -> Iterator[Metric]:
    """Every metric of a fleet's state, and its counters."""
    info = GaugeMetricFamily("fleethook_build_info", "The versions in use.", labels=["version", "python", "redis"])
    info.add_metric([version, platform.python_version(), f"{found.server.brand} {found.server.version}".strip()], 1)
    yield info
    yield _gauge(
        "fleethook_processes",
        "Live processes by type.",
        "role",
        {role.role: role.alive for role in found.roles if role.alive is not None},
    )
    yield from _streams(found)
    dead = {source: letters.count for source, letters in figures.dead.items()}
    oldest = {source: letters.oldest_s for source, letters in figures.dead.items() if source != "uncounted"}
    yield _gauge("fleethook_dlq_messages", "Dead letters by what they come from.", "source", dead)
    yield _gauge("fleethook_dlq_oldest_seconds", "Age of the oldest dead letter.", "source", oldest)
    yield GaugeMetricFamily("fleethook_deliveries_due", "Deliveries that are tried again later.", value=found.due)
    yield GaugeMetricFamily("fleethook_hook_set_version", "The published hook set's version.", value=found.version)
    yield GaugeMetricFamily("fleethook_redis_used_memory_bytes", "The server's memory.", value=found.server.memory)
    yield GaugeMetricFamily("fleethook_approvals_pending", "Questions that wait for a person.", value=figures.approvals)
    yield _gauge("fleethook_live_clients", "Clients of this gateway's live feed.", "transport", here.clients)
    yield GaugeMetricFamily(
        "fleethook_config_reload_success",
        "0: the newer content of a hook file of this gateway's machine is not in force.",
        value=int(not here.rejected),
    )
    yield GaugeMetricFamily(
        "fleethook_config_reload_timestamp_seconds",
        "When this gateway's machine last put other hooks in force.",
        value=here.changed_at,
    )
    jobs = GaugeMetricFamily("fleethook_queue_jobs", "Jobs of RQ by state.", labels=["queue", "status"])
    for queue in figures.queues:
        for state, count in queue.jobs.items():
            jobs.add_metric([queue.queue, state], count)
    yield jobs
    workers = GaugeMetricFamily("fleethook_workers", "Workers of RQ by state.", labels=["queue", "state"])
    for queue in figures.queues:
        for state, count in queue.workers.items():
            workers.add_metric([queue.queue, state], count)
    yield workers
    yield _gauge(
        "fleethook_webhook_circuit_open",
        "1: only probes are sent to the endpoint, since it fails.",
        "endpoint",
        {name: int(standing == "open") for name, standing in figures.endpoints.items()},
    )
    yield from _counters(found.stats)
    yield from _labelled(figures.counts)


def _streams(found: Status) -> Iterator[Metric]:
    yield _gauge(
        "fleethook_stream_length",
        "Entries of a stream.",
        "stream",
        {stream.name: stream.length for stream in found.streams},
    )
    for name, text, values in (
        ("pending_messages", "Entries that are read and not acknowledged.", {s: s.pending for s in found.streams}),
        ("lag_messages", "Entries that the group has not read.", {s: s.lag for s in found.streams}),
        (
            "oldest_pending_seconds",
            "Age of the oldest entry that is not acknowledged.",
            {s: (s.oldest_ms or 0) / 1000 for s in found.streams},
        ),
    ):
        family = GaugeMetricFamily(f"fleethook_stream_{name}", text, labels=["stream", "group"])
        for stream, value in values.items():
            if stream.group and value is not None:
                family.add_metric([stream.name, stream.group], value)
        yield family


def _counters(stats: Mapping[str, int]) -> Iterator[Metric]:
    outcomes = {"created" if name == "owed" else name: count for name, count in _after(stats, "deliveries:").items()}
    deliveries = CounterMetricFamily("fleethook_deliveries", "Deliveries by outcome.", labels=["outcome"])
    for outcome, count in outcomes.items():
        deliveries.add_metric([outcome], count)
    yield deliveries
    for name, text in (
        ("fallbacks", "Answers that no hook gave, and hooks that failed."),
        ("lost", "Parts of verdicts that an agent's protocol cannot carry."),
    ):
        yield CounterMetricFamily(f"fleethook_{name}", text, value=stats.get(name, 0))


def _labelled(counts: Mapping[str, int]) -> Iterator[Metric]:
    """The counters with labels, and the histograms."""
    by_name: dict[str, list[tuple[list[str], int]]] = defaultdict(list)
    for field, count in sorted(counts.items()):
        name, *labels = field.split(BETWEEN)
        by_name[name].append((labels, count))
    for name, seeds in _SEEDS.items():
        known = {tuple(values) for values, _ in by_name[name]}
        by_name[name] += [(list(seed), 0) for seed in seeds if seed not in known]
    for name, (text, names) in _COUNTERS.items():
        counter = CounterMetricFamily(f"fleethook_{name}", text, labels=names)
        for values, count in by_name[name]:
            if len(values) == len(names):  # another version may count with other labels
                counter.add_metric(values, count)
        yield counter
    for bounds, histograms in ((BUCKETS, _HISTOGRAMS), (LONG_BUCKETS, _LONG_HISTOGRAMS)):
        for name, (text, names) in histograms.items():
            histogram = HistogramMetricFamily(f"fleethook_{name}", text, labels=names)
            parts: dict[tuple[str, ...], dict[str, int]] = {} if names else {(): {}}
            for values, count in by_name[name]:
                if len(values) == len(names) + 1:
                    parts.setdefault(tuple(values[:-1]), {})[values[-1]] = count
            for series, part in parts.items():
                histogram.add_metric(series, _cumulative(part, bounds), part.get(SUM, 0) / 1e6)
            yield histogram


def _cumulative(part: Mapping[str, int], bounds: Sequence[float] = BUCKETS) -> list[tuple[str, float]]:
    """The buckets with their upper bounds, each with all below it."""
    total, buckets = 0, []
    for number, bound in enumerate([*map(str, bounds), "+Inf"]):
        total += part.get(str(number), 0)
        buckets.append((bound, float(total)))
    return buckets


def _after(stats: Mapping[str, int], beginning: str) -> dict[str, int]:
    return {name.removeprefix(beginning): value for name, value in stats.items() if name.startswith(beginning)}


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
