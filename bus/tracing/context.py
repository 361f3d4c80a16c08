"""W3C trace context: which `traceparent` and `tracestate` are valid, and how they are passed on.

Source: W3C Trace Context, "traceparent Header", "tracestate Header", "Mutating the traceparent Field". A value that breaks
its rules is dropped, as they say, and never fails a call. Spans are made by `spans` beside it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

import msgspec

from bus.events import Event

MOST_STATE: Final = 512
"""The most characters of a `tracestate` that are passed on; the rules ask for at least so many."""
_MOST_MEMBERS: Final = 32
_LONG_MEMBER: Final = 128
"""Members of a `tracestate` that is too long are left out if they are longer than this, then from its end."""

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_MEMBER: Final = re.compile(
    r"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_KNOWN_FLAGS: Final = 0x03
"""Sampled, and random trace id: the flags that version 00 defines."""


class TraceContext(NamedTuple):
    """One place in a trace: a valid `traceparent` with its `tracestate`, or two empty texts."""

    traceparent: str = ""
    tracestate: str = ""

    @property
    def trace_id(self) -> str:
        """The trace's id, 32 hex digits; empty without a context."""
        return self.traceparent[3:35]

    @property
    def span_id(self) -> str:
        """The id of the span that caused what happens now, 16 hex digits; empty without a context."""
        return self.traceparent[36:52]

    @property
    def flags(self) -> int:
        """The trace flags; the bit 1 says that the caller may have recorded the trace."""
        return int(self.traceparent[53:55] or "0", 16)

    def pairs(self) -> tuple[str, ...]:
        """Names and values in turn, for fields of stream entries; none without a context."""
        if not self.traceparent:
            return ()
        state = ("tracestate", self.tracestate) if self.tracestate else ()
        return ("traceparent", self.traceparent, *state)

    def headers(self) -> dict[str, str]:
        """The context as HTTP headers; none without a context."""
        names = iter(self.pairs())
        return dict(zip(names, names, strict=True))

    def variables(self) -> dict[str, str]:
        """The context as the environment of a process; none without a context."""
        return {name.upper(): value for name, value in self.headers().items()}


NO_CONTEXT: Final = TraceContext()


def read_context(traceparent: str, tracestate: str = "") -> TraceContext:
    """The context in two texts; NO_CONTEXT for a `traceparent` that breaks the rules. Never raises.

    A bad `tracestate` is dropped alone. A later version than 00 is read as far as 00 goes, and becomes 00.
    """
    found = _PARENT.fullmatch(traceparent) if len(traceparent) >= 55 else None
    if found is None:
        return NO_CONTEXT
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not trace.strip("0") or not span.strip("0"):
        return NO_CONTEXT
    if version != "00":
        traceparent = written(trace, span, int(flags, 16) & _KNOWN_FLAGS)
    return TraceContext(traceparent, _state(tracestate) if tracestate else "")


def written(trace_id: str, span_id: str, flags: int) -> str:
    """A `traceparent` of version 00."""
    return f"00-{trace_id}-{span_id}-{flags:02x}"


def derived_trace_id(event: str) -> str:
    """The trace id of an event that came without a context, 32 hex digits.

    It depends on the event's id alone, so an evaluator that takes over, and every carrier, find the same trace.
    """
    return hashlib.sha256(b"fleethook trace " + event.encode("utf-8", "replace")).hexdigest()[:32]


def trace_of(event: Event) -> TraceContext:
    """The context of an event, as it is written there."""
    return TraceContext(event.traceparent, event.tracestate)


def at_trace(event: Event, context: TraceContext) -> Event:
    """The same event at another place of a trace; the event itself if `context` is empty."""
    if not context.traceparent:
        return event
    return msgspec.structs.replace(event, traceparent=context.traceparent, tracestate=context.tracestate)


def _state(text: str) -> str:
    """A valid `tracestate` of at most MOST_STATE characters; empty for one that breaks the rules."""
    members = [member.strip(" \t") for member in text.split(",", 4 * _MOST_MEMBERS)]
    members = [member for member in members if member]
    keys = {member.partition("=")[0] for member in members}
    if len(members) > _MOST_MEMBERS or len(keys) < len(members) or not all(map(_MEMBER.fullmatch, members)):
        return ""
    if len(",".join(members)) > MOST_STATE:
        members = [member for member in members if len(member) <= _LONG_MEMBER]
    while members and len(",".join(members)) > MOST_STATE:
        members.pop()
    return ",".join(members)
