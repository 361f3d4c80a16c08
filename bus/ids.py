"""Makes the names of events, reply keys, consumers and hosts. They are unique and cannot be guessed."""

from __future__ import annotations

import os
import re
import socket
import time
from functools import lru_cache
from typing import Final

SLOW_CHARACTERS: Final = 6
"""Event ids of three days begin with the same six characters; lists leave these out."""

_EVENT_ID: Final = re.compile(r"e[0-9a-f]{32}(\..*)?", re.DOTALL)


def event_id(now_ms: int | None = None) -> str:
    """A new event id: `e`, 12 hex digits of milliseconds, 80 random bits; sorts by time, has no colon and no dot.

    The shim makes its own in the same form (it imports nothing of bus).
    """
    return f"e{int(time.time() * 1000) if now_ms is None else now_ms:012x}{os.urandom(10).hex()}"


def short_form(name: str) -> str:
    """The id of an event or delivery without its first six characters; any other id as it is."""
    return name[SLOW_CHARACTERS:] if _EVENT_ID.fullmatch(name) else name


def begins(name: str, beginning: str) -> bool:
    """Whether an id, or its short form, begins so."""
    return name.startswith(beginning) or short_form(name).startswith(beginning)


def reply_token() -> str:
    """128 random bits in hex. A process that knows them may read one verdict."""
    return os.urandom(16).hex()


def delivery_id(event: str, hook: str) -> str:
    """The id of the one delivery that `event` causes for `hook` (or endpoint); a repeat gets the same id."""
    return f"{event}.{hook}"


def webhook_id(delivery: str) -> str:
    """The `webhook-id` of a delivery: the same over retries and redrives, without a dot (Standard Webhooks)."""
    return delivery.replace(".", "_")


def host_name() -> str:
    """This machine's name as events carry it; `FLEETHOOK_HOST` overrides it (containers have random names)."""
    return os.environ.get("FLEETHOOK_HOST") or _machine_name()


@lru_cache(maxsize=1)
def _machine_name() -> str:
    """Asked once: a process keeps the name that it began with, as its workers' heartbeats do."""
    return socket.gethostname()


def connection_name(worker: str) -> str:
    """The name of a worker's connections at the server, where a blank or a line's end is not allowed."""
    return "".join(letter if "!" <= letter <= "~" else "-" for letter in worker)


def consumer_name(role: str) -> str:
    """A consumer name of this process: `<role>-<host>-<pid>-<random>`; the random part makes a restart a new one."""
    return f"{role}-{host_name()}-{os.getpid()}-{os.urandom(3).hex()}"
