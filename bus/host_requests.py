"""The part of a request that only the event's own host can answer, because it has its user's and projects' files (X-02).

An evaluator on another host adds that part, with the remaining budget, to the host's own stream; `fleethook worker host`
answers with a verdict. Its hooks run once: an evaluator that claims a request from a dead one waits for the run that the
dead one began, and a part whose host worker died is not run again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bus.errors import DecodeError
from bus.events import Event
from bus.ids import reply_token
from bus.verdicts import Policy, Verdict
from bus.wire.codec import decode_body, decode_verdict, encode_event, encode_verdict, pack, unpack
from bus.wire.connections import Command, Connections
from bus.wire.keys import KEPT_MS, Keys, note_key
from bus.wire.streams import ScriptCall, StreamEntry, checked

GROUP: Final = "hosts"
_KNOWN_SECONDS: Final = 0.5
_MARGIN_SECONDS: Final = 0.02
"""The evaluator keeps this time to write the whole verdict."""

_SLICE_SECONDS: Final = 1.0
"""The length of one wait for a host; then it is asked whether its worker is still there, or whether slow hooks still run."""

_MOST_HOSTS: Final = 10_000


class HostPart(NamedTuple):
    """The part of a request that its host evaluates."""

    entry: StreamEntry
    reply: str
    deadline: int
    """Milliseconds by the server's clock."""
    latest: int
    """The deadline if hooks declare more time than the budget; while they run, a note beside `reply` says so."""
    event: Event
    changes: Mapping[str, Any]
    """Changes that hooks of the fleet have made to the input."""
    policy: Policy
    rules_only: bool = False
    """Only the rules are asked: the other hooks have run before a person answered."""


def role(host: str) -> str:
    """The role of a host's worker: the name of its heartbeat."""
    return f"host-{host}"


class HostState(NamedTuple):
    """The facts that the server has about one host."""

    alive: bool
    """Whether `fleethook worker host` runs there."""
    records: tuple[bytes, ...]
    """One record for each user of the host: the blocking hooks that only this host has (`hooksets/host_hooks.py`)."""
    background: tuple[bytes, ...] = ()
    """The same for the hooks that run in the background."""


class Hosts:
    """Which hosts have a worker of their own, or hooks; read at most every half second for each host."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._known: dict[str, tuple[float, HostState]] = {}

    async def alive(self, host: str) -> bool:
        """Whether `fleethook worker host` runs there; raises Unreachable."""
        return (await self.state(host)).alive

    async def state(self, host: str) -> HostState:
        """The facts about a host; raises Unreachable."""
        now = time.monotonic()
        known = self._known.get(host)
        if known is None or now - known[0] >= _KNOWN_SECONDS:
            if len(self._known) >= _MOST_HOSTS:  # agents choose these names, and must not fill our memory
                self._known.clear()
            with self._connections.lease() as connection:
                alive, *records = await connection.exchange(
                    [
                        ("EXISTS", self._keys("alive", role(host))),
                        ("HVALS", self._keys("host", host)),
                        ("HVALS", self._keys("background", host)),
                    ]
                )
            alive_there = checked(alive, f"looking for host {host}") == 1
            # An error: an ACL that is older than these keys (docs/upgrade.md: workers come before the ACL).
            state = HostState(alive_there, *[() if isinstance(rows, Exception) else tuple(rows) for rows in records])
            known = self._known[host] = (now, state)
        return known[1]

    async def ask(
        self, event: Event, changes: Mapping[str, Any], policy: Policy, deadline: int, latest: int, seconds: float
    ) -> Verdict | None:
        """The verdict of the host, within `seconds`; None if it does not answer, or its worker ends. Raises Unreachable.

        While a note says that slow hooks run there, it waits until `latest`, by the server's clock like `deadline`.
        """
        reply, wait = self._keys("reply", reply_token()), seconds - _MARGIN_SECONDS
        if wait <= 0:
            return None
        add = self._add(event, changes, policy, reply, "deadline", deadline, "latest", latest)
        end, alive, raw, before = time.monotonic() + wait, True, None, [add]
        # BLPOP and not BLMOVE, which a server at its memory limit refuses.
        while alive and raw is None and (left := end - time.monotonic()) > 0:
            look: Command = ("EXISTS", self._keys("alive", role(event.host)))
            wait = min(_SLICE_SECONDS, left)
            with self._connections.lease() as connection:
                *added, there, row = await connection.exchange(
                    [*before, look, ("BLPOP", reply, f"{wait:.3f}")], seconds=wait + 1.0
                )
            for answer in added:
                checked(answer, f"asking host {event.host}")
            alive, before = checked(there, f"looking for host {event.host}") == 1, []
            raw = checked(row, f"waiting for host {event.host}")
        until = time.monotonic() + max(0, latest - deadline) / 1000
        while raw is None and (left := until - time.monotonic()) > 0:
            wait = min(_SLICE_SECONDS, left)
            with self._connections.lease() as connection:
                runs = checked(
                    (await connection.exchange([("EXISTS", note_key(reply))]))[0],
                    f"asking whether slow hooks still run on host {event.host}",
                )
                (row,) = await connection.exchange(
                    [("BLPOP", reply, f"{wait:.3f}" if runs else "0.001")], seconds=wait + 1.0
                )
            raw = checked(row, f"waiting for host {event.host}")
            if not runs:
                break
        return None if raw is None else decode_verdict(bytes(raw[1]))

    async def ask_rules(
        self, event: Event, changes: Mapping[str, Any], policy: Policy, seconds: float
    ) -> Verdict | None:
        """The verdict of the host's rules alone, within `seconds`; None if it does not answer. Raises Unreachable."""
        reply = self._keys("reply", reply_token())
        add = self._add(event, changes, policy, reply, "deadline", 0, "rules", 1)
        with self._connections.lease() as connection:
            replies = await connection.exchange([add, ("BLPOP", reply, f"{seconds:.3f}")], seconds=seconds + 1.0)
        checked(replies[0], f"asking host {event.host}")
        raw = checked(replies[1], f"waiting for host {event.host}")
        return None if raw is None else decode_verdict(bytes(raw[1]))

    def _add(self, event: Event, changes: Mapping[str, Any], policy: Policy, reply: str, *more: str | int) -> Command:
        about = ("reply", reply, "policy", policy, "event", encode_event(event), "changes", pack(dict(changes)))
        return ScriptCall("ask", (self._keys("requests", event.host),), (GROUP, *about, *more)).whole_command()


