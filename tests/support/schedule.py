"""The order of the test files in a run of several processes: what takes longest starts first, so that nobody waits at the end.

Each process gets one file after the other, here (tests/support/processes.py) as with pytest-xdist (`--dist loadfile`), whose
own order is by number of tests: a file with seven tests of ten seconds each would come last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

ROOT = Path(__file__).parents[2]
SECONDS: dict[str, int] = {
    "tests/docs/test_pages.py": 75,
    "tests/flow/pages/test_in_browser.py": 64,
    "tests/flow/gateway/test_gobby_files.py": 61,
    "tests/flow/test_operations.py": 60,
    "tests/flow/gateway/test_metrics.py": 51,
    "tests/flow/fleet_control/test_outage.py": 50,
    "tests/flow/gateway/test_hook_command.py": 48,
    "tests/flow/pages/test_record_views.py": 48,
    "tests/flow/gateway/test_gobby.py": 47,
    "tests/flow/gateway/test_lists.py": 47,
    "tests/flow/test_slow_hooks.py": 46,
    "tests/flow/gateway/test_openapi.py": 45,
    "tests/flow/test_installed_agents.py": 44,
    "tests/live/bus/shim/test_main.py": 44,
    "tests/flow/test_installed_plugins.py": 43,
    "tests/flow/cli/test_up.py": 41,
    "tests/flow/cli/test_bench.py": 40,
    "tests/flow/gateway/test_hooks.py": 38,
    "tests/flow/approvals/test_answers.py": 36,
    "tests/flow/gateway/test_outages.py": 36,
    "tests/chaos/test_redis_gone.py": 35,
    "tests/flow/cli/test_demo.py": 35,
    "tests/flow/gateway/test_http_install.py": 34,
    "tests/live/workers/records/test_full_server.py": 34,
    "tests/flow/test_tracing.py": 32,
    "tests/flow/gateway/test_limits.py": 30,
    "tests/chaos/test_workers_stopped.py": 27,
    "tests/flow/cli/test_webhooks.py": 27,
    "tests/flow/approvals/test_cut_from_gateway.py": 26,
    "tests/flow/test_bad_input.py": 25,
    "tests/golden/test_conformance.py": 25,
    "tests/flow/test_detached_hooks.py": 24,
    "tests/live/workers/test_several_evaluators.py": 24,
    "tests/flow/approvals/test_no_failure_lets_it_pass.py": 22,
    "tests/flow/cli/test_progress.py": 22,
    "tests/flow/test_templates.py": 22,
    "tests/live/bus/shim/test_native.py": 22,
    "tests/flow/approvals/test_remembering.py": 20,
    "tests/live/workers/plugins/test_group.py": 20,
    "tests/chaos/test_sleeps.py": 19,
    "tests/flow/test_agent_rights.py": 19,
    "tests/chaos/test_deliverers_killed.py": 18,
    "tests/chaos/test_lost_replies.py": 18,
    "tests/chaos/test_server_killed.py": 18,
    "tests/flow/approvals/test_commands.py": 18,
    "tests/flow/test_guard_changes_away.py": 18,
    "tests/flow/test_supervisor.py": 18,
    "tests/unit/bus/secrets/test_command_lines.py": 18,
    "tests/chaos/test_workflows_killed.py": 17,
    "tests/flow/gateway/test_mcp_plugins.py": 17,
    "tests/live/workers/delivery/test_breakers.py": 17,
    "tests/flow/cli/test_webhooks_listen.py": 16,
    "tests/flow/gateway/test_live.py": 16,
    "tests/live/bus/test_client.py": 16,
    "tests/live/workers/delivery/test_pacing.py": 16,
    "tests/live/workers/delivery/test_scale.py": 16,
    "tests/live/workers/test_guard_changes.py": 16,
    "tests/unit/bus/secrets/test_redaction.py": 16,
    "tests/flow/cli/test_service.py": 15,
    "tests/flow/cli/test_status.py": 15,
    "tests/flow/gateway/test_access.py": 15,
    "tests/flow/test_coverage_outages.py": 15,
    "tests/live/workers/test_dispatcher.py": 15,
    "tests/unit/workers/admin/test_guard_switches.py": 15,
    "tests/chaos/test_ordered_deliverers_killed.py": 14,
    "tests/flow/cli/test_hooks_import.py": 14,
    "tests/live/workers/records/test_bulk_jobs.py": 14,
    "tests/live/workers/test_host.py": 14,
    "tests/unit/bus/shell/test_shell.py": 14,
    "tests/chaos/test_lost_replies_workers.py": 13,
    "tests/unit/docs/test_reference.py": 13,
    "tests/unit/workers/cli/hooks/test_new.py": 13,
    "tests/live/workers/delivery/test_batch_bodies.py": 12,
    "tests/live/workers/test_carrier.py": 12,
    "tests/unit/workers/delivery/formats/test_limits.py": 12,
    "tests/chaos/test_evaluators_killed.py": 11,
    "tests/chaos/test_shim_bad_input.py": 11,
    "tests/flow/cli/test_hooks.py": 11,
    "tests/flow/cli/test_uninstall_purge.py": 11,
    "tests/flow/fleet_control/test_gateway_alone.py": 11,
    "tests/flow/gateway/test_mcp.py": 11,
    "tests/flow/test_fork_source.py": 11,
    "tests/live/bus/hooksets/test_in_force.py": 11,
    "tests/live/bus/sdk/test_scopes.py": 11,
    "tests/live/workers/runtime/test_rule_checks.py": 11,
    "tests/live/workers/test_jobs.py": 11,
    "tests/unit/bus/config/test_documents.py": 11,
    "tests/unit/bus/hooksets/test_hookfile.py": 11,
    "tests/chaos/test_approvals_killed.py": 10,
    "tests/flow/cli/test_terminal.py": 10,
    "tests/flow/fleet_control/test_say.py": 10,
    "tests/live/bus/agents/test_opencode_plugin.py": 10,
    "tests/unit/bus/hooksets/guards/test_figures.py": 10,
    "tests/unit/bus/shim/test_native.py": 10,
    "tests/flow/cli/test_simulate.py": 9,
    "tests/flow/fleet_control/test_one_host_cut_off.py": 9,
    "tests/flow/gateway/test_hook_sets.py": 9,
    "tests/flow/test_workflow_actions.py": 9,
    "tests/live/bus/agents/test_every_agent.py": 9,
    "tests/live/bus/shim/test_outage.py": 9,
    "tests/live/workers/test_evaluator.py": 9,
    "tests/live/workers/test_long_events.py": 9,
    "tests/unit/bus/config/test_edit_json.py": 9,
    "tests/flow/cli/test_deliveries.py": 8,
    "tests/flow/gateway/test_canary.py": 8,
    "tests/flow/gateway/test_opencode_connection.py": 8,
    "tests/flow/gateway/test_programs.py": 8,
    "tests/flow/test_author.py": 8,
    "tests/live/workers/plugins/test_evaluator_plugins.py": 8,
    "tests/test_house.py": 8,
    "tests/unit/bus/config/test_threads.py": 8,
    "tests/unit/bus/hooksets/guards/test_corpus.py": 8,
    "tests/unit/bus/hooksets/guards/test_guards.py": 8,
    "tests/unit/bus/hooksets/test_imports.py": 8,
    "tests/unit/bus/http/test_address_policy.py": 8,
    "tests/unit/bus/sdk/test_plain_values.py": 8,
    "tests/unit/bus/shell/test_code.py": 8,
    "tests/unit/bus/shell/test_plain_lines.py": 8,
    "tests/contract/test_streams.py": 7,
    "tests/flow/approvals/test_inbox.py": 7,
    "tests/flow/test_agent_only.py": 7,
    "tests/fundamentals/test_12_when_redis_is_away.py": 7,
    "tests/live/bus/hookfiles/test_pigo_forge.py": 7,
    "tests/live/bus/runners/test_per_file.py": 7,
    "tests/live/bus/system/test_processes.py": 7,
    "tests/live/bus/wire/test_connections.py": 7,
    "tests/live/workers/delivery/test_misbehaving_receivers.py": 7,
    "tests/live/workers/gateway/test_protocols.py": 7,
    "tests/live/workers/records/test_bounds.py": 7,
    "tests/unit/bus/hooksets/test_sieve.py": 7,
    "tests/unit/bus/matching/test_patterns.py": 7,
    "tests/flow/cli/test_plugins_enable.py": 6,
    "tests/flow/cli/test_worker_health.py": 6,
    "tests/golden/test_qwen.py": 6,
    "tests/live/bus/hooksets/test_templates.py": 6,
    "tests/live/bus/wire/test_embedded_server.py": 6,
    "tests/live/workers/coverage/test_decisions.py": 6,
    "tests/live/workers/runtime/test_stream_repair.py": 6,
    "tests/live/workers/test_host_repeats.py": 6,
    "tests/unit/bus/config/test_json_documents.py": 6,
    "tests/unit/bus/test_chain_layers.py": 6,
    "tests/unit/bus/wire/test_codec.py": 6,
    "tests/unit/workers/admin/doctor/test_doctor.py": 6,
    "tests/unit/workers/delivery/formats/test_formats.py": 6,
    "tests/unit/workers/gateway/gobby/test_answers.py": 6,
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
