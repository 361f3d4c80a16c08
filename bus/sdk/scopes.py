"""An agent written in Python: its sessions, prompts, turns, model calls and tool calls, each asked for and recorded.

Each is a scope: entering it asks the bus (a deny raises `Denied`), leaving it records how it ended. The scopes that a
program is in go along by themselves (a context variable), so a tool call knows its session and turn.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

from bus.agents.base import Capability
from bus.agents.degrade import Agent, CarriedVerdict, degrade
from bus.errors import Denied, FleethookError
from bus.events import OWN, STOPS, Event, EventType, source_name
from bus.sdk.plain_values import plain
from bus.verdicts import Verdict

log = logging.getLogger("fleethook.agent")

MOST_GOES: Final = 8
"""How often in a row hooks may make an agent that wants to stop go on."""

_LIMIT: Final = 30_000
"""Characters of a reason or a context; a program's own model may take more."""

_CAN: Final = {
    kind: Capability(
        type=kind.value, waits=True, block=True, ask=kind not in STOPS, rewrite=True, rewrite_as="alone", context=True
    )
    for kind in EventType
    if kind not in OWN
}
"""A program can be told everything; nobody is asked whether it may stop."""

Ask = Callable[["Scope"], "bool | Awaitable[bool]"]
"""Asks a person about a scope whose hooks want one: its `verdict.reason` says why. True lets it go on."""


class Sender(ABC):
    """What sends events; a Bus."""

    @abstractmethod
    async def publish(self, event: Event) -> str:
        """Announce an event."""

    @abstractmethod
    async def request(self, event: Event, *, budget: float = ...) -> Verdict:
        """Ask for the verdict on an event."""


@dataclass(frozen=True, slots=True)
class EventDefaults:
    """Where a program is: what its events say without being told."""

    source: str = "generic"
    session: str = ""
    cwd: str = ""
    parent: str = ""
    """The id of the event whose hook this program runs for, where it is not in the environment already."""
    ask: Ask | None = None
    budget: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """What every event says beside its own: the model, the turn's number, the session that this one is in."""
    turns: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    goes: list[int] = field(default_factory=lambda: [0])
    """How often in a row a stop has been refused."""


_HERE: Final[ContextVar[EventDefaults | None]] = ContextVar("fleethook_place", default=None)


def here() -> EventDefaults:
    """Where the program is now; nowhere in particular outside of every session."""
    return _HERE.get() or EventDefaults()


