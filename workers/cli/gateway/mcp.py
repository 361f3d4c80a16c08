"""`fleethook mcp`: the tools over stdio, for an agent or program that starts this command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from workers.cli.common import Context, common_options, pass_fleet

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.gateway.tokens import Scope


@click.command()
@common_options
@pass_fleet
def mcp(fleet: Context) -> None:
    """Serve MCP on stdin and stdout: tools to look at hooks, events and the fleet.

    It may look at everything that the commands show, redacted. A tool that changes something needs FLEETHOOK_TOKEN with a
    token that may operate; agents have no such token. Needs `pip install 'fleethook[mcp]'`.

    \b
    claude mcp add fleethook -- fleethook mcp
    """
    from workers.gateway.mcp.server import PluginAccess, mcp_server, serve_stdio
    from workers.gateway.mcp.tools import Tools
    from workers.plugins.mcp.servers import PluginServers, offers_here

    async def work(connections: Connections) -> None:
        from bus.hooksets.in_force import Watcher
        from bus.wire.connections import PATIENT_CONNECT_SECONDS, Connections
        from workers.gateway.tokens import TokenBook

        settings, places, keys = fleet.settings(), fleet.directories(), fleet.keys()
        watcher = Watcher.here(connections, keys, places)
        await watcher.refresh(force=True)
        book, secret = TokenBook(connections, keys), os.environ.get("FLEETHOOK_TOKEN", "")

        async def scopes(_: object) -> tuple[Scope, ...]:
            """The scopes of the person at this terminal: `observe`, and those that the token has now."""
            token = await book.find(secret) if secret else None
            return ("observe", *(token.scopes if token is not None else ()))

        rq = Connections(settings.rq_url, connect=PATIENT_CONNECT_SECONDS) if settings.rq_url else connections
        tools = Tools(connections, rq, keys, settings, places, watcher)
        # Their processes have the rights of this user, who could start them without this command too.
        servers = PluginServers(offers_here(watcher), project=os.getcwd())
        try:
            await serve_stdio(mcp_server(tools, _version(), scopes, PluginAccess(servers, "observe")))
        finally:
            await servers.close()
            if rq is not connections:
                await rq.close()

    fleet.run(work)


def _version() -> str:
    from workers.cli import version

    return version()
