"""The calls of a bus for agents written in Python: scopes for `async with` and for `with`, and a decorator for tools."""

from __future__ import annotations

import asyncio
import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, overload

from bus.errors import Denied
from bus.events import Event
from bus.sdk.plain_values import plain
from bus.sdk.scopes import Ask, Blocking, LlmCall, Prompt, Sender, Session, Stop, ToolCall, Turn
from bus.verdicts import Verdict

DEFAULT_BUDGET: Final = 10.0
"""Seconds that a verdict may take, from call to return."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
B = TypeVar("B", bound="AgentFacade")

_OWNERS: Final = frozenset({"self", "cls"})


class AgentFacade(Sender):
    """The scopes of an agent with an event loop."""

    @abstractmethod
    async def publish_many(self, events: Sequence[Event]) -> list[str]:
        """Announce several events."""

    @abstractmethod
    async def close(self) -> None:
        """Close every connection."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def session(
        self,
        id: str = "",
        *,
        source: str = "",
        cwd: str = "",
        model: str = "",
        parent: str = "",
        ask: Ask | None = None,
        budget: float | None = None,
    ) -> Session:
        """One session; its fields go into every event inside it.

        `id` is made if it is empty. `source` names the program (default `generic`). `parent` is the id of the event whose
        hook runs this program. `ask` asks a person if hooks want one. `budget` is in seconds for each request.
        """
        return Session(self, id=id, source=source, cwd=cwd, model=model, parent=parent, ask=ask, budget=budget)

    def prompt(self, text: str) -> Prompt:
        """A user's prompt; raises Denied. `context` of the scope holds what hooks add for the model."""
        return Prompt(self, text)

    def turn(self) -> Turn:
        """One round of the agent's loop; raises Denied."""
        return Turn(self)

    def llm(self, model: str = "", **data: object) -> LlmCall:
        """One call of a model; raises Denied. Hooks see `data` (`messages=…`); set `response` and `tokens` of the scope."""
        return LlmCall(self, model, **data)

    def tool(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        call: str = "",
        ask: Ask | None = None,
        budget: float | None = None,
    ) -> ToolCall:
        """One tool call; raises Denied. Run the tool with the scope's `input`, as hooks changed it; set its `result`."""
        return ToolCall(self, name, input, call=call, ask=ask, budget=budget)

    async def stop(self, message: str = "") -> str:
        """What hooks want the agent to do before it stops; empty if it may stop. `message` is the agent's last message."""
        scope = Stop(self, message)
        await scope.begin()
        return scope.more

    @overload
    def tool_call(self, function: F) -> F: ...
    @overload
    def tool_call(
        self, function: str = "", *, ask: Ask | None = None, budget: float | None = None
    ) -> Callable[[F], F]: ...
    def tool_call(
        self, function: F | str = "", *, ask: Ask | None = None, budget: float | None = None
    ) -> F | Callable[[F], F]:
        """Make an async function a tool, with `@bus.tool_call` or `@bus.tool_call("name")`: each call asks and is recorded.

        The input is the arguments by name; the function gets them with the changes of hooks. Raises Denied, also if a
        hook adds an argument that the function has no parameter for.
        """
        if callable(function):
            return _async_tool(self, function, function.__name__, ask, budget)
        return lambda decorated: _async_tool(self, decorated, function or decorated.__name__, ask, budget)


