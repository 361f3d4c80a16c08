"""The metrics of Gobby's daemon by their Prometheus names, none of which has labels."""

from __future__ import annotations

from typing import Final

from workers.gateway.gobby.tally import FleetCounts, GobbyTally, memory
from workers.gateway.metric_families import plain_exposition

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exposition(tally: GobbyTally, fleet: FleetCounts) -> bytes:
    """The metrics in Prometheus' text format."""
    return plain_exposition(
        counters=(
            ("hooks", "Hook calls.", tally.hooks),
            ("hooks_succeeded", "Hook calls that got a verdict.", tally.hooks - tally.hooks_failed),
            ("hooks_failed", "Hook calls without a verdict.", tally.hooks_failed),
            ("http_requests", "HTTP requests.", tally.requests),
            ("http_requests_errors", "HTTP requests that were refused or failed.", tally.request_errors),
            ("background_tasks", "Deliveries of the fleet.", fleet.tasks_total),
            ("background_tasks_completed", "Deliveries that arrived.", fleet.tasks_completed),
            ("background_tasks_failed", "Deliveries that became dead letters.", fleet.tasks_failed),
            ("mcp_calls", "Calls of MCP tools on this port: none, the tools of plugins are at /mcp of the gateway.", 0),
            ("mcp_calls_succeeded", "MCP calls that succeeded: none.", 0),
            ("mcp_calls_failed", "MCP calls that failed: none.", 0),
        ),
        gauges=(
            ("background_tasks_active", "Deliveries of the fleet that wait or run.", fleet.tasks_active),
            ("daemon_uptime_seconds", "Seconds since the gateway started.", tally.uptime),
            ("daemon_memory_usage_bytes", "Memory of the gateway's process.", memory()[0]),
            ("daemon_cpu_percent", "Share of one core since the gateway started.", tally.cpu_percent),
        ),
        histograms=(
            ("http_request_duration_seconds", "The time of an HTTP request.", tally.buckets, tally.seconds),
            ("mcp_call_duration_seconds", "The time of an MCP call.", [0] * len(tally.buckets), 0.0),
        ),
    )
