"""What the answers of chats and on-call services mean (G-09, G-22)."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.hooks import Format
from bus.http.webhook_client import Reply
from tests.support.rows import rows
from workers.delivery.outcome_table import MOST_RETRY_AFTER, judge
from workers.delivery.results import Outcome

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
FAILED: Final = b"Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error "
"""As public reports quote it since 2019."""
INVALID: Final = b"""{"status":"invalid event","message":"Event object is invalid",
"errors":["Length of 'routing_key' is incorrect (should be 32 characters)"]}"""


@pytest.mark.req("G-09", "G-22")
@rows(
    ("name", "status", "body", "outcome", "reason"),
    [
        ("teams", 200, b"1", "delivered", ""),
        ("teams", 202, b"", "delivered", ""),
        ("teams", 200, FAILED + b"429 with ContextId tcid=0,server=x", "retry", "429"),
        ("teams", 200, FAILED + b"500 with ContextId tcid=0", "retry", "500"),
        ("teams", 200, FAILED + b"413 with ContextId tcid=0", "dead", "413"),
        ("teams", 200, FAILED + b"403 with ContextId tcid=0", "dead", "403"),
        (
            "teams",
            200,
            b"Webhook message delivery failed with error: Error contacting Microsoft Teams endpoint",
            "retry",
            "failed",
        ),
        (
            "teams",
            400,
            b'{"error": {"code": "WorkflowTriggerIsNotEnabled", "message": "x"}}',
            "dead",
            "400 (WorkflowTriggerIsNotEnabled)",
        ),
        ("teams", 429, b"", "retry", "429"),
        ("teams", 502, b"", "retry", "502"),
        ("slack", 200, b"ok", "delivered", ""),
        ("slack", 200, b'{"ok":true}', "delivered", ""),
        ("slack", 200, b"", "delivered", ""),
        ("slack", 200, b'{"ok":false,"error":"ratelimited"}', "retry", "ratelimited"),
        ("slack", 200, b'{"ok":false,"error":"invalid_blocks"}', "dead", "invalid_blocks"),
        ("slack", 400, b"invalid_payload", "dead", "400 (invalid_payload)"),
        ("slack", 403, b"action_prohibited", "dead", "403 (action_prohibited)"),
        ("slack", 404, b"channel_not_found", "dead", "404 (channel_not_found)"),
        ("slack", 410, b"channel_is_archived", "dead", "410 (channel_is_archived): the receiver is gone"),
        ("slack", 500, b"rollup_error", "retry", "500 (rollup_error)"),
        ("slack", 404, b"<html>no such page", "dead", "404: trying"),
        ("discord", 200, b'{"id": "1"}', "delivered", ""),
        ("discord", 204, b"", "delivered", ""),
        ("discord", 404, b'{"message": "Unknown Webhook", "code": 10015}', "dead", "404 (Unknown Webhook)"),
        ("discord", 400, b'{"embeds": ["0"]}', "dead", "400: trying"),
        ("pagerduty", 202, b'{"status":"success"}', "delivered", ""),
        ("pagerduty", 400, INVALID, "dead", "'routing_key' is incorrect"),
        ("pagerduty", 400, b'{"message":"Event object is invalid","errors":[]}', "dead", "Event object is invalid"),
        ("pagerduty", 500, b"", "retry", "500"),
        ("fleethook", 200, FAILED + b"429", "delivered", ""),
        ("fleethook", 200, b'{"ok":false}', "delivered", ""),
        ("cloudevents", 204, b"", "delivered", ""),
        ("cloudevents", 415, b"", "dead", "415"),
    ],
)
def test_what_an_answer_of_a_service_means(
    name: Format, status: int, body: bytes, outcome: Outcome, reason: str
) -> None:
    result = judge(Reply(status=status, body=body), name)
    assert result.outcome == outcome
    assert reason in result.reason


@pytest.mark.req("G-09", "G-22")
@rows(
    ("name", "header", "body", "seconds"),
    [
        ("discord", "", {"message": "You are being rate limited.", "retry_after": 0.653, "global": False}, 0.653),
        ("discord", "1", {"retry_after": 0.653}, 1.0),
        ("discord", "1", {"retry_after": 64.57}, 64.57),
        ("discord", "2", {"retry_after": -1}, 2.0),
        ("discord", "", {"retry_after": "soon"}, 0.0),
        ("discord", "", {"retry_after": True}, 0.0),
        ("discord", "", {"retry_after": 1e6}, MOST_RETRY_AFTER),
        ("discord", "", {"retry_after": 10**400}, 0.0),
        ("discord", "", {"retry_after": float("nan")}, 0.0),
        ("discord", "3", [], 3.0),
        ("slack", "30", {}, 30.0),
        ("slack", "", {"retry_after": 9}, 0.0),
        ("pagerduty", "", {}, 60.0),
        ("pagerduty", "120", {}, 120.0),
        ("teams", "15", {}, 15.0),
        ("fleethook", "", {}, 0.0),
    ],
)
def test_a_refusal_says_how_long_to_wait(name: Format, header: str, body: Any, seconds: float) -> None:
    result = judge(Reply(status=429, retry_after=header, body=json.dumps(body).encode()), name)
    assert (result.outcome, result.retry_after) == ("retry", seconds)


@pytest.mark.req("G-09")
@given(
    st.sampled_from(FORMATS),
    st.sampled_from((200, 202, 400, 404, 429, 500)),
    st.binary(max_size=80)
    | st.sampled_from((b'{"retry_after": NaN}', b'{"ok": false}', b'{"a":' * 20_000, b"{", b'{"error": 1}')),
)
def test_no_answer_breaks_the_judge(name: Format, status: int, body: bytes) -> None:
    result = judge(Reply(status=status, body=body), name)
    assert len(result.reason) < 400
    assert 0 <= result.retry_after <= MOST_RETRY_AFTER
