import asyncio
from typing import Any, Optional

from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class AsyncPolicy(HookPlugin):
    name = "async-policy"

    def __init__(self) -> None:
        super().__init__()
        self._lock: Optional[asyncio.Lock] = None
        self._cache: dict[str, Any] = {}

    async def lookup(self, key: str) -> bool:
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            await asyncio.sleep(0)
            self._cache[key] = self._cache.get(key, 0) + 1
            return "async-no" in key

    @hook_handler(HookEventType.BEFORE_TOOL, 20)
    async def ask(self, event: HookEvent) -> Optional[HookResponse]:
        results = await asyncio.gather(*(self.lookup(str(v)) for v in event.data.get("tool_input", {}).values()))
        if any(results):
            return HookResponse("block", reason="async-policy says no")
        return HookResponse()