class Scope:
    """Something that an agent does, from its start to its end; `async with` it, or `with` on the synchronous face."""

    starts: EventType
    ends: EventType

    def __init__(self, bus: Sender, place: EventDefaults, **data: object) -> None:
        self._bus, self._outer = bus, place
        self._inner = place
        self._data = data
        self._began = 0.0
        self.verdict = Verdict()
        """What the hooks said at its start."""
        self.context = ""
        """What the hooks want the model to know."""
        self.event = ""
        """The id of its first event, for `fleethook trace`."""

    async def begin(self) -> None:
        """Ask whether it may start; raises Denied."""
        await self._asked(self._event(self.starts))

    async def end(self, error: BaseException | None) -> None:
        """Record how it ended; never raises for a bus that is away: what has happened has happened."""
        await self._announce(self._event(self.ends, **_outcome(error)))

    def enter(self) -> None:
        """From here on the program is inside."""
        self._began = time.monotonic()
        _HERE.set(self._inner)

    def leave(self) -> None:
        """The program is where it was before."""
        _HERE.set(self._outer)

    async def __aenter__(self) -> Self:
        await self.begin()
        self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        await self.end(error)

    def _event(self, kind: EventType, **more: object) -> Event:
        place = self._inner
        data = {**place.data, **self._data, **more}
        return Event(
            type=kind.value,
            source=place.source,
            session=place.session,
            cwd=place.cwd,
            parent=place.parent,
            data=plain(data),
        )

    async def _asked(self, event: Event) -> CarriedVerdict:
        """The verdict on `event`, settled: a person asked where hooks want one, and what may not be raised as Denied."""
        budget = self._inner.budget
        said = await (self._bus.request(event) if budget is None else self._bus.request(event, budget=budget))
        known = msgspec.structs.replace(event, native_tool=event.native_tool or event.tool)
        agent = Agent(event.source, "this program", _LIMIT)
        case = degrade(agent, event.type, _CAN[EventType(event.type)], said, known, event.input)
        self.verdict, self.event = said, self.event or said.event
        self.context = "\n\n".join(text for text in (self.context, case.context) if text)
        if case.notes:
            log.warning("%s: %s (fleethook trace %s)", event.type, "; ".join(case.notes), said.event)
        if case.decision == "ask":
            await self._ask_a_person(event, case)
        elif case.decision == "deny":
            raise Denied(case.reason, said)
        return case

    async def _ask_a_person(self, event: Event, case: CarriedVerdict) -> None:
        ask = self._inner.ask
        answer: bool | Awaitable[bool] = ask(self) if ask is not None else False
        granted = await answer if inspect.isawaitable(answer) else answer
        kind = EventType.PERMISSION_GRANTED if granted is True else EventType.PERMISSION_DENIED
        await self._announce(
            msgspec.structs.replace(event, type=kind.value, data={**event.data, "reason": case.reason})
        )
        if granted is not True:
            who = (
                "a person refused it" if ask is not None else "a person has to approve it, and this program asks nobody"
            )
            raise Denied(f"{case.reason} ({who})", self.verdict)

    async def _announce(self, event: Event) -> None:
        try:
            await self._bus.publish(event)
        except (FleethookError, ValueError) as error:  # ValueError: a value too deep or too large for the wire
            log.warning("%s could not be recorded: %s", event.type, error)


class Session(Scope):
    """One session of an agent; `id` goes with everything inside. A session inside another one names it in its data."""

    starts, ends = EventType.SESSION_START, EventType.SESSION_END

    def __init__(
        self,
        bus: Sender,
        *,
        id: str = "",
        source: str = "",
        cwd: str = "",
        model: str = "",
        parent: str = "",
        ask: Ask | None = None,
        budget: float | None = None,
    ) -> None:
        outer = here()
        super().__init__(bus, outer)
        self.id = id or f"s{os.urandom(10).hex()}"
        data = {**({"model": model} if model else {}), **({"parent_session": outer.session} if outer.session else {})}
        self._inner = EventDefaults(
            source=source_name(source) if source else outer.source,
            session=self.id,
            cwd=cwd or outer.cwd or os.getcwd(),
            parent=parent or outer.parent,
            ask=ask or outer.ask,
            budget=budget if budget is not None else outer.budget,
            data=data,
        )


class Prompt(Scope):
    """What a user asks for, until the agent is done with it; `context` is for the model, beside `text`."""

    starts, ends = EventType.USER_PROMPT_SUBMIT, EventType.AGENT_END

    def __init__(self, bus: Sender, text: str) -> None:
        super().__init__(bus, here(), prompt=text)
        self.text = text
        self._inner = replace(self._outer, goes=[0])

    async def begin(self) -> None:
        """Ask whether the prompt may be taken on, then say that the agent starts; raises Denied."""
        await super().begin()
        await self._announce(self._event(EventType.AGENT_START))


class Turn(Scope):
    """One round of an agent's loop: a model call and the tool calls that it wants; numbered from 1 in its session."""

    starts, ends = EventType.TURN_START, EventType.TURN_END

    def __init__(self, bus: Sender) -> None:
        super().__init__(bus, here())
        self.number = next(self._outer.turns)
        self._inner = replace(self._outer, data={**self._outer.data, "turn_number": self.number})


