"""Example: actions with schemas, no handlers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gobby.hooks.plugins import HookPlugin

if TYPE_CHECKING:
    from gobby.workflows.actions import ActionContext

HTTP_NOTIFY_SCHEMA = {
    "type": "object",
    "properties": {"url": {"type": "string"}, "method": {"type": "string", "enum": ["GET", "POST"], "default": "POST"}, "payload": {"type": "object"}, "headers": {"type": "object"}, "channel": {"type": "string"}},
    "required": ["url"],
}
LOG_METRIC_SCHEMA = {
    "type": "object",
    "properties": {"metric_name": {"type": "string"}, "value": {"type": "number"}, "tags": {"type": "object"}},
    "required": ["metric_name", "value"],
}


class ExampleNotifyPlugin(HookPlugin):
    """Registers http_notify and log_metric."""

    name = "example-notify"
    version = "1.0.0"
    description = "Example plugin demonstrating workflow action extensions"

    def __init__(self) -> None:
        super().__init__()
        self.default_channel = "#general"
        self.log_file = Path("~/.gobby/logs/metrics.log").expanduser()

    def on_load(self, config: dict[str, Any]) -> None:
        self.default_channel = config.get("default_channel", self.default_channel)
        if "log_file" in config:
            self.log_file = Path(config["log_file"]).expanduser()
        self.register_workflow_action(action_type="http_notify", schema=HTTP_NOTIFY_SCHEMA, executor_fn=self._execute_http_notify)
        self.register_workflow_action(action_type="log_metric", schema=LOG_METRIC_SCHEMA, executor_fn=self._execute_log_metric)
        self.logger.info(f"{self.name} loaded with channel {self.default_channel}")

    def on_unload(self) -> None:
        self.logger.info("unloaded")

    async def _execute_http_notify(self, context: ActionContext, url: str, method: str = "POST", payload: dict[str, Any] | None = None, headers: dict[str, str] | None = None, channel: str | None = None, **kwargs: Any) -> dict[str, Any]:
        return {"success": True, "url": url, "method": method, "channel": channel or self.default_channel, "simulated": True}

    async def _execute_log_metric(self, context: ActionContext, metric_name: str, value: float, tags: dict[str, str] | None = None, **kwargs: Any) -> dict[str, Any]:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log_file, "a") as f:
            f.write(json.dumps({"name": metric_name, "value": value, "tags": tags or {}, "time": time.time()}) + "\n")
        return {"logged": True, "metric": metric_name}
