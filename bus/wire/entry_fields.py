"""The fields of stream entries in words, for programs in other languages (docs/wire.md and `/asyncapi.json`)."""

from __future__ import annotations

from typing import Final

PUBLISHED: Final[dict[str, str]] = {
    "id": "The event's id: at most 64 letters, digits, `_` and `-`, unique in the fleet. Required.",
    "source": "The agent or program, in lower case.",
    "event": "The agent's own name of the event; for a canonical event its type.",
    "host": "The machine that it happened on.",
    "body": "The event, as below. Required.",
    "parent": "The id of the event whose hook caused this one, from FLEETHOOK_PARENT.",
    "traceparent": "The W3C trace context, from TRACEPARENT or the header of that name; a bad one is ignored.",
    "tracestate": "The other part of the trace context.",
    "folder": "The event's directory with its links resolved, as its own machine sees it.",
    "repository": "The nearest folder from there upward that has a `.git`.",
    "policy": "The failure policy of the sender: `allow`, `deny` or `ask`.",
    "fallback": "Why the sender's own failure policy answered; empty if it did not.",
    "by": "What reports the event, with its version: `hook-command/0.1.0`.",
    "user": "The account that the sender runs as, or the name of its token at a gateway; for limits per user.",
    "version": "The agent's version, where it says one.",
    "spooled": "`1`: this entry may have been sent before, and its id counts once.",
}
"""The fields of an entry that a program adds to the stream of events; a request has them too."""

ASKED: Final[dict[str, str]] = {
    "reply": "The full name of the list for the answer: `reply:` and 32 random hexadecimal digits. Required.",
    "budget": "Milliseconds until the answer is needed, counted from when the entry is added. Required.",
    "patience": "Milliseconds that the sender waits in all where a slow hook declares more than the budget.",
    "flag": "Of a sender that keeps stops for an outage: `kept` if it keeps one now, else `none`.",
    "user": "The account that the sender runs as, for limits per user.",
}
"""The further fields of a request."""

RECORDED: Final[dict[str, str]] = {
    "verdict": "The verdict, as in a reply.",
    "same": "`1`: the same hook call was answered before, so this event is not delivered again.",
    "of": "In a report of a fallback: the id of the request.",
    "decided": "When its verdict was ready and the evaluator began to reply, in milliseconds since 1970 by the server's clock.",
    "asked": "When its request was added, in milliseconds since 1970 by the server's clock.",
    "dispatched": "`1`: the event was delivered before its verdict came.",
}
"""The further fields that workers write to the stream of events."""
