"""Measures memory under mixed load: hooks, events with webhooks, requests, lists, approvals, feeds, callers that hang up.

Run by `make soak`, for ten minutes. Memory is read from /proc, so it needs Linux. It is flat if the last quarter of the time
needs no more than the second one, within a tenth and 5 MB. The first quarter fills caches.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from docs.measure_feed import used
from tests.support.beside import beside
from tests.support.fleet import fleet
from tests.support.gateway import Gateway, payloads, start_gateway
from tests.support.receivers import Receiver, receiving

HOOKS: Final = """
version: 1
guards: {{destructive-commands: true}}
network: {{allow: ["127.0.0.1:{port}"]}}
hooks:
  - {{id: deny, on: tool:pre_execute, when: event.session == "deny", rule: {{decision: deny, reason: no}}}}
  - id: ask
    on: tool:pre_execute
    when: event.session == "ask"
    hold: {{timeout: 60, default: deny}}
    rule: {{decision: ask, reason: a person decides}}
endpoints: [{{id: log, url: "http://127.0.0.1:{port}/log", events: session:message}}]
"""
_EVERY: Final = 2.0
_LISTS: Final = (
    "/v1/events?limit=200",
    "/v1/sessions",
    "/v1/workers",
    "/v1/hooks",
    "/v1/endpoints",
    "/v1/deliveries",
    "/v1/dead",
    "/v1/approvals",
    "/v1/inbox",
    "/admin/status",
    "/metrics",
)
_WATCHED: Final = ("gateway", "evaluator", "dispatcher", "carrier")

Call = Callable[[httpx.AsyncClient], Awaitable[str]]
"""One call; returns what is wrong with its answer, empty if nothing is."""


class Load:
    """The callers of one gateway."""

    def __init__(self, gateway: Gateway, token: str, seconds: float) -> None:
        self._gateway, self._token, self._ends = gateway, token, time.monotonic() + seconds
        self.done: Counter[str] = Counter()
        """How often each kind of call was answered as it has to be."""
        self.wrong: Counter[str] = Counter()
        """How often it was not, with what came instead."""
        self._random = random.Random(12)
        self._payloads = [(agent, *case) for agent in ("claude", "codex", "qwen", "gemini") for case in payloads(agent)]

    async def run(self, clients: int) -> None:
        """Run all kinds of callers until the time is over."""
        bearer = {"Authorization": f"Bearer {self._token}"}
        limits = httpx.Limits(max_connections=clients * 2)
        async with httpx.AsyncClient(base_url=self._gateway.url, headers=bearer, timeout=30, limits=limits) as client:
            kinds: list[tuple[str, Call]] = [
                ("hook", self._hook),
                ("events", self._events),
                ("request", self._request),
                ("list", self._list),
                ("refused", self._refused),
                ("held call", self._held),
            ]
            callers = [self._repeat(*kinds[number % len(kinds)], client) for number in range(clients)]
            answering = asyncio.create_task(self._answer(client))
            await asyncio.gather(*callers, self._watch(), self._watch(), self._leave(), self._hang_up())
            answering.cancel()

    def _goes_on(self) -> bool:
        return time.monotonic() < self._ends

    async def _repeat(self, name: str, call: Call, client: httpx.AsyncClient) -> None:
        while self._goes_on():
            await self._count(name, call(client))

    async def _count(self, name: str, call: Awaitable[str]) -> None:
        try:
            wrong = await call
        except httpx.HTTPError as error:
            wrong = type(error).__name__
        if wrong:
            self.wrong[f"{name}: {wrong}"] += 1
        else:
            self.done[name] += 1

    async def _answer(self, client: httpx.AsyncClient) -> None:
        """Answer held calls until the last caller has ended."""
        while True:
            await self._count("approval", self._approve(client))

    async def _hook(self, client: httpx.AsyncClient) -> str:
        agent, native, payload = self._random.choice(self._payloads)
        response = await client.post(f"/v1/hooks/{agent}/{native}", content=payload)
        return _unlike(200, response) or response.headers.get("fleethook-fallback", "")

    async def _events(self, client: httpx.AsyncClient) -> str:
        await asyncio.sleep(0.1)
        size = self._random.choice((10, 1_000, 20_000))
        many = [{"type": "session:message", "session": f"s{n}", "data": {"text": "x" * size}} for n in range(5)]
        return _unlike(202, await client.post("/v1/events", json=many))

    async def _request(self, client: httpx.AsyncClient) -> str:
        return await self._ask(client, "deny", "deny")

    async def _held(self, client: httpx.AsyncClient) -> str:
        """A call that a person has to approve."""
        return await self._ask(client, "ask", "allow", "?wait=50s")

    async def _ask(self, client: httpx.AsyncClient, session: str, decision: str, query: str = "") -> str:
        event = {"type": "tool:pre_execute", "tool": "bash", "session": session, "input": {"command": "ls"}}
        response = await client.post(f"/v1/requests{query}", json=event, timeout=60)
        return _unlike(200, response) or ("" if response.json()["decision"] == decision else response.text[:200])

    async def _approve(self, client: httpx.AsyncClient) -> str:
        """The person: looks at the questions that wait, and says yes."""
        await asyncio.sleep(0.2)
        listed = await client.get("/v1/approvals?state=waiting")
        if wrong := _unlike(200, listed):
            return wrong
        answers = [await client.post(f"/v1/approvals/{one['id']}/approve") for one in listed.json()["items"]]
        # A question that ended by itself is decided already.
        return next((wrong for one in answers if one.status_code != 409 and (wrong := _unlike(200, one))), "")

    async def _list(self, client: httpx.AsyncClient) -> str:
        await asyncio.sleep(0.2)
        path = self._random.choice(_LISTS)
        wrong = _unlike(200, await client.get(path))
        return f"{path}: {wrong}" if wrong else ""

    async def _refused(self, client: httpx.AsyncClient) -> str:
        await asyncio.sleep(0.02)
        response = await client.post(
            "/v1/hooks/claude/PreToolUse", content=b"x" * 50_000, headers={"Authorization": "Bearer fht_wrong"}
        )
        return _unlike(401, response)

    async def _watch(self) -> None:
        """A feed that stays."""
        async with self._feed() as feed:
            while self._goes_on():
                await feed.recv(decode=False)
                self.done["feed message"] += 1

    async def _leave(self) -> None:
        """Feeds that come, read nothing and go."""
        while self._goes_on():
            with suppress(ConnectionClosed, OSError):
                async with self._feed():
                    await asyncio.sleep(0.3)
            self.done["feed that left"] += 1

    async def _hang_up(self) -> None:
        """Callers that send a part of a call and are gone."""
        head = (
            f"POST /v1/hooks/claude/PreToolUse HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n"
        )
        while self._goes_on():
            _, writer = await asyncio.open_connection("127.0.0.1", self._gateway.port)
            writer.write(head.encode() + b"Content-Length: 100000\r\n\r\n" + b"x" * 40_000)
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.transport.abort()
            self.done["caller that hung up"] += 1

    def _feed(self) -> Any:
        return connect(
            f"ws://127.0.0.1:{self._gateway.port}/v1/live",
            additional_headers={"Authorization": f"Bearer {self._token}"},
            compression=None,
            max_size=None,
        )


def _unlike(status: int, response: httpx.Response) -> str:
    """What is wrong with a response that has another status."""
    return "" if response.status_code == status else f"{response.status_code} {response.text[:300]}"


async def _sample(pids: dict[str, int], found: dict[str, list[float]], receiver: Receiver, load: Load) -> None:
    """Note the memory of the processes. The webhooks are counted and forgotten, since they would fill this process."""
    while True:
        load.done["webhook"] += len(receiver.got)
        receiver.got.clear()
        for name, pid in pids.items():
            found[name].append(used(pid).megabytes)
        await asyncio.sleep(_EVERY)


def is_flat(name: str, samples: list[float]) -> bool:
    """Print the memory of one process by quarters of the time, and whether it is flat."""
    quarter = len(samples) // 4
    medians = [statistics.median(samples[part * quarter : (part + 1) * quarter]) for part in range(4)]
    flat = medians[3] <= medians[1] * 1.1 + 5
    print(f"{name}: {', '.join(f'{one:.0f}' for one in medians)} MB by quarters: {'flat' if flat else 'GROWS'}")
    return flat


async def _measure(
    gateway: Gateway, receiver: Receiver, token: str, pids: dict[str, int], seconds: float, clients: int
) -> bool:
    load, memory = Load(gateway, token, seconds), {name: list[float]() for name in pids}
    sampling = asyncio.create_task(_sample(pids, memory, receiver, load))
    began = time.monotonic()
    await load.run(clients)
    took = time.monotonic() - began
    sampling.cancel()
    print(f"{took:.0f} s, {clients} clients: " + ", ".join(f"{count:,} {name}" for name, count in load.done.items()))
    if load.wrong:
        print("not answered as it has to be:\n" + "\n".join(f"  {count} {name}" for name, count in load.wrong.items()))
    print(f"gateway: {100 * used(pids['gateway']).seconds / took:.0f} % of a core")
    flat = [is_flat(name, samples) for name, samples in memory.items()]
    return all(flat) and not load.wrong


def main(words: Sequence[str]) -> int:
    """Run the load; 1 if memory grows or a call was not answered as it has to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=12)
    asked = parser.parse_args(words)
    more = {"FLEETHOOK_EVENTS_MAX_BYTES": "64MiB"}
    with tempfile.TemporaryDirectory() as folder, beside(receiving) as receiver:
        hooks = HOOKS.format(port=receiver.port)
        with fleet(Path(folder), "dispatcher", hooks=hooks) as world:
            world.start("evaluator", "carrier", "chores", **more)
            gateway = start_gateway(world, **more)
            token = gateway.token("soak", "publish", "observe", "operate")
            pids = {one.kind: one.process.pid for one in world.workers if one.kind in _WATCHED}
            good = asyncio.run(_measure(gateway, receiver, token, pids, asked.minutes * 60, asked.clients))
            print(f"dead letters: {len(world.dead())}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
