"""A name server that hangs holds up those who need it, and nobody else."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections import Counter

import pytest

from bus.http.address_policy import policy
from bus.http.resolver import MOST, Lookups
from bus.http.webhook_client import Reply, WebhookClient
from tests.support.http_servers import answer, receiver
from tests.support.waiting import PATIENCE


class Hanging:
    """A resolver whose server never answers for `*.silent.test` until it is let go."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.released = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked[host] += 1
        if host.endswith(".silent.test"):
            self.released.wait(4 * PATIENCE)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return ["127.0.0.1"]


@pytest.mark.req("B-06", "G-09")
async def test_names_that_hang_hold_up_no_other_name_however_often_they_are_asked_for() -> None:
    resolver = Hanging()
    lookups = Lookups(resolver)
    closing = answer(headers=["Connection: close"])
    async with receiver(closing) as port, WebhookClient(policy(["127.0.0.1"]), lookup=lookups) as client:

        async def post(name: str, seconds: float) -> Reply:
            return await client.post(f"http://{name}:{port}/", b"", {}, seconds=seconds)

        hung = [asyncio.create_task(post(f"{n % 9}.silent.test", 2 * PATIENCE)) for n in range(9 * 40)]
        early = [await post("0.silent.test", 0.05) for _ in range(3)]
        assert {reply.error for reply in early} == {"timeout"}, "whoever gives up leaves the rest waiting"
        for n in range(20):
            reply = await post(f"{n}.good.test", PATIENCE)
            assert (reply.status, reply.error) == (200, "")
            assert reply.phases.dns < 1_000
        assert sum(resolver.asked[f"{n}.silent.test"] for n in range(9)) == 9
        assert not any(task.done() for task in hung)
        resolver.released.set()
        replies = await asyncio.gather(*hung)
        assert {reply.error for reply in replies} == {"dns"}
        assert (await post("0.silent.test", PATIENCE)).error == "dns"
        assert resolver.asked["0.silent.test"] == 2, "an answer is not kept"


async def test_so_many_at_once_and_no_more() -> None:
    resolver = Hanging()
    lookups = Lookups(resolver)
    names = [f"{n}.silent.test" for n in range(MOST + 5)]
    waiting = [asyncio.create_task(lookups(name, 80)) for name in names]
    while len(resolver.asked) < MOST:
        await asyncio.sleep(0)
    assert set(resolver.asked) == set(names[:MOST])
    resolver.released.set()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(end, socket.gaierror) for end in ends)
    assert set(resolver.asked) == set(names)


def test_a_look_up_under_way_does_not_keep_the_process_from_ending() -> None:
    program = """
import asyncio, threading
from bus.http.resolver import Lookups
async def main():
    lookups, begun = Lookups(lambda host: begun.set() or threading.Event().wait(60) or []), threading.Event()
    task = asyncio.create_task(lookups("a.test", 80))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    lookups.close()
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
