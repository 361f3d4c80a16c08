"""`approvals remember`: the exception to the rules that asked, shown as a diff, in the file or set of each rule (X-03)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bus.ids import host_name
from workers.admin.rule_exceptions import Plan
from workers.admin.rule_exceptions import planned as plan_for
from workers.approvals.questions import Question
from workers.approvals.remembered_calls import read_remembered
from workers.cli.common import CheckFailed, Context
from workers.cli.edits import publish_change, published_set, user_file, write_change


def planned(fleet: Context, question: Question) -> Plan:
    """The change of each layer; raises FleethookError if the call cannot be remembered, or not on this machine."""
    found = fleet.run(lambda connections: read_remembered(connections, fleet.keys(), question))
    return plan_for(found, published_set(fleet)[0], user_file(fleet), host_name())


def remember_call(fleet: Context, plan: Plan, yes: bool, dry_run: bool, said: dict[str, Any] | None = None) -> None:
    """Show each change, ask, and make it; exit code 1 if one was not made. `said` is printed too with `--json`."""
    results: list[dict[str, Any]] = []
    if not dry_run:
        files = [edited.file for _, edited in plan.files]
        fleet.require_person("approvals remember", *files, published=bool(plan.published))
    for layer, edited in plan.files:
        results.append({"layer": layer, **write_change(fleet, edited, yes, dry_run)})
        if results[-1]["written"] and layer == "project":
            fleet.say("a project's file that changed has to be trusted again: `fleethook hooks trust`")
    if plan.published:
        results.append({"layer": "fleet", **publish_change(fleet, plan.change_set, plan.message, yes, dry_run)})
    _say(fleet, said or {"id": plan.remembered.question.id}, results)
    if not dry_run and not all(result["written"] or not result["diff"] for result in results):
        raise CheckFailed("")


def _say(fleet: Context, said: dict[str, Any], results: Sequence[dict[str, Any]]) -> None:
    if fleet.json:
        fleet.data({**said, "changes": list(results)})
        return
    for result in results:
        if result["written"]:
            where = f"version {result['version']}" if "version" in result else result["file"]
            fleet.data(f"this call is not asked about again: {where}, in force within a second where workers run")
