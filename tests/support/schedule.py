"""The order of the test files in a run of several processes: what takes longest starts first, so that nobody waits at the end.

Each process gets one file after the other, here (tests/support/processes.py) as with pytest-xdist (`--dist loadfile`), whose
own order is by number of tests: a file with seven tests of ten seconds each would come last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

ROOT = Path(__file__).parents[2]
SECONDS: dict[str, int] = {
    "tests/flow/gateway/test_openapi.py": 67,
    "tests/docs/test_pages.py": 60,
    "tests/flow/gateway/test_gobby.py": 49,
    "tests/flow/cli/test_bench.py": 43,
    "tests/flow/test_installed_agents.py": 38,
    "tests/flow/gateway/test_hook_command.py": 36,
    "tests/flow/test_bad_input.py": 36,
    "tests/flow/gateway/test_hooks.py": 35,
    "tests/flow/gateway/test_metrics.py": 33,
    "tests/flow/pages/test_in_browser.py": 31,
    "tests/flow/fleet_control/test_outage.py": 28,
    "tests/flow/test_guard_changes_away.py": 27,
    "tests/golden/test_conformance.py": 26,
    "tests/flow/pages/test_record_views.py": 25,
    "tests/flow/cli/test_up.py": 24,
    "tests/flow/approvals/test_no_failure_lets_it_pass.py": 23,
    "tests/live/bus/shim/test_native.py": 23,
    "tests/flow/gateway/test_live.py": 21,
    "tests/flow/gateway/test_outages.py": 21,
    "tests/live/workers/records/test_bulk_jobs.py": 21,
    "tests/live/bus/shim/test_main.py": 20,
    "tests/flow/cli/test_terminal.py": 18,
    "tests/flow/gateway/test_limits.py": 18,
    "tests/flow/cli/test_demo.py": 17,
    "tests/flow/test_slow_hooks.py": 17,
    "tests/chaos/test_redis_gone.py": 16,
    "tests/flow/cli/test_uninstall_purge.py": 16,
    "tests/live/workers/records/test_full_server.py": 14,
    "tests/live/workers/test_several_evaluators.py": 14,
    "tests/flow/fleet_control/test_one_host_cut_off.py": 13,
    "tests/flow/test_author.py": 13,
    "tests/flow/gateway/test_mcp.py": 12,
    "tests/flow/test_operations.py": 12,
    "tests/live/workers/test_jobs.py": 12,
    "tests/unit/bus/hooksets/guards/test_guards.py": 12,
    "tests/unit/bus/hooksets/test_sieve.py": 12,
    "tests/unit/workers/delivery/formats/test_limits.py": 12,
    "tests/flow/approvals/test_remembering.py": 11,
    "tests/flow/cli/test_progress.py": 11,
    "tests/unit/bus/shell/test_code.py": 11,
    "tests/flow/approvals/test_answers.py": 10,
    "tests/flow/test_tracing.py": 10,
    "tests/fundamentals/test_12_when_redis_is_away.py": 9,
    "tests/live/workers/delivery/test_pacing.py": 9,
    "tests/unit/bus/shell/test_shell.py": 9,
    "tests/unit/workers/cli/hooks/test_new.py": 9,
    "tests/chaos/test_workers_stopped.py": 8,
    "tests/flow/test_supervisor.py": 8,
    "tests/live/workers/delivery/test_breakers.py": 8,
    "tests/live/workers/test_dispatcher.py": 8,
    "tests/unit/workers/admin/doctor/test_doctor.py": 8,
    "tests/unit/workers/cli/hooks/test_show_input.py": 8,
    "tests/chaos/test_lost_replies_workers.py": 7,
    "tests/chaos/test_ordered_deliverers_killed.py": 7,
    "tests/flow/gateway/test_lists.py": 7,
    "tests/unit/docs/test_reference.py": 7,
    "tests/chaos/test_evaluators_killed.py": 6,
    "tests/flow/cli/test_webhooks.py": 6,
    "tests/flow/gateway/test_mcp_plugins.py": 6,
    "tests/live/bus/agents/test_opencode_plugin.py": 6,
    "tests/live/bus/test_client.py": 6,
    "tests/live/workers/test_carrier.py": 6,
    "tests/live/workers/test_host.py": 6,
    "tests/test_house.py": 6,
    "tests/unit/bus/hooksets/guards/test_development_corpus.py": 6,
    "tests/unit/bus/hooksets/guards/test_figures.py": 6,
    "tests/unit/bus/hooksets/test_hookfile.py": 6,
    "tests/unit/bus/test_chain_layers.py": 6,
    "tests/unit/workers/admin/test_guard_switches.py": 6,
    "tests/chaos/test_shim_bad_input.py": 5,
    "tests/flow/cli/test_webhooks_listen.py": 5,
    "tests/flow/gateway/test_http_install.py": 5,
    "tests/flow/test_agent_rights.py": 5,
    "tests/flow/test_coverage_outages.py": 5,
    "tests/flow/test_detached_hooks.py": 5,
    "tests/live/bus/hooksets/test_in_force.py": 5,
    "tests/live/workers/delivery/test_batch_bodies.py": 5,
    "tests/live/workers/delivery/test_scale.py": 5,
    "tests/unit/bus/secrets/test_command_lines.py": 5,
    "tests/unit/bus/secrets/test_redaction.py": 5,
    "tests/unit/bus/wire/test_codec.py": 5,
    "tests/unit/workers/delivery/formats/test_formats.py": 5,
}
"""Seconds of each file that takes more than five, in a run on two cores that do other work too; only their order counts."""

_FOLDERS = ("flow", "docs", "chaos", "fundamentals", "golden", "live", "contract")
"""Folders of tests with real processes and servers, the slowest first; tests of other folders take milliseconds."""


class HasPath(Protocol):
    """A collected test."""

    @property
    def path(self) -> Path: ...


T = TypeVar("T", bound=HasPath)


def longest_first(items: list[T]) -> list[T]:
    """The tests, those of the longest files first; the tests of a file stay together and in their order."""
    return sorted(items, key=lambda item: _rank(item.path))


def _rank(path: Path) -> tuple[int, int, str]:
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    folder = name.split("/")[1]
    return -SECONDS.get(name, 0), _FOLDERS.index(folder) if folder in _FOLDERS else len(_FOLDERS), name
