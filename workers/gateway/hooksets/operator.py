"""The credentials with which a gateway publishes hook sets. Its own do not allow that on a server with access rights."""

from __future__ import annotations

from bus.config.settings import Settings
from bus.errors import Unreachable
from bus.system.directories import Directories
from bus.wire.connections import Connections
from bus.wire.embedded_server import bus_url
from workers.gateway.problems import Problem
from workers.gateway.sockets import is_loopback


class Operator:
    """Opens the connection at the first call that publishes, and keeps it until `close`."""

    def __init__(self, own_url: str, settings: Settings, places: Directories) -> None:
        self._own_url, self._settings, self._places = own_url, settings, places
        self._connections: Connections | None = None

    def connections(self) -> Connections:
        """The connections of the setting `operator_url`; without it, those of this user, or the gateway's own.

        A gateway that only this machine can reach uses the rights that its user has on the embedded server of this machine.
        """
        if self._connections is None:
            self._connections = Connections(self._url(), connect=1.0)
        return self._connections

    def _url(self) -> str:
        if self._settings.operator_url:
            return self._settings.operator_url
        embedded = str(self._places.socket) in self._own_url
        if embedded and is_loopback(self._settings.gateway_host):
            try:
                return bus_url(Settings(), "admin", self._places)
            except Unreachable:
                return self._own_url
        return self._own_url

    def refused(self, error: Unreachable) -> Exception:
        """The problem if the server does not let these credentials publish; else the error itself."""
        text = str(error).upper()
        if not any(word in text for word in ("NOPERM", "NO PERMISSIONS", "NOAUTH", "WRONGPASS", "CREDENTIALS")):
            return error
        return Problem(
            409,
            "no-operator",
            "this gateway's Redis credentials may not publish hook sets; start it with FLEETHOOK_OPERATOR_URL, the URL of "
            "an admin (`fleethook acl` prints the users), or publish with `fleethook hooks apply`",
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._connections is not None:
            await self._connections.close()
