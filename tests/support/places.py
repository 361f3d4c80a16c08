"""A namespace on a server, real or not, and the verbs of the request side as a test says them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bus.requests import Request, answer_call, claim_call, read_request
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from bus.wire.streams import ScriptCall, call_all, checked
from tests.support.running import bash, do, put

GROUP = "g"
"""The group of the members here."""


@dataclass
class Place:
    """A namespace on one of the two servers, and members of the group there."""

    connections: Connections
    keys: Keys
    real: bool
    members: dict[str, Consumer] = field(default_factory=dict)
    claimed: dict[str, str] = field(default_factory=dict)
    """Who has the right to run the hooks of a request."""

    def member(self, name: str = "one") -> Consumer:
        """A member of the group."""
        made = Consumer(
            self.connections,
            self.keys,
            group=GROUP,
            name=name,
            role="evaluator",
            streams=(self.keys("requests"), self.keys("waiting")),
        )
        return self.members.setdefault(name, made)

    async def read(self, name: str = "one", count: int = 10, *calls: ScriptCall) -> list[Request]:
        """What a member gets when it reads."""
        with self.connections.lease() as connection:
            entries = await self.member(name).read(connection, count, 0.01, (), calls)
        return [read_request(entry, self.keys) for entry in entries]

    async def one(self, name: str = "one", **more: Any) -> Request:
        """A new request, read by a member."""
        await put(self.connections, self.keys, more.pop("body", bash()), **more)
        (request,) = await self.read(name)
        return request

    async def die(self, name: str) -> None:
        """The member's heartbeat ends."""
        await do(self.connections, "DEL", self.keys("beat", name))

    async def run(self, *calls: ScriptCall) -> list[Any]:
        """The results of scripts."""
        return [checked(reply, "a script") for reply in await call_all(self.connections, calls)]

    def answer(self, request: Request, said: bytes = b"said", name: str = "", **verdict: Any) -> ScriptCall:
        """The call that answers a request."""
        owner = self.claimed.get(request.id, "")
        return answer_call(request, self.keys, GROUP, Verdict(event=request.id, **verdict), said, name, owner)

    async def claim(
        self, request: Request, who: str = "one", name: str = "", hooks: tuple[str, ...] = ("h",)
    ) -> list[Any]:
        """What a member is told that wants to run hooks."""
        (reply,) = await self.run(claim_call(request, self.keys, GROUP, who, name, hooks))
        if reply[0] in {b"run", b"again"}:
            self.claimed[request.id] = who
        return [part.decode() if n == 0 else part for n, part in enumerate(reply)]

    async def replies(self, request: Request) -> list[bytes]:
        """What lies on the request's reply key."""
        found = await do(self.connections, "LRANGE", request.reply, 0, -1)
        assert isinstance(found, list)
        return found

    async def lengths(self) -> list[int]:
        """Entries of requests, waiting and events, and what is pending."""
        names = ("requests", "waiting", "events")
        left = [int(await do(self.connections, "XLEN", self.keys(name))) for name in names]
        for name in names[:2]:
            pending = await do(self.connections, "XPENDING", self.keys(name), GROUP)
            left.append(int(pending[0]))
        return left
