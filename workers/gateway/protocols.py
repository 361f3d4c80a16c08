"""The server's connections, which the application can cut.

ASGI has no way to do so: after a close, what a client does not read is kept for it until its system ends the connection.
"""

from __future__ import annotations

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from workers.gateway.live.sending import ABORT


class HttpProtocol(HttpToolsProtocol):
    """An HTTP connection."""

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope[ABORT] = self.transport.abort  # type: ignore[typeddict-unknown-key]


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket."""

    def handle_connect(self, event: Request) -> None:
        """Begin the handshake; the application runs after this method, so it finds the function in its scope."""
        super().handle_connect(event)
        if not self.transport.is_closing():
            self.scope[ABORT] = self.transport.abort  # type: ignore[typeddict-unknown-key]

    async def send(self, message: ASGISendEvent) -> None:
        """Send; the response of a refusal ends the handshake, else uvicorn logs every refusal as an error."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True
