"""The table of outcomes: what an HTTP answer means for its delivery and for its endpoint.

`docs/webhooks.md` shows the table row for row; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from bus.hooks import Format
from bus.http.webhook_client import Reply
from workers.delivery.formats.service_replies import delay_in_body, reason_in_body, refusal_in_body
from workers.delivery.results import REFUSED, AttemptResult, EndpointSignal, Outcome
from workers.delivery.retries import may_change

MOST_RETRY_AFTER: Final = 86_400.0
"""Seconds: a longer Retry-After of a receiver is cut to one day."""

ABORT: Final = "webhook-delivery"
"""A receiver that sends this response header, with one of the values below, ends the retries of a delivery."""

ABORTS: Final = frozenset({"abort", "abort-message"})


class Row(NamedTuple):
    """One kind of answer."""

    answer: str
    """In the words of the page."""
    fits: Callable[[Reply], bool]
    outcome: Outcome
    consequence: str
    """What happens to the delivery, in the words of the page."""
    endpoint_signal: EndpointSignal
    explanation: str = ""
    """The end of the dead letter's reason."""


def _abort_value(reply: Reply) -> str:
    """The value of the abort header; empty if the receiver does not ask to end the retries."""
    values = (value.strip().lower() for name, value in reply.headers if name.lower() == ABORT)
    return next((value for value in values if value in ABORTS), "")


TABLE: Final = (
    Row(
        "2xx, however long its body (64 KiB of it are read)",
        lambda reply: not reply.error and 200 <= reply.status < 300,
        "delivered",
        "delivered",
        "ok",
    ),
    Row(
        "the address policy refuses the URL, or a secret or variable is missing",
        lambda reply: reply.error == "refused" or not (reply.error or reply.status),
        "dead",
        "dead letter at once",
        "",
    ),
    Row(
        "no whole answer within `timeout`; no name, proxy, connection, TLS or HTTP",
        lambda reply: bool(reply.error),
        "retry",
        "tried again",
        "failed",
    ),
    Row(
        "408, 425, 429, 5xx",
        lambda reply: may_change(reply.status) and not _abort_value(reply),
        "retry",
        "tried again",
        "failed",
    ),
    Row(
        "one of those with `webhook-delivery: abort`",
        lambda reply: may_change(reply.status),
        "dead",
        "dead letter at once",
        "ok",
        ", and wants no more attempts",
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
"""The first row that fits an answer is used."""

ENDPOINT: Final[dict[tuple[Outcome, EndpointSignal], str]] = {
    ("delivered", "ok"): "it is healthy",
    ("retry", "failed"): "a failure: counts for its breaker and for being disabled",
    ("dead", "ok"): "it answers: counts for being disabled, not for its breaker",
    ("dead", "gone"): "it is disabled",
    ("dead", ""): "nothing",
}
"""What an answer means for its endpoint, in the words of the page."""


def find_row(reply: Reply) -> Row:
    """The row of the table for an answer."""
    return next(row for row in TABLE if row.fits(reply))


def judge(reply: Reply, name: Format = "fleethook") -> AttemptResult:
    """The result of a webhook attempt by the table of outcomes.

    `name` is the format that was sent: some services report an error in the body of a 200, or a delay in that of a 429.
    """
    row = find_row(reply)
    if row.outcome == "delivered":
        return refusal_in_body(name, reply) or AttemptResult("delivered", endpoint_signal="ok")
    if reply.error == "refused":
        reason = f"{REFUSED}: {reply.detail}"
        return AttemptResult("dead", reason, endpoint_signal=row.endpoint_signal)
    if reply.error:
        return AttemptResult("retry", f"{reply.error}: {reply.detail}", endpoint_signal="failed")
    detail = reason_in_body(name, reply)
    reason = f"receiver answered {reply.status}" + (f" ({detail})" if detail else "")
    if row.outcome == "dead":
        aborted = _abort_value(reply) if may_change(reply.status) else ""
        reason += row.explanation + (f" ({ABORT}: {aborted})" if aborted else "")
        return AttemptResult("dead", reason, endpoint_signal=row.endpoint_signal)
    delay = max(parse_retry_after(reply.retry_after), min(delay_in_body(name, reply), MOST_RETRY_AFTER))
    return AttemptResult("retry", reason, delay, "failed")


def parse_retry_after(text: str, now: datetime | None = None) -> float:
    """The seconds in a Retry-After header (a number or a date), at most a day; 0 if it holds neither."""
    text = text.strip()
    if text.isascii() and text.isdigit():  # other scripts have digits that float() may refuse
        return min(float(text), MOST_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        left = (when - (now or datetime.now(UTC))).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):  # text that is no date raises any of these
        return 0.0
    return min(max(left, 0.0), MOST_RETRY_AFTER)
