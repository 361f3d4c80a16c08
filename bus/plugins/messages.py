"""The messages between a worker and the process of its plugins: msgpack, each with its length in four bytes before it.

The worker sends Load first, and then calls; the process answers Load with Loaded, and each call with an Answer, in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from bus.errors import DecodeError
from bus.events import Event
from bus.hooks import Plugin
from bus.lazy.conversions import msgpack_decoder
from bus.wire.codec import MAX_BODY

MOST_BYTES: Final = MAX_BODY + 1024 * 1024
"""The most bytes of one message; a longer one ends the process that sent it."""

_HEAD: Final = struct.Struct(">I")


class VerdictSummary(msgspec.Struct, frozen=True, array_like=True):
    """What a handler at 50 or above sees of a verdict."""

    decision: str = "abstain"
    reason: str = ""
    context: str = ""
    updated_input: dict[str, Any] | None = None


class Load(msgspec.Struct, frozen=True, tag=1, array_like=True):
    """Load these plugins, in this order."""

    plugins: tuple[Plugin, ...]
    folder: str = ""
    """Where plugins keep what their processes on this machine share; empty: in memory."""


class Call(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """Call a handler of a plugin. With an empty `method`, call every handler that has no hook of its own."""

    id: int
    plugin: str
    method: str
    event_name: str
    event: msgspec.Raw
    """The event, packed once for all handlers."""
    observes: bool = False
    seen: VerdictSummary | None = None
    known: tuple[str, ...] = ()
    """With an empty `method`: the methods that have hooks of their own, which are not called."""


class Invoke(msgspec.Struct, frozen=True, tag=3, array_like=True):
    """Call an action or a condition that a plugin registered."""

    id: int
    plugin: str
    kind: Literal["action", "condition"]
    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    context: dict[str, Any] | None = None


class Cancel(msgspec.Struct, frozen=True, tag=4, array_like=True):
    """Nobody waits for this call any more; the process answers once it is responsive."""

    id: int


class Finish(msgspec.Struct, frozen=True, tag=5, array_like=True):
    """Finish the calls, call `on_unload`, and end."""


class LoadedPlugin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plugin after loading; `problem` says why it is not loaded."""

    name: str
    version: str = ""
    description: str = ""
    handlers: tuple[tuple[str, str, int], ...] = ()
    """Method, event and priority of each handler, in order."""
    actions: tuple[str, ...] = ()
    schemas: tuple[tuple[str, str], ...] = ()
    """The actions whose arguments are checked, each with its JSON Schema as text; empty where that is long or no JSON."""
    conditions: tuple[str, ...] = ()
    problem: str = ""


class Loaded(msgspec.Struct, frozen=True, tag=6, array_like=True):
    """What Load did."""

    plugins: tuple[LoadedPlugin, ...]


class Answer(msgspec.Struct, frozen=True, tag=7, array_like=True):
    """The answer to a Call, an Invoke or a Cancel; a `failure` says why there is none."""

    id: int
    decision: Literal["abstain", "deny", "ask"] = "abstain"
    reason: str = ""
    context: str = ""
    message: str = ""
    updated_input: dict[str, Any] | None = None
    failure: str = ""
    value: Any = None
    """The result of an action or condition."""
    variables: dict[str, Any] | None = None
    """A workflow's variables as an action left them, if it changed any."""


TO_PROCESS: Final = msgpack_decoder(Load | Call | Invoke | Cancel | Finish)
TO_WORKER: Final = msgpack_decoder(Loaded | Answer)
EVENTS: Final = msgpack_decoder(Event)
_ENCODE: Final = msgspec.msgpack.Encoder().encode


def framed(message: msgspec.Struct) -> bytes:
    """A message with its length; raises TypeError, UnicodeEncodeError or OverflowError for values that it cannot hold."""
    data = _ENCODE(message)
    return _HEAD.pack(len(data)) + data


class Frames:
    """Cuts the bytes that arrive into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are complete now; raises DecodeError for one that is too long."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            (size,) = _HEAD.unpack_from(buffer)
            if size > MOST_BYTES:
                raise DecodeError(f"a message of {size} bytes; at most {MOST_BYTES} are accepted")
            if len(buffer) < 4 + size:
                return
            message = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            yield message
