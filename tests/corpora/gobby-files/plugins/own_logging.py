"""Sets up logging of its own, writes JSON lines, and imports for types alone."""

from __future__ import annotations

import atexit
import json
import logging
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gobby.hooks.events import HookEventType
from gobby.hooks.plugins import HookPlugin, hook_handler

if TYPE_CHECKING:
    from gobby.hooks.events import HookEvent, HookResponse
    from gobby.workflows.actions import ActionContext

FOLDER = Path.home() / ".gobby" / "seen"


class JsonFormatter(logging.Formatter):
    converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"level": record.levelname, "message": record.getMessage(), **getattr(record, "more", {})})


class OwnLogging(HookPlugin):
    name = "own-logging"

    def on_load(self, config: dict[str, Any]) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(FOLDER / "own-logging.jsonl")
        handler.setFormatter(JsonFormatter())
        self.logger = logging.getLogger("own.logging")
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(handler)
        self.logger.propagate = False
        atexit.register(handler.close)
        warnings.warn("own-logging is loaded", stacklevel=2)
        self.register_action("say", self.say)
        self.register_condition("has_said", lambda text="", *, times=1: self.said.count(text) >= times)
        self.said: list[str] = []

    async def say(self, context: ActionContext, text: str = "", **_: Any) -> dict[str, Any]:
        self.said.append(text)
        self.logger.info(text, extra={"more": {"session": context.session_id}})
        return {"inject_context": f"said {text} {self.said.count(text)}"}

    @hook_handler(HookEventType.BEFORE_TOOL, priority=95)
    def log_call(self, event: HookEvent, response: HookResponse) -> None:
        self.logger.debug("call", extra={"more": {"tool": event.data["tool_name"], "decision": response.decision}})
