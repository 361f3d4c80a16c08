"""The baselines: the same work with bare libraries only; each runs as `python -m workers.bench.bare <what>`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import redis.asyncio as redis_async
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

GROUP = "bare"


def bare_client(url: str) -> redis_async.Redis:
    """A plain asyncio redis-py client, with the timeouts that a blocking read needs and no other change."""
    return redis_async.Redis.from_url(url, socket_timeout=30, retry=Retry(NoBackoff(), 0))


async def responder(url: str, stream: str) -> None:
    """Answer every request with 300 bytes, by XREADGROUP and LPUSH only."""
    client = bare_client(url)
    await client.delete(stream)  # left over from an earlier part
    await client.xgroup_create(stream, GROUP, id="0", mkstream=True)
    answer = b"x" * 300
    print("ready", flush=True)  # noqa: T201 - the parent process waits for it
    while True:
        got: Any = await client.xreadgroup(GROUP, "one", {stream: ">"}, count=32, block=1000)
        for _, entries in got:
            for _, fields in entries:
                await client.lpush(fields[b"reply"], answer)


async def ask(client: redis_async.Redis, stream: str, reply: str, body: bytes) -> None:
    """Send a request and wait for its answer, by XADD and BLPOP only."""
    await client.xadd(stream, {"reply": reply, "body": body})
    await client.blpop([reply], timeout=10)


if __name__ == "__main__":
    import os

    # The URL stays out of the command line: it may hold a password.
    asyncio.run(responder(os.environ["FLEETHOOK_REDIS_URL"], sys.argv[1]))
