"""Resolvers for aiohttp: connections are made to exactly the addresses that these return."""

from __future__ import annotations

import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from bus.http.address_policy import AddressPolicy, Target, vet
from bus.http.resolver import Lookup
from bus.http.timings import TIMER


class VettedResolver(AbstractResolver):
    """Returns vetted addresses only, and refuses a name with any address that is not allowed."""

    def __init__(self, policy: AddressPolicy, lookup: Lookup) -> None:
        self._policy, self._lookup = policy, lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`, all of them allowed; raises TargetRefused and the look-up's errors."""
        timer = TIMER.get()
        if timer is not None:
            timer.lookup_started()
        target = Target(url="", scheme="", host=host, port=port, literal=None)
        addresses = vet(target, await self._lookup(host, port), self._policy)
        if timer is not None:
            timer.lookup_ended()
        return _results(addresses, host, port, family)

    async def close(self) -> None:
        """Nothing is held."""


class UnvettedResolver(AbstractResolver):
    """Returns every address: for the operator's own proxy, which the address policy does not judge."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`; raises what the look-up raises."""
        return _results(await self._lookup(host, port), host, port, family)

    async def close(self) -> None:
        """Nothing is held."""


def _results(addresses: list[str], host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    return [
        ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0) for address in addresses
    ]
