"""Requests per second of a gateway with 32 clients at a time, each on a connection that it keeps."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from workers.bench.request import IN_FLIGHT
from workers.bench.rounds import Figure, Sizes, alternate, figure


async def load_figures(path: Path, hook: str, payload: bytes, rounds: int, sizes: Sizes) -> list[Figure]:
    """Hooks over the unix socket `path` against an empty endpoint of the same gateway."""
    head = f"POST {hook} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(payload)}\r\n\r\n"
    asked, empty = head.encode() + payload, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def ours() -> float:
        return await _per_second(path, asked, sizes.many)

    async def theirs() -> float:
        return await _per_second(path, empty, sizes.many)

    one, other = await alternate(ours, theirs, rounds, warm_ups=sizes.warm_ups)
    name = f"hook over HTTP, {IN_FLIGHT} clients"
    return [figure(name, f"an empty endpoint, {IN_FLIGHT} clients", "requests a second", one, other)]


async def _per_second(path: Path, request: bytes, count: int) -> float:
    """The requests per second of 32 clients, which send `count` in all. Each sends its next one when it has an answer."""
    left = iter(range(count))

    async def client() -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            for _ in left:
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if not head.startswith(b"http/1.1 200") or b"fleethook-fallback" in head:
                    raise RuntimeError(f"a call was not answered: {head[:200]!r}")
                _, _, length = head.partition(b"content-length: ")
                await reader.readexactly(int(length.partition(b"\r\n")[0]))
        finally:
            writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(IN_FLIGHT)))
    return count / (time.perf_counter() - start)