def read_part(entry: StreamEntry, keys: Keys) -> HostPart:
    """The part of a request in an entry; raises DecodeError if there is none."""
    fields = entry.fields
    try:
        event = decode_body(fields[b"event"])
        changes, reply = unpack(fields[b"changes"]), fields[b"reply"].decode()
        deadline, policy = int(fields[b"deadline"]), fields[b"policy"].decode()
        latest = max(deadline, int(fields.get(b"latest", b"0")))
    except (KeyError, ValueError) as error:
        raise DecodeError(f"a host's part of a request has a missing or bad field ({error})") from error
    if not isinstance(event, Event) or not isinstance(changes, dict) or not reply.startswith(keys("reply", "")):
        raise DecodeError("a host's part of a request has fields that no evaluator writes")
    policy = policy if policy in {"deny", "ask"} else "allow"
    return HostPart(entry, reply, deadline, latest, event, changes, policy, b"rules" in fields)  # type: ignore[arg-type]  # the set says it


def joined_key(ask: HostPart, keys: Keys) -> str:
    """The list of further reply keys that wait for the same run."""
    return keys("join", ask.event.id, "host")


def begin_call(ask: HostPart, keys: Keys, consumer: str) -> ScriptCall:
    """The script call that claims the run of a part's hooks, or returns who runs them, or their verdict."""
    kept = KEPT_MS + max(0, ask.latest - ask.entry.ms)
    return ScriptCall(
        "begin",
        (ask.entry.stream, keys("part", ask.event.id), joined_key(ask, keys)),
        (GROUP, ask.entry.id, consumer, kept, ask.reply, keys("beat", "")),
    )


def answer_commands(ask: HostPart, verdict: Verdict, keys: Keys) -> list[Command]:
    """The commands that send the verdict to every caller that asked for this part, and remove the entry."""
    # The run that `part:<id>` is about is that of all hooks; nobody joins a question for the rules alone.
    run = f"{ask.event.id}:rules" if ask.rules_only else ask.event.id
    return [
        ScriptCall(
            "reply",
            (ask.entry.stream, ask.reply, keys("part", run), keys("join", run, "host")),
            (GROUP, ask.entry.id, encode_verdict(verdict), KEPT_MS),
        ).whole_command()
    ]


def remove_commands(entry: StreamEntry) -> list[Command]:
    """The commands that acknowledge and remove an entry of a host's stream."""
    return [("XACK", entry.stream, GROUP, entry.id), ("XDEL", entry.stream, entry.id)]
