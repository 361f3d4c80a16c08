"""The metrics of a fleet, by their Prometheus names."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from workers.records.status import Status


def exposition(found: Status, version: str) -> tuple[bytes, str]:
    """The metrics in Prometheus' text format, and its media type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(tuple(families(found, version))))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collected(Collector):
    """Families that are collected already, in the form that the library asks for."""

    def __init__(self, families: tuple[Metric, ...]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

    def describe(self) -> Iterable[Metric]:
        return ()


def families(found: Status, version: str) -> Iterator[Metric]:
    """Every metric of a fleet's state."""
    info = GaugeMetricFamily("fleethook_build_info", "The versions in use.", labels=["version", "python", "redis"])
    info.add_metric([version, platform.python_version(), f"{found.server.brand} {found.server.version}".strip()], 1)
    yield info
    yield _gauge(
        "fleethook_workers",
        "Live processes by type.",
        "role",
        {role.role: role.alive for role in found.roles if role.alive is not None},
    )
    yield _gauge(
        "fleethook_stream_length",
        "Entries of a stream.",
        "stream",
        {stream.name: stream.length for stream in found.streams},
    )
    for name, text, values in (
        ("pending", "Entries that are read and not acknowledged.", {one: one.pending for one in found.streams}),
        ("lag", "Entries that the group has not read.", {one: one.lag for one in found.streams}),
    ):
        family = GaugeMetricFamily(f"fleethook_stream_{name}_messages", text, labels=["stream", "group"])
        for stream, value in values.items():
            if stream.group and value is not None:
                family.add_metric([stream.name, stream.group], value)
        yield family
    yield GaugeMetricFamily("fleethook_dlq_messages", "Dead letters.", value=found.dead)
    yield GaugeMetricFamily("fleethook_deliveries_due", "Deliveries that are tried again later.", value=found.due)
    yield GaugeMetricFamily("fleethook_hook_set_version", "The published hook set's version.", value=found.version)
    yield GaugeMetricFamily("fleethook_redis_used_memory_bytes", "The server's memory.", value=found.server.memory)
    yield from _counters(found.stats)


def _counters(stats: Mapping[str, int]) -> Iterator[Metric]:
    yield _counter("fleethook_verdicts", "Verdicts that hooks gave.", "verdict", _after(stats, "verdicts:"))
    outcomes = {"created" if name == "owed" else name: count for name, count in _after(stats, "deliveries:").items()}
    yield _counter("fleethook_deliveries", "Deliveries by outcome.", "outcome", outcomes)
    for name, text in (
        ("events", "Events that were dispatched."),
        ("fallbacks", "Answers that no hook gave, and hooks that failed."),
        ("lost", "Parts of verdicts that an agent's protocol cannot carry."),
    ):
        yield CounterMetricFamily(f"fleethook_{name}", text, value=stats.get(name, 0))


def _after(stats: Mapping[str, int], beginning: str) -> dict[str, int]:
    return {name.removeprefix(beginning): value for name, value in stats.items() if name.startswith(beginning)}


def _gauge(name: str, text: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
