"""Measures the live feed: 1,000 clients of one gateway at 200 events a second, and whether each gets what it asked for.

Run by `make bench-feed`. The clients are in this process, the server, the gateway and the sender in others; the gateway's CPU
and memory are read from /proc, so it needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect

from bus.events import Event
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway, start_gateway

TOOLS: Final = 100
"""Events are calls of so many tools in turn, each in a session of its tool."""

_AT_ONCE: Final = 50
_GRACE: Final = 30.0


class Way(NamedTuple):
    """One kind of subscriptions."""

    text: str
    query: Callable[[int], str]
    """What client n asks for."""
    everything: bool = False
    rate: float = 1.0
    """Its part of the events a second."""


def _where(number: int) -> str:
    """A condition that no two clients share, and that holds for the events of one tool."""
    return quote(f'event.session == "s{number % TOOLS}" && event.host != "client-{number}"')


WAYS: Final = (
    Way("each asks for one tool by pattern", lambda number: f"?events=tool:pre_execute:t{number % TOOLS}"),
    Way("each asks for one session by a condition of its own", lambda number: f"?where={_where(number)}"),
    Way("each asks for everything, at a tenth of the events", lambda _: "", everything=True, rate=0.1),
)


class Used(NamedTuple):
    """What a process has used."""

    seconds: float
    megabytes: float


def used(pid: int) -> Used:
    """CPU time of a process so far, and its memory now."""
    words = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    seconds = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return Used(seconds, int(words[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6)


class Reader:
    """One client: counts what it gets, and how late it was."""

    def __init__(self, wanted: set[str]) -> None:
        self.wanted = wanted
        self.late: list[float] = []
        self.wrong = 0

    async def read(self, connection: ClientConnection) -> None:
        """Read until everything that was asked for has come."""
        while self.wanted:
            text = await connection.recv(decode=False)
            if b'"kind":"event"' not in text[:20]:
                continue
            begin = text.index(b'"call":"') + 8
            name = text[begin : text.index(b'"', begin)].decode()
            if name in self.wanted:
                self.wanted.remove(name)
                self.late.append(time.time() * 1000 - float(name.partition("-")[2]))
            else:
                self.wrong += 1


async def measure(world: Fleet, gateway: Gateway, token: str, way: Way, clients: int, rate: int, seconds: int) -> bool:
    """Measure one kind of subscriptions, print it, and return whether every client got what it asked for."""
    pid = next(one.process.pid for one in world.workers if one.kind == "gateway")
    rate = max(1, int(rate * way.rate))
    count, gate = rate * seconds, asyncio.Semaphore(_AT_ONCE)

    async def open_one(number: int) -> ClientConnection:
        async with gate:
            url = f"ws://127.0.0.1:{gateway.port}/v1/live{way.query(number)}"
            connection = await connect(
                url, additional_headers={"Authorization": f"Bearer {token}"}, compression=None, max_queue=None
            )
            await connection.recv()
            return connection

    idle = used(pid)
    connections = await asyncio.gather(*(open_one(number) for number in range(clients)))
    before, began = used(pid), time.monotonic()
    begin = time.time() * 1000 + 500
    names = [f"{number}-{begin + number * 1000 / rate:.1f}" for number in range(count)]
    readers = [
        Reader({name for number, name in enumerate(names) if way.everything or number % TOOLS == client % TOOLS})
        for client in range(clients)
    ]
    reading = [asyncio.create_task(one.read(connection)) for one, connection in zip(readers, connections, strict=True)]
    async with world.bus() as bus:
        for number, name in enumerate(names):
            await asyncio.sleep(max(0.0, (begin + number * 1000 / rate) / 1000 - time.time()))
            tool = f"t{number % TOOLS}"
            await bus.publish(
                Event(type="tool:pre_execute", tool=tool, session=f"s{number % TOOLS}", call=name, input={"n": number})
            )
    _, open_ones = await asyncio.wait(reading, timeout=_GRACE)
    for task in open_ones:
        task.cancel()
    after, took = used(pid), time.monotonic() - began
    await asyncio.gather(*(connection.close() for connection in connections))
    late = sorted(value for one in readers for value in one.late)
    missing, wrong = sum(len(one.wanted) for one in readers), sum(one.wrong for one in readers)
    print(f"{way.text}: {clients} clients, {rate} events a second, {seconds} s")
    print(f"  {len(late) / took:,.0f} messages a second; missing {missing}, not asked for {wrong}")
    if late:
        print(f"  later than its event by p50 {late[len(late) // 2]:.0f} ms, p99 {late[int(len(late) * 0.99)]:.0f} ms")
    print(
        f"  gateway: {100 * (after.seconds - before.seconds) / took:.0f} % of a core, {after.megabytes:.0f} MB "
        f"({idle.megabytes:.0f} MB without clients)",
        flush=True,
    )
    return not missing and not wrong


def main(words: Sequence[str]) -> int:
    """Measure every kind of subscriptions; 1 if a client missed anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=200, help="events a second")
    parser.add_argument("--seconds", type=int, default=20)
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="fh-") as folder, fleet(Path(folder)) as world:
        gateway = start_gateway(world)
        token = gateway.token("bench", "observe")
        results = [
            asyncio.run(measure(world, gateway, token, way, asked.clients, asked.rate, asked.seconds)) for way in WAYS
        ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
