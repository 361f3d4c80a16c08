"""Forge's hooks and their registry (F-03 to F-05). A look-up takes as long as its matches, however many hooks there are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, ClassVar, Final, NamedTuple, Self

from bus.agents.forge import NAME
from bus.errors import ConfigError, PatternError
from bus.events import Event
from bus.forge.events import HookEvent
from bus.hooks import DEFAULT_TIMEOUT
from bus.matching.patterns import Index
from bus.tools import canonical_tool

log = logging.getLogger("fleethook.forge")


class _NotGiven(float):
    """A timeout that was not set: it reads as the usual one, and an executor's `default_timeout` replaces it."""


USUAL_TIMEOUT: Final = _NotGiven(DEFAULT_TIMEOUT)


@dataclass
class Hook:
    """A shell command and the events that it is for; `timeout` in seconds, fractions allowed (F-03)."""

    event_pattern: str
    command: str
    timeout: float = USUAL_TIMEOUT
    working_dir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    enabled: bool = True
    description: str = ""
    others: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The other keys of its entry in a hooks.json; they are written again when it is saved."""
    file: str = field(default="", repr=False, compare=False)
    """The hooks.json that it was loaded from, and is saved to."""

    last_pattern_change: ClassVar[object] = None
    """A new object each time that any hook gets another pattern after it was made."""

    def __post_init__(self) -> None:
        """Accepts None as an empty environment, as Forge does."""
        self.env = dict(self.env or {})

    def __setattr__(self, name: str, value: object) -> None:
        """Notes a changed pattern, since registries have the old one in their index."""
        is_changed = name == "event_pattern" and name in self.__dict__
        super().__setattr__(name, value)
        if is_changed:  # after the change: another thread may build its index at any moment
            Hook.last_pattern_change = object()

    @property
    def own_timeout(self) -> float | None:
        """Its timeout in seconds; None if it has none of its own."""
        given = not isinstance(self.timeout, _NotGiven) and self.timeout and self.timeout > 0
        return self.timeout if given else None

    def matches(self, event: HookEvent) -> bool:
        """Whether its pattern fits, even if it is disabled (F-04); an invalid pattern fits nothing."""
        try:
            return bool(_index(self.event_pattern).find(_key(event)))
        except PatternError:
            return False

    def to_dict(self) -> dict[str, Any]:
        """Its entry in a hooks.json, without default values."""
        entry: dict[str, Any] = {"event": self.event_pattern, "command": self.command}
        rest: dict[str, tuple[object, object]] = {
            "timeout": (self.own_timeout, None),
            "working_dir": (self.working_dir, None),
            "env": (self.env, {}),
            "enabled": (self.enabled, True),
            "description": (self.description, ""),
        }
        return entry | self.others | {name: value for name, (value, usual) in rest.items() if value != usual}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The hook of an entry; raises ConfigError if its event or command is missing or has a wrong type."""
        for name in ("event", "command"):
            if not isinstance(data.get(name), str):
                raise ConfigError(f"a hook of Forge needs {name!r}, a text", path=name)
        timeout = USUAL_TIMEOUT if data.get("timeout") is None else data["timeout"]
        if not isinstance(timeout, int | float) or isinstance(timeout, bool):
            raise ConfigError("the timeout of a hook is a number of seconds", path="timeout")
        made = cls(
            event_pattern=data["event"],
            command=data["command"],
            timeout=timeout if timeout is USUAL_TIMEOUT else float(timeout),
            working_dir=data.get("working_dir"),
            env=data.get("env") or {},
            enabled=data.get("enabled") is not False,
            description=data.get("description") or "",
        )
        written = made.to_dict()
        made.others = {name: value for name, value in data.items() if name not in written}
        return made


class _Live(list[Hook]):
    """A list that notes whether it changed since it was last indexed."""

    changed = False


def _noting(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    @wraps(method)
    def note(self: _Live, *args: Any, **more: Any) -> Any:
        self.changed = True
        return method(self, *args, **more)

    return note


for _name in (
    "append",
    "extend",
    "insert",
    "remove",
    "pop",
    "clear",
    "sort",
    "reverse",
    "__setitem__",
    "__delitem__",
    "__iadd__",
    "__imul__",
):
    setattr(_Live, _name, _noting(_name))


class _IndexedHook(NamedTuple):
    """A hook in the index."""

    id: str
    tool: str
    hook: Hook | None


class HookRegistry:
    """Hooks in the order of their registration; safe to use from several threads."""

    _shared: ClassVar[HookRegistry | None] = None
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._hooks = _Live()
        self._index: Index[_IndexedHook] = Index()
        self._indexed_change = Hook.last_pattern_change

    @classmethod
    def get_instance(cls) -> HookRegistry:
        """The registry that a whole program shares."""
        with cls._guard:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    @classmethod
    def reset_instance(cls) -> None:
        """Forget the shared registry: the next caller gets a new one."""
        with cls._guard:
            cls._shared = None

    @property
    def hooks(self) -> list[Hook]:
        """All hooks, in order. It is the list itself: changes of it and of its hooks count at the next event."""
        return self._hooks

    @hooks.setter
    def hooks(self, hooks: Iterable[Hook]) -> None:
        with self._lock:
            self._hooks = _Live(hooks)
            self._hooks.changed = True

    def register(self, hook: Hook) -> None:
        """Add a hook at the end, in constant time. A hook with an invalid pattern is kept, with a warning, and never runs."""
        with self._lock:
            changed = self._hooks.changed
            self._hooks.append(hook)
            self._hooks.changed = changed
            self._add(hook)

    def load_hooks(self, hooks: Iterable[Hook]) -> None:
        """Register several."""
        for hook in hooks:
            self.register(hook)

    def unregister(self, event_pattern: str) -> bool:
        """Remove every hook with exactly this pattern; returns whether there was one."""
        with self._lock:
            left = [hook for hook in self._hooks if hook.event_pattern != event_pattern]
            found = len(left) < len(self._hooks)
            if found:
                self._hooks[:] = left
            return found

    def get_hooks(self, event: HookEvent) -> list[Hook]:
        """The enabled hooks that fit, in the order of their registration."""
        with self._lock:
            change = Hook.last_pattern_change
            if self._hooks.changed or self._indexed_change is not change:
                self._hooks.changed, self._indexed_change, self._index = False, change, Index()
                for hook in self._hooks:
                    self._add(hook)
            found = self._index.find(_key(event))
        return [entry.hook for entry in found if entry.hook is not None and entry.hook.enabled]

    def clear(self) -> None:
        """Remove all hooks."""
        with self._lock:
            self._hooks.clear()

    def __len__(self) -> int:
        """The number of hooks."""
        return len(self._hooks)

    def __iter__(self) -> Iterator[Hook]:
        """All hooks, in order."""
        return iter(list(self._hooks))

    def _add(self, hook: Hook) -> None:
        try:
            self._index.add(_IndexedHook(str(len(self._hooks)), "", hook), [hook.event_pattern])
        except PatternError as error:
            log.warning("a hook is never run: %s", error)


@lru_cache(1024)
def _index(pattern: str) -> Index[_IndexedHook]:
    return Index([(_IndexedHook("", "", None), [pattern])])


def _key(event: HookEvent) -> Event:
    """The texts of an event that a pattern is compared with."""
    tool = event.tool_name or ""
    return Event(
        type=event.type.value,
        source=NAME,
        native=event.type.value,
        native_tool=tool,
        tool=canonical_tool(NAME, tool) if tool else "",
    )
