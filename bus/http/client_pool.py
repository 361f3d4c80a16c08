"""One session for each address policy and proxy in force, so usually one a process.

What was connected under another policy, before a change or for another layer's endpoints, is never used again.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from bus.http.address_policy import AddressPolicy
from bus.http.client import WebhookClient


class ClientPool:
    """The posters of one process, made at the first use of each policy and proxy; an async context manager."""

    def __init__(self) -> None:
        self._open: dict[tuple[tuple[str, ...], str], WebhookClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for poster in self._open.values():
            await poster.close()
        self._open.clear()

    def under(self, policy: AddressPolicy, proxy: str) -> WebhookClient:
        """The poster that connects as `policy` allows, and through what `network.proxy` says."""
        poster = self._open.get((policy.allow, proxy))
        if poster is None:
            poster = self._open[policy.allow, proxy] = WebhookClient(policy, proxy=proxy)
        return poster
