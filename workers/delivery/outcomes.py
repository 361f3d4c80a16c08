"""The table of outcomes: what an answer means for its delivery, and what it says of the receiver.

The README shows it row for row, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from bus.http.client import Reply
from workers.delivery.retries import AttemptFailed, GivenUp

Says = Literal["", "ok", "failed", "gone"]
"""`ok`: it answers (also where it refuses this one delivery); empty: nothing was asked of it."""

Means = Literal["delivered", "retry", "dead"]

LATER: Final = frozenset({408, 425, 429})
"""4xx that say "later" and not "no"; every 5xx is retried too."""

ABORT: Final = "webhook-delivery"
"""The response header by which a receiver ends the retries of a delivery, with one of these values."""

ABORTS: Final = frozenset({"abort", "abort-message"})


class Row(NamedTuple):
    """One kind of answer."""

    answer: str
    """In the README's words."""
    fits: Callable[[Reply], bool]
    means: Means
    then: str
    """What comes of the delivery, in the README's words."""
    says: Says
    why: str = ""
    """What the reason of a dead letter ends with."""


def may_change(status: int) -> bool:
    """Whether a status is worth another attempt."""
    return status >= 500 or status in LATER


def _aborted(reply: Reply) -> str:
    """The header's value where the receiver wants no more attempts of this delivery."""
    values = (value.strip().lower() for name, value in reply.headers if name.lower() == ABORT)
    return next((value for value in values if value in ABORTS), "")


TABLE: Final = (
    Row(
        "2xx, however long its body: 64 KiB of it are read",
        lambda reply: not reply.error and 200 <= reply.status < 300,
        "delivered",
        "delivered",
        "ok",
    ),
    Row(
        "nothing: the address policy refuses it, or a secret or variable is missing",
        lambda reply: reply.error == "refused" or not (reply.error or reply.status),
        "dead",
        "dead letter at once",
        "",
    ),
    Row(
        "no whole answer within `timeout`, however late one comes; no name, proxy, connection, TLS or HTTP",
        lambda reply: bool(reply.error),
        "retry",
        "tried again",
        "failed",
    ),
    Row(
        "408, 425, 429 or 5xx with `webhook-delivery: abort`",
        lambda reply: may_change(reply.status) and bool(_aborted(reply)),
        "dead",
        "dead letter at once",
        "ok",
        ", and wants no more attempts",
    ),
    Row(
        "408, 425, 429, 5xx",
        lambda reply: may_change(reply.status),
        "retry",
        "tried again, and never before `Retry-After` says (seconds or a date, up to 24 h)",
        "failed",
    ),
    Row(
        "410",
        lambda reply: reply.status == 410,
        "dead",
        "dead letter at once",
        "gone",
        ": the receiver is gone and wants no more",
    ),
    Row(
        "3xx: no redirect is followed",
        lambda reply: 300 <= reply.status < 400,
        "dead",
        "dead letter at once",
        "ok",
        ": redirects are never followed",
    ),
    Row(
        "any other status",
        lambda _: True,
        "dead",
        "dead letter at once",
        "ok",
        ": trying again would not change it",
    ),
)
"""The first row that fits counts."""

ENDPOINT: Final[dict[tuple[Means, Says], str]] = {
    ("delivered", "ok"): "it is well",
    ("retry", "failed"): "it fails: counts for its breaker, and for being disabled",
    ("dead", "ok"): "it answers: counts for being disabled, and not for its breaker",
    ("dead", "gone"): "it is disabled",
    ("dead", ""): "nothing",
}
"""What an answer says of its endpoint, in the README's words."""


def row_of(reply: Reply) -> Row:
    """The row of the table that an answer belongs to."""
    return next(row for row in TABLE if row.fits(reply))


def reason_of(row: Row, reply: Reply, text: str) -> str:
    """Why a delivery is given up, beginning with `text`."""
    aborted = _aborted(reply) if row.means == "dead" and may_change(reply.status) else ""
    return f"{text}{row.why}" + (f" ({ABORT}: {aborted})" if aborted else "")


def says(reply: Reply, error: AttemptFailed | GivenUp | None) -> Says:
    """What an attempt says of the receiver, for its breaker and for its being disabled."""
    if error is None:
        return "ok"
    # A chat may say in the body of a 200 that it failed.
    return "failed" if isinstance(error, AttemptFailed) else row_of(reply).says
