"""The result of one attempt, the same value for a webhook and for a command."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from bus.errors import FleethookError
from bus.http.timings import Phases

Outcome = Literal["delivered", "retry", "dead"]
"""`retry`: another attempt may succeed; `dead`: no other attempt would, so the delivery becomes a dead letter."""

EndpointSignal = Literal["", "ok", "failed", "gone"]
"""What an attempt shows about its endpoint. `ok`: it answered, even if it refused this delivery; empty: nothing."""


class AttemptDetails(NamedTuple):
    """The details of an attempt for its log, redacted; `deliveries.Attempt` describes each field."""

    status: int = 0
    output: str = ""
    head: str = ""
    phases: Phases | None = None
    sent: str = ""


NO_EVIDENCE: Final = AttemptDetails()


class AttemptResult(NamedTuple):
    """The result of one attempt."""

    outcome: Outcome
    reason: str = ""
    """Why the attempt failed; empty if it succeeded."""
    retry_after: float = 0.0
    """Seconds that the receiver asks us to wait before the next attempt; 0 if it asks for nothing."""
    endpoint_signal: EndpointSignal = ""
    """Always empty for a command."""
    schedule: tuple[float, ...] = ()
    """Seconds before each further attempt of this delivery."""
    evidence: AttemptDetails = NO_EVIDENCE


class Undeliverable(FleethookError):
    """No attempt can be made, now or later: the delivery becomes a dead letter at once."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


FAILURES: Final = frozenset({"timeout", "connect", "dns", "tls", "proxy", "protocol"})
"""The kinds of failure with which the reason of an attempt without an answer begins."""

REFUSED: Final = "the address policy refuses the target"


def attempt_label(result: AttemptResult) -> str:
    """How an attempt of a webhook ended, for metrics: a kind of failure, `blocked`, `2xx` to `5xx`, or `other`."""
    kind = result.reason.partition(":")[0]
    if kind in FAILURES:
        return kind
    if kind == REFUSED:
        return "blocked"
    return f"{result.evidence.status // 100}xx" if result.evidence.status else "other"
