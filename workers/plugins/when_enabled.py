"""A worker's plugins, if a hook file in force enables any; else nothing of them is imported or asked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bus.errors import FleethookError
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.in_force import Watcher
from bus.outcomes import Outcome
from bus.system.directories import make_private
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys

if TYPE_CHECKING:  # importing it takes 30 ms and some MB, which a fleet without plugins need not pay
    from workers.plugins.host import PluginHost
    from workers.plugins.published_events import PublishedReader
    from workers.plugins.records import PluginRecorder

log = logging.getLogger("fleethook.plugins")

START_SECONDS: Final = 5.0
"""How long a new worker waits for its plugins before it reads requests."""


class PluginsWhenEnabled:
    """The plugins of one worker, which has this name.

    `reads_published`: it shows them announced events too. `at_once`: it starts them as soon as they are enabled, else with
    the first event that needs one.
    """

    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        watcher: Watcher,
        worker: str,
        *,
        reads_published: bool = False,
        at_once: bool = True,
    ) -> None:
        self._connections, self._keys, self._watcher, self._worker = connections, keys, watcher, worker
        self._reads_published, self._at_once = reads_published, at_once
        self._published: PublishedReader | None = None
        self._reading: asyncio.Task[None] | None = None
        self._host: PluginHost | None = None
        self._recorder: PluginRecorder | None = None
        self._looked_at = 0.0

    async def prepare(self) -> None:
        """Start the plugins that the fleet and the user enable, and wait for them for a while."""
        if self._watcher.for_event(Event(type="", host=self._watcher.host)).has_plugins:
            host = self._started()
            host.keep()
            await host.settle(START_SECONDS)

    async def maintain(self) -> None:
        """Adopt changed hook files, carry out orders to reload, and report; raises Unreachable."""
        now = time.monotonic()
        if self._host is None:
            if self._at_once and now - self._looked_at >= 0.5:
                self._looked_at = now
                if self._watcher.for_event(Event(type="", host=self._watcher.host)).has_plugins:
                    self._started().keep()
            return
        self._host.keep()
        if self._recorder is not None:
            await self._recorder.keep()

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """The outcome of one handler."""
        return await self._started().run(hook, event, seconds)

    def observe(self, event: Event, verdict: Verdict | None, *, on_host: bool = False) -> None:
        """Show an event with its final verdict, or an announced one without, to the handlers that observe it.

        `on_host`: only to those of this machine's files.
        """
        self._show(event, verdict, lambda hook: hook.on_host or not on_host)

    def _show(self, event: Event, verdict: Verdict | None, fits: Callable[[Hook], bool]) -> None:
        hook_set = self._watcher.for_event(event)
        if hook_set.has_plugins and (hooks := [hook for hook in hook_set.observers(event, verdict) if fits(hook)]):
            self._started().observe(hooks, event, verdict)

    def _show_published(self, event: Event, host_has_it: bool) -> None:
        self._show(event, None, lambda hook: not (hook.on_host and host_has_it))

    async def close(self) -> None:
        """Unload every plugin and end the processes."""
        if self._reading is not None and self._published is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            await self._published.leave()
        if self._recorder is not None:
            await self._recorder.leave()
        if self._host is not None:
            await self._host.close()

    @property
    def is_started(self) -> bool:
        """Whether this worker has used a plugin."""
        return self._host is not None

    def host(self) -> PluginHost:
        """The worker's plugins, for workflows; started at the first use."""
        return self._started()

    def _state_folder(self) -> str:
        """The folder of what plugins share on this machine; empty where there can be none."""
        folder = self._watcher.trust_file.parent / "plugins" / self._keys.namespace
        try:
            make_private(folder)
        except (OSError, FleethookError) as error:
            log.warning("what plugins share is in the memory of each process: %s: %s", folder, error)
            return ""
        return str(folder)

    def _started(self) -> PluginHost:
        if self._host is None:
            from workers.plugins.host import PluginHost
            from workers.plugins.published_events import PublishedReader
            from workers.plugins.records import PluginRecorder

            self._host = PluginHost(self._watcher.for_event, self._watcher.host, self._state_folder())
            self._recorder = PluginRecorder(self._connections, self._keys, self._host, self._worker)
            if self._reads_published:
                self._published = PublishedReader(self._connections, self._keys, self._worker, self._show_published)
                self._reading = asyncio.create_task(self._published.run())
        return self._host
