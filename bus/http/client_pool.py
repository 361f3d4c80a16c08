"""One WebhookClient for each address policy and proxy in force, so usually one in a process.

A connection that was made under another policy (before a change, or for another layer's endpoints) is never reused.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from bus.http.address_policy import AddressPolicy
from bus.http.webhook_client import WebhookClient


class ClientPool:
    """The webhook clients of one process, made at the first use of each policy and proxy; an async context manager."""

    def __init__(self) -> None:
        self._open: dict[tuple[tuple[str, ...], str], WebhookClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._open.values():
            await client.close()
        self._open.clear()

    def get(self, policy: AddressPolicy, proxy: str) -> WebhookClient:
        """The client that connects as `policy` allows, and through the proxy that `network.proxy` names."""
        client = self._open.get((policy.allow, proxy))
        if client is None:
            client = self._open[policy.allow, proxy] = WebhookClient(policy, proxy=proxy)
        return client
