"""The scopes of an agent written in Python: sessions, prompts, turns, model calls and tool calls.

Entering a scope asks the bus, and a deny raises `Denied`. Leaving the scope records how it ended. A context variable
holds the scopes that the program is in, so a tool call knows its session and turn.
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

MOST_REFUSED_STOPS: Final = 8
"""How often in a row hooks may keep an agent from stopping."""

_LIMIT: Final = 30_000
"""Characters of a reason or a context; a program's own model may take more."""

_CAN: Final = {
    kind: Capability(
        type=kind.value, waits=True, block=True, ask=kind not in STOPS, rewrite=True, rewrite_as="alone", context=True
    )
    for kind in EventType
    if kind not in OWN
}
"""A program can carry out every part of a verdict, except a question to a person about a stop."""

Ask = Callable[["Scope"], "bool | Awaitable[bool]"]
"""Asks a person to approve a scope; the scope's `verdict.reason` says why. True approves it."""


class Sender(ABC):
    """Sends events and requests; `Bus` is a subclass."""

    @abstractmethod
    async def publish(self, event: Event) -> str:
        """Announce an event."""

    @abstractmethod
    async def request(self, event: Event, *, budget: float = ...) -> Verdict:
        """Ask for the verdict on an event."""


@dataclass(frozen=True, slots=True)
class EventDefaults:
    """The fields that each event gets from the scopes around it, and the settings of their requests."""

    source: str = "generic"
    session: str = ""
    cwd: str = ""
    parent: str = ""
    """The id of the event whose hook runs this program. Default: `FLEETHOOK_PARENT` of the environment."""
    ask: Ask | None = None
    budget: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """Added to the data of each event: the model, the turn's number, the session around this one."""
    turns: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    refusals: list[int] = field(default_factory=lambda: [0])
    """How often in a row hooks refused a stop."""


_CURRENT: Final[ContextVar[EventDefaults | None]] = ContextVar("fleethook_place", default=None)


def current_defaults() -> EventDefaults:
    """The defaults of the scope that the program is in; empty ones outside of every scope."""
    return _CURRENT.get() or EventDefaults()


class Scope:
    """Something that an agent does, from its start to its end. Use `async with`, or `with` on a synchronous bus."""

    starts: EventType
    ends: EventType

    def __init__(self, bus: Sender, outer: EventDefaults, **data: object) -> None:
        self._bus, self._outer = bus, outer
        self._inner = outer
        self._data = data
        self._began = 0.0
        self.verdict = Verdict()
        """The verdict of the hooks at its start."""
        self.context = ""
        """The texts that hooks add for the model."""
        self.event = ""
        """The id of its first event, for `fleethook trace`."""

    async def begin(self) -> None:
        """Ask whether it may start; raises Denied."""
        await self._request(self._event(self.starts))

    async def end(self, error: BaseException | None) -> None:
        """Record how it ended. Never raises if the bus is away, since the work is done."""
        await self._announce(self._event(self.ends, **_outcome(error)))

    def enter(self) -> None:
        """Make this the scope that the program is in."""
        self._began = time.monotonic()
        _CURRENT.set(self._inner)

    def leave(self) -> None:
        """Make the scope around this one current again."""
        _CURRENT.set(self._outer)

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
        defaults = self._inner
        data = {**defaults.data, **self._data, **more}
        return Event(
            type=kind.value,
            source=defaults.source,
            session=defaults.session,
            cwd=defaults.cwd,
            parent=defaults.parent,
            data=plain(data),
        )

    async def _request(self, event: Event) -> CarriedVerdict:
        """The verdict on `event` as a program can carry it out, after a person approved it if hooks ask for one.

        Raises Denied.
        """
        budget = self._inner.budget
        verdict = await (self._bus.request(event) if budget is None else self._bus.request(event, budget=budget))
        known = msgspec.structs.replace(event, native_tool=event.native_tool or event.tool)
        agent = Agent(event.source, "this program", _LIMIT)
        case = degrade(agent, event.type, _CAN[EventType(event.type)], verdict, known, event.input)
        self.verdict, self.event = verdict, self.event or verdict.event
        self.context = "\n\n".join(text for text in (self.context, case.context) if text)
        if case.notes:
            log.warning("%s: %s (fleethook trace %s)", event.type, "; ".join(case.notes), verdict.event)
        if case.decision == "ask":
            await self._ask_person(event, case)
        elif case.decision == "deny":
            raise Denied(case.reason, verdict)
        return case

    async def _ask_person(self, event: Event, case: CarriedVerdict) -> None:
        ask = self._inner.ask
        answer: bool | Awaitable[bool] = ask(self) if ask is not None else False
        granted = await answer if inspect.isawaitable(answer) else answer
        kind = EventType.PERMISSION_GRANTED if granted is True else EventType.PERMISSION_DENIED
        await self._announce(
            msgspec.structs.replace(event, type=kind.value, data={**event.data, "reason": case.reason})
        )
        if granted is not True:
            missing = "a person has to approve it, and this program has no way to ask one (`ask=`)"
            why = "a person refused it" if ask is not None else missing
            raise Denied(f"{case.reason} ({why})", self.verdict)

    async def _announce(self, event: Event) -> None:
        try:
            await self._bus.publish(event)
        except (FleethookError, ValueError) as error:  # ValueError: a value too deep or too large for the wire
            log.warning("%s could not be recorded: %s", event.type, error)


