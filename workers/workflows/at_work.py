"""The workflows of one worker: what its hooks of kind `workflow` run by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.in_force import Watcher
from bus.http.client_pool import ClientPool
from bus.outcomes import Outcome
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.plugins.when_enabled import PluginsWhenEnabled

if TYPE_CHECKING:  # 30 ms; only a fleet with workflows needs it
    from bus.workflow_steps.effects import Effects
    from workers.plugins.mcp.servers import PluginServers
    from workers.workflows.runner import WorkflowRunner


class Workflows:
    """Runs the workflows of one worker, which has this name."""

    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        watcher: Watcher,
        worker: str,
        clients: ClientPool,
        plugins: PluginsWhenEnabled,
    ) -> None:
        self._connections, self._keys, self._watcher, self._worker = connections, keys, watcher, worker
        self._clients, self._plugins = clients, plugins
        self._runner: WorkflowRunner | None = None
        self._servers: PluginServers | None = None

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """The outcome of a workflow at an event."""
        return await self.runner().run(hook, event, seconds)

    def runner(self) -> WorkflowRunner:
        """What runs them; imported at the first use."""
        if self._runner is None:
            from workers.workflows.runner import WorkflowRunner
            from workers.workflows.store import FlowStore

            self._runner = WorkflowRunner(FlowStore(self._connections, self._keys, self._worker), self._effects)
        return self._runner

    def _effects(self, hook: Hook, event: Event, seconds: float) -> Effects:
        from workers.workflows.effects import LiveEffects, Surroundings

        hook_set = self._watcher.for_event(event)
        client = self._clients.get(hook_set.network, hook_set.proxy)
        plugins = self._plugins.host() if hook_set.has_plugins else None
        around = Surroundings(hook_set, client, plugins, self._watcher.host, self._mcp_servers)
        return LiveEffects(hook, event, seconds, around)

    def _mcp_servers(self) -> PluginServers:
        if self._servers is None:
            from workers.plugins.mcp.servers import PluginServers, offers_here

            self._servers = PluginServers(offers_here(self._watcher, reads_again=False))
        return self._servers

    async def close(self) -> None:
        """Stop the MCP servers that its workflows started."""
        if self._servers is not None:
            await self._servers.close()
