"""What an attempt's outcome says of its receiver: whether it answers, fails, is gone, or wants no more of this delivery."""

from __future__ import annotations

from typing import Final, Literal

from bus.posting import Reply
from workers.retries import AttemptFailed, GivenUp

Says = Literal["", "ok", "failed", "gone"]
"""`ok`: it answers (also where it refuses this one delivery); empty: nothing was asked of it."""

ABORT: Final = "webhook-delivery"
"""The response header by which a receiver ends the retries of a delivery, with one of these values."""

ABORTS: Final = frozenset({"abort", "abort-message"})


def says(reply: Reply, error: AttemptFailed | GivenUp | None) -> Says:
    """What an attempt says of the receiver, for its breaker and for its being disabled."""
    if error is None:
        return "ok"
    if isinstance(error, AttemptFailed):
        return "failed"
    if reply.error or not reply.status:  # our own address policy: the receiver was not asked
        return ""
    return "gone" if reply.status == 410 else "ok"


def ended(reply: Reply, failed: AttemptFailed) -> AttemptFailed | GivenUp:
    """A failure that may be tried again, made final where the receiver's answer ends the retries."""
    for name, value in reply.headers:
        if name.lower() == ABORT and value.strip().lower() in ABORTS:
            return GivenUp(f"{failed.reason}, and wants no more attempts ({ABORT}: {value.strip().lower()})")
    return failed
