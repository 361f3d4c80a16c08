"""A plugin's MCP server at a URL (streamable HTTP), asked under the fleet's rules for addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from bus.errors import FleethookError, TargetRefused
from bus.http.webhook_client import Reply, WebhookClient
from workers.plugins.mcp.messages import MOST_LINE, Answer, ServerDown, ServerRefuses, decoded, outcome_of

_SESSION: Final = "mcp-session-id"
_ACCEPT: Final = "application/json, text/event-stream"


class HttpConnection:
    """One session with a server. No redirect is followed, and no address is reached that the fleet's rules refuse."""

    def __init__(self, client: WebhookClient, url: str, headers: Mapping[str, str]) -> None:
        self._client, self._url, self._headers = client, url, dict(headers)
        self._session, self._number = "", 0
        self.protocol = ""
        """The version of MCP that the server speaks, once it is known."""
        self.ending = ""
        self.tools_changed = False

    @property
    def pid(self) -> int:
        """There is no process here."""
        return 0

    async def start(self) -> None:
        """Nothing to start: the first request connects."""

    async def request(self, method: str, params: Answer, seconds: float) -> Answer:
        """The result of a request; raises ServerDown if it cannot be reached, and ServerRefuses for an error."""
        self._number = number = self._number + 1
        reply = await self._post({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, seconds)
        names = {name.lower(): value for name, value in reply.headers}
        if reply.status == 404 and self._session:
            self.ending = "its session has ended"
            raise ServerDown(self.ending)
        if reply.status != 200:
            raise ServerRefuses(f"it answered with HTTP status {reply.status}")
        self._session = self._session or names.get(_SESSION, "")[:200]
        for message in _messages(names.get("content-type", ""), reply.body):
            if message.get("id") == number and "method" not in message:
                return outcome_of(message)
        raise ServerRefuses("its answer has no result")

    def notify(self, method: str) -> None:
        """Kept back: a server over HTTP takes a request as the sign that its client is ready."""

    async def close(self, why: str = "it was stopped") -> None:
        """Forget the session."""
        self.ending = self.ending or why

    async def ready(self, seconds: float) -> None:
        """Tell the server that the session has begun."""
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, seconds)

    async def _post(self, message: Answer, seconds: float) -> Reply:
        own = {"Content-Type": "application/json", "Accept": _ACCEPT}
        own |= {"Mcp-Session-Id": self._session} if self._session else {}
        own |= {"MCP-Protocol-Version": self.protocol} if self.protocol else {}
        try:
            reply = await self._client.post(
                self._url, msgspec.json.encode(message), {**self._headers, **own}, seconds=seconds, cap=MOST_LINE
            )
        except TargetRefused as error:
            raise ServerDown(f"it is not reached: {error.reason}") from error
        except FleethookError as error:
            raise ServerDown(f"it is not reached: {error}") from error
        if reply.error:
            raise ServerDown(f"it is not reached: {reply.detail or reply.error}")
        return reply


def _messages(kind: str, body: bytes) -> list[Answer]:
    """The messages in an answer, which is one JSON text or a stream of events."""
    if not kind.lower().startswith("text/event-stream"):
        found = [decoded(body)]
    else:
        events = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")
        found = [decoded(_data(event)) for event in events]
    return [message for message in found if message is not None]


def _data(event: bytes) -> bytes:
    """The data of one server-sent event."""
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)
