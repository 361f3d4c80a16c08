"""A local webhook receiver for `webhooks listen`: checks each signature, and forwards webhooks if asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bus.errors import FleethookError, SignatureError
from bus.http import signing
from bus.http.address_policy import parse_target, policy
from bus.http.webhook_client import Reply, WebhookClient

if TYPE_CHECKING:
    from aiohttp import web  # importing it takes 200 ms, so only a listener does

MOST_BODY: Final = 4 * 1024 * 1024
"""The most bytes of a webhook's body; a larger one gets the answer 413."""

_MOST_IDS: Final = 100_000
_FORWARD_SECONDS: Final = 15.0
_OUR_PART: Final = frozenset(
    {"host", "content-length", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect"}
    | {"proxy-authorization", "proxy-connection", "accept-encoding", "user-agent"}
)
"""Headers that belong to one connection and are not forwarded."""


@dataclass(frozen=True, slots=True)
class ReceivedWebhook:
    """One webhook that arrived, and how it was answered."""

    number: int
    ms: int
    """When, in unix milliseconds."""
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    status: int
    """The status of our answer."""
    verified: bool | None
    """Whether its signature is valid; None without a secret to check it with."""
    reason: str = ""
    """Why it was not verified, or not forwarded."""
    repeat: bool = False
    """Whether a webhook with its webhook-id arrived before."""
    reply: Reply | None = None
    """The local service's reply."""


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """The options of a listener."""

    secrets: Sequence[str] = ()
    """Each webhook must be signed with one of these secrets; empty: signatures are not checked."""
    forward: str = ""
    """The URL of a local service to forward to; if it has no path, the webhook's own path is added."""
    status: int = 204
    """The status of the answer if nothing is forwarded."""
    count: int = 0
    """How many webhooks to wait for; 0: no limit."""
    on_webhook: Callable[[ReceivedWebhook], None] = field(default=lambda _: None)
    """Called with each webhook after it was answered."""


class Listener:
    """Receives webhooks between `open` and `close`; `done` is set when `count` of them have arrived."""

    def __init__(self, wanted: ListenerOptions) -> None:
        """Raises TargetRefused or ConfigError if webhooks cannot be forwarded to the URL at all."""
        self.wanted = wanted
        self.arrived = self.failed = 0
        self.done = asyncio.Event()
        self._ids: set[str] = set()
        self._client = WebhookClient(policy([_place(wanted.forward)])) if wanted.forward else None
        self._runner: web.AppRunner | None = None

    @property
    def ok(self) -> bool:
        """Whether all expected webhooks arrived, and none had an invalid signature."""
        return not self.failed and self.arrived >= self.wanted.count

    async def open(self, host: str, port: int) -> str:
        """Listen, on a free port if `port` is 0; returns the URL. Raises FleethookError if that fails."""
        from aiohttp import web

        app = web.Application(client_max_size=MOST_BODY)
        app.router.add_post("/{path:.*}", self._take)
        # The signature is over the bytes that were sent, so the body must not be decompressed.
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, auto_decompress=False, shutdown_timeout=2.0
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self.close()
            raise FleethookError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
            ) from error
        bound, taken = self._runner.addresses[0][:2]
        return f"http://[{bound}]:{taken}/" if ":" in bound else f"http://{bound}:{taken}/"

    async def close(self) -> None:
        """Finish the answers that are under way, and stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._client is not None:
            await self._client.close()

    async def _take(self, request: web.Request) -> web.Response:
        from aiohttp import web

        body = await request.read()
        if self.done.is_set():
            return web.Response(status=503, text="all expected webhooks have arrived; this listener is ending\n")
        self.arrived += 1
        number, headers = self.arrived, {name.lower(): value for name, value in request.headers.items()}
        if number == self.wanted.count:
            self.done.set()  # before the first await, so that no further webhook is taken
        verified, reason = self._check(headers, body)
        self.failed += verified is False
        reply: Reply | None = None
        response = web.Response(status=self.wanted.status)
        if verified is False:
            response = web.Response(status=401, text=f"{reason}\n")
        elif self._client is not None:
            reply = await self._client.post(
                _forward_url(self.wanted.forward, request.path_qs), body, _forwarded(headers), seconds=_FORWARD_SECONDS
            )
            response, reason = _answer(reply)
        name = headers.get("webhook-id", "")
        repeat = bool(name) and name in self._ids
        if len(self._ids) >= _MOST_IDS:
            self._ids.clear()
        self._ids.add(name)
        self.wanted.on_webhook(
            ReceivedWebhook(
                number,
                int(time.time() * 1000),
                request.path_qs,
                headers,
                body,
                response.status,
                verified,
                reason,
                repeat,
                reply,
            )
        )
        return response

    def _check(self, headers: dict[str, str], body: bytes) -> tuple[bool | None, str]:
        if not self.wanted.secrets:
            return None, ""
        try:
            signing.verify(self.wanted.secrets, headers, body)
        except SignatureError as error:
            return False, str(error)
        return True, ""


def _answer(reply: Reply) -> tuple[web.Response, str]:
    """Our answer, made from the local service's reply, and the reason if there was no reply."""
    from aiohttp import web

    if reply.error:
        reason = f"the local service gave no answer: {reply.error}: {reply.detail}"
        return web.Response(status=502, text=f"{reason}\n"), reason
    kept = {name: value for name, value in reply.headers if name.lower() in {"content-type", "retry-after"}}
    if 200 <= reply.status < 600 and reply.status not in {204, 205, 304}:
        return web.Response(status=reply.status, body=reply.body, headers=kept), ""
    return web.Response(status=reply.status if reply.status >= 200 else 502, headers=kept), ""


def _forwarded(headers: dict[str, str]) -> dict[str, str]:
    named = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    return {name: value for name, value in headers.items() if name not in _OUR_PART and name not in named}


def _forward_url(url: str, path: str) -> str:
    """The service's URL; if it has no path, with the webhook's path."""
    return url.rstrip("/") + path if urlsplit(url).path in {"", "/"} and not urlsplit(url).query else url


def _place(url: str) -> str:
    """The entry of an allow list that allows only this URL's host and port."""
    target = parse_target(url)
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
