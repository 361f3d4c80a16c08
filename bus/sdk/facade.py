"""What a Bus offers an agent written in Python: scopes for `async with`, the same for `with`, and a decorator for tools."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, overload

from bus.errors import Denied
from bus.sdk.plain_values import plain
from bus.sdk.scopes import Ask, Blocking, LlmCall, Prompt, Sender, Session, Stop, ToolCall, Turn

F = TypeVar("F", bound=Callable[..., Any])

_OWNERS: Final = frozenset({"self", "cls"})


class AgentFace(Sender):
    """The scopes of a program with an event loop."""

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
        """One session; what is given here goes with everything inside.

        `id` is made where there is none; `source` names the program (default `generic`); `parent` is the id of the event
        whose hook this program runs for; `ask` asks a person where hooks want one; `budget` is in seconds a request.
        """
        return Session(self, id=id, source=source, cwd=cwd, model=model, parent=parent, ask=ask, budget=budget)

    def prompt(self, text: str) -> Prompt:
        """What a user asks for; raises Denied. Hooks' words for the model stand in `context`."""
        return Prompt(self, text)

    def turn(self) -> Turn:
        """One round of the agent's loop; raises Denied."""
        return Turn(self)

    def llm(self, model: str = "", **data: object) -> LlmCall:
        """One call of a model; raises Denied. Set `response` and `tokens`; `data` (`messages=…`) is for the hooks."""
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
        """One tool call; raises Denied. Run it with `input` of the scope, which hooks may have changed; set `result`."""
        return ToolCall(self, name, input, call=call, ask=ask, budget=budget)

    async def stop(self, message: str = "") -> str:
        """What hooks want done before the agent stops, which said `message` last; empty where it may stop."""
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
        """Make an async function a tool, `@bus.tool_call` or `@bus.tool_call("name")`: each call asks, and is recorded.

        Its arguments by name are the input; it is called with what hooks make of them. Raises Denied, also for a change
        that the function has no parameter for.
        """
        if callable(function):
            return _async_tool(self, function, function.__name__, ask, budget)
        return lambda made: _async_tool(self, made, function or made.__name__, ask, budget)


class SyncAgentFace(ABC):
    """The same scopes for a program without an event loop."""

    @property
    @abstractmethod
    def _face(self) -> AgentFace:
        """The asynchronous one."""

    @abstractmethod
    def _run(self, work: Any) -> Any:
        """The result of a coroutine."""

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
        """As AgentFace.session."""
        made = self._face.session(id, source=source, cwd=cwd, model=model, parent=parent, ask=ask, budget=budget)
        return Blocking(made, self._run)

    def prompt(self, text: str) -> Blocking[Prompt]:
        """As AgentFace.prompt."""
        return Blocking(self._face.prompt(text), self._run)

    def turn(self) -> Blocking[Turn]:
        """As AgentFace.turn."""
        return Blocking(self._face.turn(), self._run)

    def llm(self, model: str = "", **data: object) -> Blocking[LlmCall]:
        """As AgentFace.llm."""
        return Blocking(self._face.llm(model, **data), self._run)

    def tool(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        call: str = "",
        ask: Ask | None = None,
        budget: float | None = None,
    ) -> Blocking[ToolCall]:
        """As AgentFace.tool."""
        return Blocking(self._face.tool(name, input, call=call, ask=ask, budget=budget), self._run)

    def stop(self, message: str = "") -> str:
        """As AgentFace.stop."""
        return str(self._run(self._face.stop(message)))

    @overload
    def tool_call(self, function: F) -> F: ...
    @overload
    def tool_call(
        self, function: str = "", *, ask: Ask | None = None, budget: float | None = None
    ) -> Callable[[F], F]: ...
    def tool_call(
        self, function: F | str = "", *, ask: Ask | None = None, budget: float | None = None
    ) -> F | Callable[[F], F]:
        """As AgentFace.tool_call, for functions that are not async."""
        if callable(function):
            return _plain_tool(self, function, function.__name__, ask, budget)
        return lambda made: _plain_tool(self, made, function or made.__name__, ask, budget)


def _async_tool(bus: AgentFace, function: F, name: str, ask: Ask | None, budget: float | None) -> F:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is not async: make it a tool with the synchronous face, `bus.sync()`")
    signature = inspect.signature(function)

    @functools.wraps(function)
    async def tool(*args: object, **kwargs: object) -> object:
        bound = signature.bind(*args, **kwargs)
        async with bus.tool(name, _input(bound), ask=ask, budget=budget) as call:
            _take(bound, call)
            call.result = await function(*bound.args, **bound.kwargs)
        return call.result

    return tool  # type: ignore[return-value]  # it has the very signature


def _plain_tool(bus: SyncAgentFace, function: F, name: str, ask: Ask | None, budget: float | None) -> F:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is async: make it a tool with the Bus itself")
    signature = inspect.signature(function)

    @functools.wraps(function)
    def tool(*args: object, **kwargs: object) -> object:
        bound = signature.bind(*args, **kwargs)
        with bus.tool(name, _input(bound), ask=ask, budget=budget) as call:
            _take(bound, call)
            call.result = function(*bound.args, **bound.kwargs)
        return call.result

    return tool  # type: ignore[return-value]  # it has the very signature


def _input(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name, defaults too, without the object that a method belongs to."""
    bound.apply_defaults()
    given: dict[str, Any] = {}
    for number, (name, parameter) in enumerate(bound.signature.parameters.items()):
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            given |= bound.arguments[name]
        elif number or name not in _OWNERS:
            given[name] = bound.arguments[name]
    return given


def _take(bound: inspect.BoundArguments, call: ToolCall) -> None:
    """Put the changed input in place of the arguments; raises Denied where there is none for it."""
    parameters = bound.signature.parameters
    rest = next((name for name, one in parameters.items() if one.kind is inspect.Parameter.VAR_KEYWORD), "")
    for name, value in call.input.items():
        if name in call.given and (call.given[name] is value or plain(call.given[name]) == value):
            continue
        if name in parameters and name != rest:
            several = parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            bound.arguments[name] = tuple(value) if several else value
        elif rest:
            bound.arguments[rest] = {**bound.arguments[rest], name: value}
        else:
            raise Denied(f"a hook changed {name!r} of this call, and {call.name} takes no such argument", call.verdict)