class Session(Scope):
    """One session of an agent; all events inside carry its `id`. A session inside another names the outer one in its data."""

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
        outer = current_defaults()
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
    """A user's prompt, until the agent has finished with it. Give the model `context` beside `text`."""

    starts, ends = EventType.USER_PROMPT_SUBMIT, EventType.AGENT_END

    def __init__(self, bus: Sender, text: str) -> None:
        super().__init__(bus, current_defaults(), prompt=text)
        self.text = text
        self._inner = replace(self._outer, refusals=[0])

    async def begin(self) -> None:
        """Ask whether the prompt may go to the model, then announce that the agent starts; raises Denied."""
        await super().begin()
        await self._announce(self._event(EventType.AGENT_START))


class Turn(Scope):
    """One round of an agent's loop: a model call and its tool calls. Turns are numbered from 1 in a session."""

    starts, ends = EventType.TURN_START, EventType.TURN_END

    def __init__(self, bus: Sender) -> None:
        super().__init__(bus, current_defaults())
        self.number = next(self._outer.turns)
        self._inner = replace(self._outer, data={**self._outer.data, "turn_number": self.number})


class LlmCall(Scope):
    """One call of a model. Set `response` and `tokens`: they are recorded at its end."""

    starts, ends = EventType.LLM_PRE_REQUEST, EventType.LLM_POST_RESPONSE

    def __init__(self, bus: Sender, model: str, **data: object) -> None:
        super().__init__(bus, current_defaults(), **({"model": model} if model else {}), **data)
        self.response: Any = None
        self.tokens: int | None = None

    async def end(self, error: BaseException | None) -> None:
        """Record the response, or the error that ended the call."""
        results = {"response": self.response, "tokens": self.tokens}
        more = {name: value for name, value in results.items() if value is not None}
        await self._announce(self._event(self.ends, **more, **_outcome(error), **_duration(self._began)))


class ToolCall(Scope):
    """One call of a tool. Run the tool with `input`, and set `result`, which is recorded at its end."""

    starts, ends = EventType.TOOL_PRE_EXECUTE, EventType.TOOL_POST_EXECUTE

    def __init__(
        self,
        bus: Sender,
        name: str,
        original: Mapping[str, Any] | None = None,
        *,
        call: str = "",
        ask: Ask | None = None,
        budget: float | None = None,
    ) -> None:
        super().__init__(bus, current_defaults())
        self.name = name
        self.id = call or f"c{os.urandom(10).hex()}"
        self.original: dict[str, Any] = dict(original or {})
        """The input as the model wrote it."""
        self.input = self.original
        """The input with the changes of hooks: run the tool with it."""
        self.result: Any = None
        self._inner = replace(
            self._outer, ask=ask or self._outer.ask, budget=budget if budget is not None else self._outer.budget
        )

    async def begin(self) -> None:
        """Ask whether the tool may run, and apply the hooks' changes to its input; raises Denied."""
        case = await self._request(self._event(self.starts))
        if case.rewrite is not None:
            before: dict[str, Any] = plain(self.original)
            changed = {name: value for name, value in case.rewrite.items() if before.get(name, self) != value}
            self.input = {**self.original, **changed}  # values that no hook changed stay the same objects

    async def end(self, error: BaseException | None) -> None:
        """Record the result, or the error that ended it."""
        kind = self.ends if error is None else EventType.TOOL_ERROR
        event = self._event(kind, **_outcome(error), **_duration(self._began))
        await self._announce(msgspec.structs.replace(event, output=plain(self.result)))

    def _event(self, kind: EventType, **more: object) -> Event:
        event = super()._event(kind, **more)
        return msgspec.structs.replace(event, tool=self.name, call=self.id, input=plain(self.input))


class Stop(Scope):
    """The moment at which an agent wants to stop. `more` says what hooks want it to do first; empty if it may stop."""

    starts = ends = EventType.AGENT_STOP

    def __init__(self, bus: Sender, message: str) -> None:
        super().__init__(bus, current_defaults(), last_assistant_message=message)
        self.more = ""

    async def begin(self) -> None:
        """Ask whether the agent may stop. A deny raises no error: its reason says what to go on with."""
        refusals = self._outer.refusals
        try:
            await self._request(self._event(self.starts, stop_hook_active=refusals[0] > 0))
            self.more = self.context
        except Denied as denied:
            self.more = denied.reason
        refusals[0] = refusals[0] + 1 if self.more else 0
        if refusals[0] > MOST_REFUSED_STOPS:
            log.warning("hooks made the agent go on %d times in a row: it stops now", MOST_REFUSED_STOPS)
            self.more, refusals[0] = "", 0


S = TypeVar("S", bound=Scope)
T = TypeVar("T")


class Blocking(Generic[S]):
    """A scope for `with`: the same object, entered and left on the event loop of a synchronous bus."""

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
    """The error's text, as agents write it."""
    if error is None:
        return {}
    text = str(error)
    return {"error": f"{type(error).__name__}: {text}" if text else type(error).__name__}


def _duration(since: float) -> dict[str, float]:
    return {"duration_ms": round((time.monotonic() - since) * 1000, 3)}