class LlmCall(Scope):
    """One call of a model; what stands in `response` and `tokens` at its end is recorded."""

    starts, ends = EventType.LLM_PRE_REQUEST, EventType.LLM_POST_RESPONSE

    def __init__(self, bus: Sender, model: str, **data: object) -> None:
        super().__init__(bus, here(), **({"model": model} if model else {}), **data)
        self.response: Any = None
        self.tokens: int | None = None

    async def end(self, error: BaseException | None) -> None:
        """Record the response, or why there is none."""
        said = {"response": self.response, "tokens": self.tokens}
        more = {name: value for name, value in said.items() if value is not None}
        await self._announce(self._event(self.ends, **more, **_outcome(error), **_duration(self._began)))


class ToolCall(Scope):
    """One call of a tool; `input` is what to run it with, and what stands in `result` at its end is recorded."""

    starts, ends = EventType.TOOL_PRE_EXECUTE, EventType.TOOL_POST_EXECUTE

    def __init__(
        self,
        bus: Sender,
        name: str,
        given: Mapping[str, Any] | None = None,
        *,
        call: str = "",
        ask: Ask | None = None,
        budget: float | None = None,
    ) -> None:
        super().__init__(bus, here())
        self.name = name
        self.id = call or f"c{os.urandom(10).hex()}"
        self.given: dict[str, Any] = dict(given or {})
        """The input as the model wrote it."""
        self.input = self.given
        """The input as hooks want it: the one to use."""
        self.result: Any = None
        self._inner = replace(
            self._outer, ask=ask or self._outer.ask, budget=budget if budget is not None else self._outer.budget
        )

    async def begin(self) -> None:
        """Ask whether the tool may run, and take over the changed input; raises Denied."""
        case = await self._asked(self._event(self.starts))
        if case.rewrite is not None:
            before: dict[str, Any] = plain(self.given)
            changed = {name: value for name, value in case.rewrite.items() if before.get(name, self) != value}
            self.input = {**self.given, **changed}  # what nobody changed stays the very object that it was

    async def end(self, error: BaseException | None) -> None:
        """Record the result, or the error that ended it."""
        kind = self.ends if error is None else EventType.TOOL_ERROR
        event = self._event(kind, **_outcome(error), **_duration(self._began))
        await self._announce(msgspec.structs.replace(event, output=plain(self.result)))

    def _event(self, kind: EventType, **more: object) -> Event:
        event = super()._event(kind, **more)
        return msgspec.structs.replace(event, tool=self.name, call=self.id, input=plain(self.input))


class Stop(Scope):
    """The moment at which an agent would stop; `more` says what hooks want done before, and is empty where it may."""

    starts = ends = EventType.AGENT_STOP

    def __init__(self, bus: Sender, message: str) -> None:
        super().__init__(bus, here(), last_assistant_message=message)
        self.more = ""

    async def begin(self) -> None:
        """Ask; a deny is no error here, but what to go on with."""
        goes = self._outer.goes
        try:
            await self._asked(self._event(self.starts, stop_hook_active=goes[0] > 0))
            self.more = self.context
        except Denied as denied:
            self.more = denied.reason
        goes[0] = goes[0] + 1 if self.more else 0
        if goes[0] > MOST_GOES:
            log.warning("hooks made the agent go on %d times in a row: it stops now", MOST_GOES)
            self.more, goes[0] = "", 0


S = TypeVar("S", bound=Scope)
T = TypeVar("T")


class Blocking(Generic[S]):
    """A scope for `with`: the same object, entered and left on the event loop of the synchronous face."""

    def __init__(self, scope: S, run: Callable[[Any], Any]) -> None:
        self._scope, self._run = scope, run

    def __enter__(self) -> S:
        self._run(self._scope.begin())
        self._scope.enter()
        return self._scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.leave()
        self._run(self._scope.end(error))


def _outcome(error: BaseException | None) -> dict[str, str]:
    """The error in words, as agents write it."""
    if error is None:
        return {}
    text = str(error)
    return {"error": f"{type(error).__name__}: {text}" if text else type(error).__name__}


def _duration(since: float) -> dict[str, float]:
    return {"duration_ms": round((time.monotonic() - since) * 1000, 3)}
