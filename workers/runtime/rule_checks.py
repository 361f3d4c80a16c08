"""The processes that check heavy rules and conditions for one worker, shared fairly among agents.

A command line that takes long to read delays only the agent that sent it: the reading loop does not wait for the check,
each agent may have few questions waiting, and the agents take turns.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from bus.matching.checker import WALL_SECONDS
from bus.matching.checker_messages import MatchQuestion
from bus.matching.findings import Findings, ask, checker, unanswered
from bus.system.child import ChildProcess

PROCESSES: Final = 2
_WAITING_EACH: Final = 4
"""How many questions of one agent may wait; a further one is not answered."""
_WAITING: Final = 64


class RuleChecks:
    """A few processes; each starts at its first question, and all end with the `async with` block."""

    def __init__(self, processes: int = PROCESSES) -> None:
        self._free: list[ChildProcess] = [checker() for _ in range(processes)]
        self._all = tuple(self._free)
        self._waiting: dict[str, deque[asyncio.Future[ChildProcess]]] = {}
        """The waiting questions of each agent; the first agent's first question is next."""
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="rule-checks")

    async def __aenter__(self) -> Self:
        """Nothing is started yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the processes."""
        for child in self._all:
            child.kill()
        self._threads.shutdown(wait=True)
        for child in self._all:
            child.close()

    async def find(self, question: MatchQuestion, agent: str, seconds: float) -> Findings:
        """The findings, within `seconds` or WALL_SECONDS if that is less; `agent` is the agent that waits for them."""
        seconds = min(seconds, WALL_SECONDS)
        until = time.monotonic() + seconds
        child = await self._acquire(agent, seconds)
        if child is None:
            return unanswered(question)
        running = asyncio.get_running_loop().run_in_executor(
            self._threads, ask, child, question, max(0.0, until - time.monotonic())
        )
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            child.kill()
            raise
        finally:
            if running.done():
                self._release(child)
            else:
                running.add_done_callback(lambda _: self._release(child))

    async def _acquire(self, agent: str, seconds: float) -> ChildProcess | None:
        """A process for one question; None if too many questions wait, or if none becomes free in time."""
        if self._free:
            return self._free.pop()
        agent_queue = self._waiting.get(agent, ())
        if len(agent_queue) >= _WAITING_EACH or sum(map(len, self._waiting.values())) >= _WAITING:
            return None
        turn: asyncio.Future[ChildProcess] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(agent, deque()).append(turn)
        try:
            return await asyncio.wait_for(asyncio.shield(turn), seconds)
        except TimeoutError:
            return turn.result() if turn.done() else None
        except asyncio.CancelledError:
            if turn.done():
                self._release(turn.result())
            raise
        finally:
            self._forget(agent, turn)

    def _forget(self, agent: str, turn: asyncio.Future[ChildProcess]) -> None:
        """Remove a turn from the queue."""
        queue = self._waiting.get(agent)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[agent]

    def _release(self, child: ChildProcess) -> None:
        """Hand a process to the agent whose turn it is, or add it to the free ones."""
        while self._waiting:
            agent = next(iter(self._waiting))
            queue = self._waiting.pop(agent)
            turn = queue.popleft()
            if queue:
                self._waiting[agent] = queue  # behind the others
            if not turn.done():
                turn.set_result(child)
                return
        self._free.append(child)