class SyncAgentFacade(Generic[B]):
    """The same calls for a program without an event loop: they run on this object's own loop, in the calling thread."""

    def __init__(self, bus: B) -> None:
        self._bus = bus
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the bus, and the event loop; closing twice is allowed."""
        if not self._loop.is_closed():
            self._run(self._bus.close())
            self._loop.close()

    def publish(self, event: Event) -> str:
        """As the bus's `publish`."""
        return self._run(self._bus.publish(event))

    def publish_many(self, events: Sequence[Event]) -> list[str]:
        """As the bus's `publish_many`."""
        return self._run(self._bus.publish_many(events))

    def request(self, event: Event, *, budget: float = DEFAULT_BUDGET) -> Verdict:
        """As the bus's `request`."""
        return self._run(self._bus.request(event, budget=budget))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def session(
        self,
        id: str = "",
        *,
        source: str = "",
        cwd: str = "",
        model: str = "",
        parent: str = "",
        ask: Ask | None = None,
        budget: float | None = None,
    ) -> Blocking[Session]:
        """As AgentFacade.session."""
        scope = self._bus.session(id, source=source, cwd=cwd, model=model, parent=parent, ask=ask, budget=budget)
        return Blocking(scope, self._run)

    def prompt(self, text: str) -> Blocking[Prompt]:
        """As AgentFacade.prompt."""
        return Blocking(self._bus.prompt(text), self._run)

    def turn(self) -> Blocking[Turn]:
        """As AgentFacade.turn."""
        return Blocking(self._bus.turn(), self._run)

    def llm(self, model: str = "", **data: object) -> Blocking[LlmCall]:
        """As AgentFacade.llm."""
        return Blocking(self._bus.llm(model, **data), self._run)

    def tool(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        call: str = "",
        ask: Ask | None = None,
        budget: float | None = None,
    ) -> Blocking[ToolCall]:
        """As AgentFacade.tool."""
        return Blocking(self._bus.tool(name, input, call=call, ask=ask, budget=budget), self._run)

    def stop(self, message: str = "") -> str:
        """As AgentFacade.stop."""
        return self._run(self._bus.stop(message))

    @overload
    def tool_call(self, function: F) -> F: ...
    @overload
    def tool_call(
        self, function: str = "", *, ask: Ask | None = None, budget: float | None = None
    ) -> Callable[[F], F]: ...
    def tool_call(
        self, function: F | str = "", *, ask: Ask | None = None, budget: float | None = None
    ) -> F | Callable[[F], F]:
        """As AgentFacade.tool_call, for functions that are not async."""
        if callable(function):
            return _plain_tool(self, function, function.__name__, ask, budget)
        return lambda decorated: _plain_tool(self, decorated, function or decorated.__name__, ask, budget)


def _async_tool(bus: AgentFacade, function: F, name: str, ask: Ask | None, budget: float | None) -> F:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is not async: make it a tool with `bus.sync()`")
    signature = inspect.signature(function)

    @functools.wraps(function)
    async def tool(*args: object, **kwargs: object) -> object:
        bound = signature.bind(*args, **kwargs)
        async with bus.tool(name, _input(bound), ask=ask, budget=budget) as call:
            _apply_changes(bound, call)
            call.result = await function(*bound.args, **bound.kwargs)
        return call.result

    return tool  # type: ignore[return-value]  # it has the same signature


def _plain_tool(bus: SyncAgentFacade[Any], function: F, name: str, ask: Ask | None, budget: float | None) -> F:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is async: make it a tool with the Bus itself")
    signature = inspect.signature(function)

    @functools.wraps(function)
    def tool(*args: object, **kwargs: object) -> object:
        bound = signature.bind(*args, **kwargs)
        with bus.tool(name, _input(bound), ask=ask, budget=budget) as call:
            _apply_changes(bound, call)
            call.result = function(*bound.args, **bound.kwargs)
        return call.result

    return tool  # type: ignore[return-value]  # it has the same signature


def _input(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name, with defaults, and without `self` or `cls`."""
    bound.apply_defaults()
    arguments: dict[str, Any] = {}
    for number, (name, parameter) in enumerate(bound.signature.parameters.items()):
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= bound.arguments[name]
        elif number or name not in _OWNERS:
            arguments[name] = bound.arguments[name]
    return arguments


def _apply_changes(bound: inspect.BoundArguments, call: ToolCall) -> None:
    """Replace the arguments that hooks changed; raises Denied if the function has no such parameter."""
    parameters = bound.signature.parameters
    rest = next((name for name, parameter in parameters.items() if parameter.kind is inspect.Parameter.VAR_KEYWORD), "")
    for name, value in call.input.items():
        if name in call.original and (call.original[name] is value or plain(call.original[name]) == value):
            continue
        if name in parameters and name != rest:
            several = parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            bound.arguments[name] = tuple(value) if several else value
        elif rest:
            bound.arguments[rest] = {**bound.arguments[rest], name: value}
        else:
            raise Denied(f"a hook changed {name!r} of this call, and {call.name} takes no such argument", call.verdict)
