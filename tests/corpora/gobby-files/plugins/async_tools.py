"""Locks, a queue with a task of its own, gather and time limits: what asyncio has, in one plugin."""

import asyncio
import contextlib
from pathlib import Path

from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class AsyncTools(HookPlugin):
    name = "async-tools"

    def on_load(self, config):
        self.lock, self.queue, self.worker = asyncio.Lock(), asyncio.Queue(), None
        self.counts = {}

    def on_unload(self):
        if self.worker:
            self.worker.cancel()

    async def _drain(self):
        out = Path("~/.gobby/seen/async-tools.txt").expanduser()
        out.parent.mkdir(parents=True, exist_ok=True)
        while True:
            item = await self.queue.get()
            await asyncio.to_thread(self._append, out, item)
            self.queue.task_done()

    @staticmethod
    def _append(path, text):
        with path.open("a") as file:
            file.write(text + "\n")

    async def _score(self, part):
        await asyncio.sleep(0)
        return len(part)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=12)
    async def check(self, event):
        command = event.data.get("tool_input", {}).get("command", "")
        if not command.startswith("asynchronous"):
            return None
        async with self.lock, asyncio.timeout(20):
            scores = await asyncio.gather(*(self._score(part) for part in command.split()))
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(30), timeout=0.001)
        if self.worker is None:
            self.worker = asyncio.create_task(self._drain())
        await self.queue.put(command)
        if sum(scores) > 20:
            return HookResponse(decision="deny", reason=f"score {sum(scores)}")

    @hook_handler(HookEventType.AFTER_TOOL)
    async def after(self, event):
        self.counts[event.data.get("tool_name")] = self.counts.get(event.data.get("tool_name"), 0) + 1
