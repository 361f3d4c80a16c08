"""The order of the test files in a run of several processes: what takes longest starts first, so that nobody waits at the end.

pytest-xdist gives each process one file after the other (`--dist loadfile`). Its own order is by number of tests, by which a
file with seven tests of ten seconds each comes last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

ROOT = Path(__file__).parents[2]
SECONDS: dict[str, int] = {
    "tests/docs/test_pages.py": 82,
    "tests/flow/cli/test_up.py": 37,
    "tests/flow/pages/test_record_views.py": 34,
    "tests/flow/test_operations.py": 34,
    "tests/flow/cli/test_bench.py": 33,
    "tests/flow/gateway/test_limits.py": 32,
    "tests/flow/test_tracing.py": 30,
    "tests/flow/gateway/test_openapi.py": 27,
    "tests/flow/gateway/test_programs.py": 26,
    "tests/flow/test_supervisor.py": 26,
    "tests/flow/test_slow_hooks.py": 25,
    "tests/golden/test_conformance.py": 25,
    "tests/flow/gateway/test_gobby.py": 23,
    "tests/live/workers/delivery/test_carrier_memory.py": 23,
    "tests/flow/gateway/test_hooks.py": 22,
    "tests/flow/pages/test_in_browser.py": 22,
    "tests/flow/test_author.py": 20,
    "tests/flow/test_guard_changes_away.py": 17,
    "tests/flow/cli/test_demo.py": 16,
    "tests/flow/gateway/test_mcp.py": 15,
    "tests/flow/approvals/test_answers.py": 15,
    "tests/flow/approvals/test_remembering.py": 15,
    "tests/flow/test_bad_input.py": 15,
    "tests/flow/test_coverage_outages.py": 15,
    "tests/flow/gateway/test_hook_command.py": 14,
    "tests/chaos/test_workers_stopped.py": 12,
    "tests/flow/cli/test_progress.py": 12,
    "tests/flow/cli/test_terminal.py": 12,
    "tests/live/workers/records/test_bulk_jobs.py": 12,
    "tests/unit/workers/delivery/formats/test_limits.py": 12,
    "tests/chaos/test_redis_gone.py": 11,
    "tests/flow/test_agent_rights.py": 11,
    "tests/live/bus/shim/test_main.py": 11,
    "tests/unit/workers/cli/hooks/test_new.py": 11,
    "tests/flow/cli/test_service.py": 10,
    "tests/flow/gateway/test_live.py": 10,
    "tests/flow/gateway/test_sign_ins.py": 10,
    "tests/flow/test_detached_hooks.py": 10,
    "tests/flow/test_up_lifeline.py": 10,
    "tests/live/workers/test_several_evaluators.py": 10,
    "tests/unit/bus/hooksets/test_sieve.py": 10,
    "tests/flow/approvals/test_restarted_server.py": 9,
    "tests/flow/cli/test_webhooks.py": 9,
    "tests/flow/fleet_control/test_outage.py": 9,
    "tests/live/workers/delivery/test_pacing.py": 9,
    "tests/flow/cli/test_simulate.py": 8,
    "tests/live/bus/runners/test_per_file.py": 8,
    "tests/live/workers/delivery/test_breakers.py": 8,
    "tests/live/workers/delivery/test_scale.py": 8,
    "tests/flow/cli/test_webhooks_listen.py": 7,
    "tests/flow/gateway/test_lists.py": 7,
    "tests/live/workers/records/test_full_server.py": 7,
    "tests/live/workers/runtime/test_rule_checks.py": 7,
    "tests/live/workers/test_dispatcher.py": 7,
    "tests/chaos/test_lost_replies_workers.py": 6,
    "tests/flow/cli/test_replay.py": 6,
    "tests/flow/cli/test_uninstall_purge.py": 6,
    "tests/flow/test_installed_agents.py": 6,
    "tests/flow/test_spool_drain.py": 6,
    "tests/live/bus/agents/test_opencode_plugin.py": 6,
    "tests/live/bus/hookfiles/test_claude.py": 6,
    "tests/live/bus/hookfiles/test_pigo_forge.py": 6,
    "tests/live/bus/hooksets/test_in_force.py": 6,
    "tests/live/workers/delivery/test_batch_bodies.py": 6,
    "tests/live/workers/test_carrier.py": 6,
    "tests/chaos/test_deliverers_killed.py": 5,
    "tests/chaos/test_evaluators_killed.py": 5,
    "tests/chaos/test_server_killed.py": 5,
    "tests/chaos/test_shim_bad_input.py": 5,
    "tests/flow/approvals/test_commands.py": 5,
    "tests/flow/cli/test_completion.py": 5,
    "tests/flow/gateway/test_http_install.py": 5,
    "tests/live/workers/test_jobs.py": 5,
    "tests/unit/bus/config/test_documents.py": 5,
    "tests/unit/bus/hooksets/guards/test_guards.py": 5,
    "tests/unit/bus/shell/test_code.py": 5,
    "tests/unit/bus/shell/test_shell.py": 5,
    "tests/unit/bus/wire/test_codec.py": 5,
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
