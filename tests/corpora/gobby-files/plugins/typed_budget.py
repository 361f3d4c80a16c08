from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gobby.hooks.events import HookEvent, HookEventType, HookResponse, SessionSource
from gobby.hooks.plugins import HookPlugin, PluginAction, PluginLoader, PluginRegistry, RegisteredHandler, hook_handler, run_plugin_handlers

if TYPE_CHECKING:
    from gobby.workflows.actions import ActionContext
    from gobby.workflows.definitions import WorkflowState

logger = logging.getLogger(__name__)
Mode = Literal["strict", "loose"]


@dataclass(slots=True)
class Budget:
    limit: int = 3
    used: int = 0
    by_tool: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    note: ClassVar[str] = "x"

    def spend(self, tool: str) -> bool:
        self.used += 1
        self.by_tool[tool] += 1
        return self.used <= self.limit


@dataclass
class Settings:
    limit: int = 3
    mode: Mode = "strict"


class TypedBudget(HookPlugin):
    name: str = "typed-budget"
    version: str = "0.3.0"

    settings: Settings
    budgets: dict[str, Budget]

    def on_load(self, config: dict[str, Any]) -> None:
        super().on_load(config)
        self.settings = Settings(**config)
        self.budgets = {}
        self.register_condition("budget_left", self._budget_left)
        self.register_action("reset_budget", self.reset)
        action: PluginAction | None = self.get_action("reset_budget")
        assert action is not None and action.name == "reset_budget" and action.plugin_name == self.name
        assert action.schema is None, action
        ok, problem = action.validate_input({"a": 1})
        assert ok and problem is None

    def _budget_left(self, session_id: str, at_least: int = 1) -> bool:
        budget = self.budgets.get(session_id)
        return budget is None or budget.limit - budget.used >= at_least

    async def reset(self, context: ActionContext, **kwargs: Any) -> dict[str, Any] | None:
        self.budgets.pop(context.session_id, None)
        return {"reset": context.session_id, "keys": sorted(kwargs)}

    @hook_handler(HookEventType.BEFORE_TOOL, priority=25)
    def check(self, event: HookEvent) -> HookResponse | None:
        if event.source is not SessionSource.CLAUDE or not event.data.get("tool_input", {}).get("command", "").startswith("spend"):
            return None
        budget = self.budgets.setdefault(event.session_id, Budget(self.settings.limit))
        if not budget.spend(event.data["tool_name"]):
            return HookResponse(decision="deny", reason=f"typed-budget: {budget.used} of {budget.limit}", metadata={"used": budget.used})
        return None
