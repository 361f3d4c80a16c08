"""A suggestion as a change of hook files on this machine and of the published set."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

from bus.config.documents import read_file
from bus.config.edit_add import flow, with_entry
from bus.errors import ConfigError
from bus.hooks import Layer
from bus.hooksets.hookfile import HookFile, parse_hook_file
from bus.hooksets.published import diff
from bus.hooksets.trust import project_file
from workers.admin.endpoint_edit import Edited
from workers.admin.rule_exceptions import Plan
from workers.admin.rule_exceptions import planned as plan_to_remember
from workers.approvals.questions import AskingRule, Question
from workers.approvals.remembered_calls import Remembered
from workers.approvals.summary import summary
from workers.simulation.suggestions import Suggestion, deny_entry


def exception_plan(suggestion: Suggestion, published: HookFile, user: Path, host: str) -> Plan:
    """The exceptions of a suggestion, as `approvals remember` writes them; raises ConfigError if they cannot be written."""
    asked = suggestion.asked
    rules = tuple(AskingRule(hook=hook, layer=layer) for layer, hook in suggestion.rules)
    question = Question(
        id=(asked.questions or asked.events)[-1],
        state="approved",
        asked=asked.last,
        due=asked.last,
        ends=asked.last,
        default="ask",
        summary=summary(asked.event),
        host=asked.call.host,
        tool=asked.call.tool,
        cwd=asked.call.cwd,
        rules=rules,
    )
    return plan_to_remember(Remembered(question, (asked.call,)), published, user, host)


def deny_layer(suggestion: Suggestion) -> Layer:
    """The layer that gets the new rule: that of the first rule that asked."""
    layer = suggestion.rules[0][0]
    return "user" if layer == "user" else "project" if layer == "project" else "fleet"


def deny_file_change(suggestion: Suggestion, user: Path, host: str) -> Edited:
    """The user's or project's file with the new rule; raises ConfigError if it is another machine's, or cannot be edited."""
    layer, call = deny_layer(suggestion), suggestion.asked.call
    entry = deny_entry(suggestion)
    if call.host != host:
        raise ConfigError(
            f"the rule that asked is in the {layer}'s file on {call.host}", hint=f"there: {by_hand(entry)}"
        )
    path = user if layer == "user" else project_file(Path(call.cwd), user=user)
    if path is None:
        raise ConfigError(f"{call.cwd} has no project with hooks any more", hint=f"by hand: {by_hand(entry)}")
    before = read_file(path) if path.exists() else ""
    after = with_entry(before, str(path), "hooks", entry)
    return Edited(path, before, after, parse_hook_file(after, layer, file=str(path)))


def with_deny(published: HookFile, suggestion: Suggestion) -> HookFile:
    """The published set with the new rule."""
    read = parse_hook_file(f"hooks:\n  - {by_hand(deny_entry(suggestion))}\n", "fleet", file="suggest")
    if read.problems:
        raise read.problems[0]
    known = {hook.id for hook in published.hooks}
    return replace(published, hooks=(*published.hooks, *(h for h in read.hooks if h.id not in known))).with_digest()


def by_hand(entry: dict[str, Any]) -> str:
    """An entry as one line of YAML."""
    return flow(entry)


def suggestion_diff(suggestion: Suggestion, published: tuple[HookFile, int], user: Path, host: str) -> str:
    """The change as a unified diff; raises ConfigError if it cannot be written from here. It may hold secrets of the file."""
    file, version = published
    names = (f"version {version}", "new")
    if suggestion.kind == "exception":
        plan = exception_plan(suggestion, file, user, host)
        parts = [file_diff(edited) for _, edited in plan.files]
        return "".join([*parts, diff(file, plan.change_set(file), names) if plan.published else ""])
    if deny_layer(suggestion) == "fleet":
        return diff(file, with_deny(file, suggestion), names)
    return file_diff(deny_file_change(suggestion, user, host))


def file_diff(edited: Edited) -> str:
    """The unified diff of an edited file."""
    name = str(edited.file)
    lines = difflib.unified_diff(
        edited.before.splitlines(keepends=True), edited.after.splitlines(keepends=True), name, name
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
