"""Each row of the list of what is refused in Gobby's files: a file has the form, and the message is what the page says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bus.hooksets.hookfile import load_hook_file

PAGE = Path(__file__).parents[3] / "docs" / "gobby.md"
HEAD = "| in Gobby's files | here | what says so |"


def rows() -> list[tuple[str, str]]:
    """The first and last column of the table."""
    lines = PAGE.read_text(encoding="utf-8").partition(HEAD)[2].splitlines()[2:]
    table = lines[: lines.index("")]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table]
    return [(cell[0], cell[2].strip("`")) for cell in cells]


def step(**fields: Any) -> dict[str, Any]:
    return {"name": "flow", "steps": [{"name": "a", **fields}]}


def actions(*names: str) -> list[dict[str, Any]]:
    return [step(on_enter=[{"action": name}]) for name in names]


def rule(when: str) -> dict[str, Any]:
    return step(rules=[{"when": when, "action": "block"}])


ENDPOINT = {"url": "https://x.example"}
FLOWS: Mapping[str, list[dict[str, Any]]] = {
    "a `when` that is no": [rule("tool is Bash && x"), step(transitions=[{"to": "a", "when": "go on"}])],
    "a `when` with a form": [rule("os.path.exists('x')"), rule("tasks | length > 1")],
    "a `when` that reads": [rule("helper(1)")],
    "conditions about": [
        rule("task_tree_complete('a')"),
        rule("has_stop_signal('x')"),
        rule("task_needs_user_review(1)"),
    ],
    "a text that": [step(on_enter=[{"action": "inject_message", "content": "{% if %}"}])],
    "an action that": actions("frobnicate"),
    "actions about tasks": actions("persist_tasks", "require_task_complete"),
    "actions about memory": actions("memory_save", "memory_inject"),
    "actions about sessions": actions("restore_context", "find_parent_session"),
    "actions of autonomous": actions("detect_stuck", "record_progress"),
    "actions about stop": actions("request_stop", "check_stop_signal"),
    "`start_new_session`": actions("start_new_session"),
    "`switch_model`": actions("switch_model"),
    "`run_pipeline`": actions("run_pipeline"),
    "`track_discovery_step`": actions("track_discovery_step", "track_servers_listed"),
    "`inject_context`": [
        step(on_enter=[{"action": "inject_context", "source": name}])
        for name in ("skills", "task_context", "memories", "observations")
    ],
    "`on_error`": [{**step(), "on_error": []}],
    "`on_success`": [
        step(on_enter=[{"action": "webhook", "url": "https://x.example", key: "y"}])
        for key in ("on_success", "on_failure")
    ],
    "a `webhook_id`": [step(on_enter=[{"action": "webhook", "webhook_id": "x"}])],
    "a transition": [step(transitions=[{"to": "gone"}])],
    "a trigger": [{"name": "flow", "triggers": {"on_nothing": []}, "steps": [{"name": "a"}]}],
    "an exit condition": [step(exit_conditions=[{"type": "moon_phase"}])],
    "an observer": [{**step(), "observers": [{"name": "x", "on": "after_tool"}]}],
    "a single rule": [{"rules": {"x": {"event": "stop", "effect": {"type": "dance"}}}}],
    "a rule in `check_rules`": [step(check_rules=["gone"])],
    "an import": [{**step(), "imports": ["gone"]}],
    "`extends`": [{**step(), "extends": "gone"}],
    "a step without": [{"name": "flow", "steps": [{"description": "x"}]}],
}
"""By the beginning of a row: workflows that have the form."""

CONFIGS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "`webhooks` without": ("user", {"webhooks": {"endpoints": [ENDPOINT]}}),
    "a URL with a variable that": (
        "user",
        {"webhooks": {"enabled": True, "endpoints": [{"url": "https://${FH_NOT_SET}/"}]}},
    ),
    "a URL with a variable in": (
        "project",
        {"webhooks": {"enabled": True, "endpoints": [{"url": "https://${HOME}/"}]}},
    ),
    "a webhook on": ("user", {"webhooks": {"enabled": True, "endpoints": [{**ENDPOINT, "events": ["lunch"]}]}}),
    "another key": ("user", {"dashboards": {}}),
    "a plugin that `plugins:`": ("user", {"plugins": {"enabled": True}}),
    "a plugin that no": ("user", {"plugins": {"enabled": True, "plugins": {"gone": {}}}}),
    "a plugin that is": ("user", {"plugins": {"enabled": True, "plugins": {"broken": {}}}}),
    "a project's plugin": ("project", {"plugins": {"enabled": True, "plugins": {"reads": {}}}}),
    "a plugin that fleethook.yaml": ("user", {"plugins": {"enabled": True, "plugins": {"reads": {}}}}),
}
"""By the beginning of a row: the layer, and Gobby's configuration that has the form."""

READS = """
import os
from gobby.hooks.plugins import HookPlugin

class P(HookPlugin):
    name = "reads"
    x = os.environ["FH_X"]
"""


def said(tmp_path: Path, layer: str, twice: bool = False) -> list[str]:
    main: dict[str, Any] = {"import": [{"path": ".gobby", "dialect": "gobby"}]}
    if twice:
        main["plugins"] = {"reads": {"path": ".gobby/plugins/reads.py"}}
    file = tmp_path / "fleethook.yaml"
    file.write_text(json.dumps(main))
    found = load_hook_file(file, layer)  # type: ignore[arg-type]
    return [*map(str, found.problems), *found.warnings]


@pytest.mark.req("G-13", "G-16", "G-23")
@pytest.mark.parametrize(("row", "message"), rows())
def test_each_row_is_named_at_loading_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, message: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / ".gobby"
    (folder / "plugins").mkdir(parents=True)
    (folder / "workflows").mkdir()
    begins = [key for key in (*FLOWS, *CONFIGS) if row.startswith(key)]
    assert len(begins) == 1, f"no case has the row {row!r}"
    for number, flow in enumerate(FLOWS.get(begins[0], ())):
        path = folder / "workflows" / f"flow{number}.yaml"
        path.write_text(json.dumps(flow, indent=1))
        texts = said(tmp_path, "user")
        assert [text for text in texts if message in text and f"{path}:" in text], (flow, texts)
    if begins[0] in CONFIGS:
        layer, config = CONFIGS[begins[0]]
        (folder / "config.yaml").write_text(json.dumps({"hook_extensions": config}, indent=1))
        (folder / "plugins" / "reads.py").write_text(READS)
        (folder / "plugins" / "broken.py").write_text("name = 'broken'\nclass P(HookPlugin:\n")
        texts = said(tmp_path, layer, twice="fleethook.yaml" in row)
        assert [text for text in texts if message in text and f"{tmp_path}/" in text.split(": ")[0]], texts


def test_every_case_has_a_row() -> None:
    listed = [row for row, _ in rows()]
    assert [key for key in (*FLOWS, *CONFIGS) if not any(row.startswith(key) for row in listed)] == []
