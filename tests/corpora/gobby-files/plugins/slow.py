import asyncio
import json
import threading
import time
from pathlib import Path

from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

OUT = Path.home() / ".gobby" / "seen" / "slow.jsonl"


class Slow(HookPlugin):
    name = "slow"

    def on_load(self, config):
        self.delay = config.get("delay", 0.3)
        self.done = []
        self.thread = threading.Thread(target=self._background, daemon=True)
        self.thread.start()

    def _background(self):
        self.done.append("background")

    @hook_handler(HookEventType.AFTER_TOOL, priority=80)
    def work(self, event, core_response):
        time.sleep(self.delay)
        OUT.parent.mkdir(parents=True, exist_ok=True)
        with OUT.open("a") as out:
            out.write(json.dumps({"worked": event.data["tool_name"], "background": self.done}) + "\n")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=22)
    async def wait(self, event):
        if event.data.get("tool_input", {}).get("command") == "slow":
            await asyncio.wait_for(asyncio.sleep(self.delay), timeout=5)
            return HookResponse(decision="deny", reason="slow but sure")
