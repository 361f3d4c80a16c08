from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

if TYPE_CHECKING:
    from gobby.workflows.actions import ActionContext


class CodeGuardianPlugin(HookPlugin):
    name = "code-guardian"
    version = "1.0.0"
    description = "Enforces code quality standards on AI-generated code"

    def __init__(self) -> None:
        super().__init__()
        self.checks: list[str] = ["ruff"]
        self.block_on_error = True
        self.auto_fix = True
        self.file_patterns: list[str] = ["*.py"]
        self.ignore_paths: list[str] = [".venv", "__pycache__", "node_modules"]
        self._last_check_results: dict[str, dict[str, Any]] = {}
        self._files_checked = 0
        self._blocked = 0

    def on_load(self, config: dict[str, Any]) -> None:
        for key in ("checks", "block_on_error", "auto_fix", "file_patterns", "ignore_paths"):
            setattr(self, key, config.get(key, getattr(self, key)))
        self.register_action("run_linter", self._action_run_linter)
        self.register_action("format_code", self._action_format_code)
        self.register_condition("passes_lint", self._condition_passes_lint)
        self.register_condition("has_type_errors", self._condition_has_type_errors)

    def on_unload(self) -> None:
        self.logger.info(f"Code Guardian: {self._files_checked} checked, {self._blocked} blocked")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=10)
    def check_before_write(self, event: HookEvent) -> HookResponse | None:
        tool_name = event.data.get("tool_name", "")
        if tool_name not in ("Edit", "Write"):
            return None
        tool_input = event.data.get("tool_input", {})
        file_path = tool_input.get("file_path", "")
        if not file_path or not self._should_check(file_path):
            return None
        if tool_name == "Write":
            content = tool_input.get("content", "")
            self._files_checked += 1
            issues = [f"Line {i}: print" for i, line in enumerate(content.split("\n"), 1) if line.strip().startswith("print(") and "# noqa" not in line]
            if "print(" in content and "def " in content and issues and self.block_on_error:
                self._blocked += 1
                return HookResponse(decision="deny", reason=f"Code Guardian found {len(issues)} issue(s)", metadata={"plugin": self.name, "issues": issues[:5], "file": file_path})
        return None

    @hook_handler(HookEventType.AFTER_TOOL, priority=60)
    def report_after_tool(self, event: HookEvent, core_response: HookResponse | None) -> None:
        if event.data.get("tool_name") != "Edit":
            return
        path = event.data.get("tool_input", {}).get("file_path", "")
        if not path or not Path(path).exists() or not self._should_check(path):
            return
        errors = self._run_ruff(path)
        self._last_check_results[path] = {"status": "failed", "errors": errors} if errors else {"status": "passed"}

    def _should_check(self, file_path: str) -> bool:
        path = Path(file_path)
        return not any(i in str(path) for i in self.ignore_paths) and any(path.match(p) for p in self.file_patterns)

    def _run_ruff(self, path: str) -> list[str]:
        try:
            done = subprocess.run(["ruff", "check", "--output-format=concise", path], capture_output=True, text=True, timeout=30)
            return [line for line in done.stdout.strip().split("\n") if line and ":" in line] if done.returncode else []
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return []

    async def _action_run_linter(self, context: ActionContext, files: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        files = files or context.get("files", []) or []
        errors = [e for f in files for e in self._run_ruff(f)]
        return {"passed": not errors, "errors": errors, "files_checked": len(files)}

    async def _action_format_code(self, context: ActionContext, files: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        return {"formatted": files or [], "errors": []}

    def _condition_passes_lint(self, file_path: str | None = None) -> bool:
        if file_path:
            return self._last_check_results.get(file_path, {}).get("status") == "passed"
        return all(r.get("status") != "failed" for r in self._last_check_results.values())

    def _condition_has_type_errors(self, file_path: str | None = None) -> bool:
        return False
