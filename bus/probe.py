"""A probe: a request that no hook sees and nothing records, whose answer names the evaluator that gave it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from bus.events import Event
from bus.ids import event_id, reply_token
from bus.requests import Request
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict, encode_event, encode_verdict
from bus.wire.connections import Command, Connections
from bus.wire.keys import KEPT_MS, Keys
from bus.wire.streams import ScriptCall, checked

PROBE: Final = "fleethook:probe"
"""The type of its event; no hook runs for it, whatever its patterns say."""

_WAIT_SECONDS: Final = 2.0


def probe_call(request: Request, keys: Keys, group: str, evaluator: str) -> ScriptCall:
    """The one script call by which `evaluator` answers a probe."""
    answer = encode_verdict(Verdict(event=request.id, notes=(evaluator,)))
    return ScriptCall(
        "probe",
        (request.entry.stream, request.reply or keys("reply", "nobody")),
        (group, request.entry.id, answer, KEPT_MS, "1" if request.reply else "0"),
    )


async def answering_evaluator(connections: Connections, keys: Keys) -> str:
    """The consumer name of an evaluator that answers a request now; empty if none answers in 2 s. Raises Unreachable."""
    name, reply = event_id(), keys("reply", reply_token())
    body = encode_event(Event(type=PROBE, id=name))
    add: Command = (
        "XADD",
        keys("requests"),
        "*",
        "id",
        name,
        "reply",
        reply,
        "budget",
        int(_WAIT_SECONDS * 1000),
        "source",
        "generic",
        "event",
        PROBE,
        "body",
        body,
    )
    wait: Command = ("BLMOVE", reply, reply, "LEFT", "LEFT", f"{_WAIT_SECONDS:.3f}")
    with connections.lease() as connection:
        added, answer = await connection.exchange([add, wait], seconds=_WAIT_SECONDS + 1.0)
    checked(added, "sending a probe")
    raw = checked(answer, "waiting for the answer to a probe")
    return "" if raw is None else next(iter(decode_verdict(bytes(raw)).notes), "")


def is_process(evaluator: str, host: str, pids: Collection[int]) -> bool:
    """Whether a consumer name (`ids.consumer_name`) belongs to one of these processes on this host."""
    head, _, _ = evaluator.rpartition("-")
    owner, _, pid = head.rpartition("-")
    return owner.endswith(f"-{host}") and pid.isdigit() and int(pid) in pids
