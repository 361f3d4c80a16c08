"""Claims of requests: only one evaluator at a time runs the hooks of a hook call.

Two requests may be for the same call: an agent asks again, or has two hook commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from bus.events import Event
from bus.hooks import Hook
from bus.requests import Request, call_key, claim_call
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import call
from workers.runtime.clock import ServerClock

_SAME_SECONDS: Final = 0.02
"""The pause between two checks for the verdict of the same call."""


class Claim(NamedTuple):
    """The result of a claim."""

    word: str
    """`run`; `again` (its hooks may have started before); `same` (`known` has the verdict of the same call); `wait` (the
    budget is used up); `lost` (the entry is not ours any more)."""
    known: Verdict | None = None
    """The verdict of the same hook call, with this request's id; only for `same`."""


async def claim_request(
    connections: Connections,
    keys: Keys,
    clock: ServerClock,
    request: Request,
    event: Event,
    hooks: Sequence[Hook],
    group: str,
    owner: str,
) -> Claim:
    """Claim a request for `owner`; while another evaluates the same hook call, wait for its verdict until the deadline."""
    effects = [hook.id for hook in hooks if hook.kind != "rule"]
    claim = claim_call(request, keys, group, owner, call_key(event, keys), effects)
    while (reply := await call(connections, *claim))[0] == b"wait" and clock.now() < request.deadline:  # noqa: ASYNC110 - polls Redis
        await asyncio.sleep(_SAME_SECONDS)
    word = reply[0].decode()
    known = msgspec.structs.replace(decode_verdict(reply[1]), event=request.id) if word == "same" else None
    return Claim(word, known)
