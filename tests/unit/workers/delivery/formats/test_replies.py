"""What the answers of chats and on-call services mean (G-09, G-22)."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.hooks import Format
from bus.http.client import Reply
from workers.delivery.retries import AttemptFailed, GivenUp
from workers.delivery.webhook import MOST_RETRY_AFTER, judge

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
FAILED: Final = b"Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error "
"""As public reports quote it since 2019."""
INVALID: Final = b"""{"status":"invalid event","message":"Event object is invalid",
"errors":["Length of 'routing_key' is incorrect (should be 32 characters)"]}"""


@pytest.mark.req("G-09", "G-22")
@pytest.mark.parametrize(
    ("name", "status", "body", "meaning", "said"),
    [
        ("teams", 200, b"1", None, ""),
        ("teams", 202, b"", None, ""),
        ("teams", 200, FAILED + b"429 with ContextId tcid=0,server=x", AttemptFailed, "429"),
        ("teams", 200, FAILED + b"500 with ContextId tcid=0", AttemptFailed, "500"),
        ("teams", 200, FAILED + b"413 with ContextId tcid=0", GivenUp, "413"),
        ("teams", 200, FAILED + b"403 with ContextId tcid=0", GivenUp, "403"),
        (
            "teams",
            200,
            b"Webhook message delivery failed with error: Error contacting Microsoft Teams endpoint",
            AttemptFailed,
            "failed",
        ),
        (
            "teams",
            400,
            b'{"error": {"code": "WorkflowTriggerIsNotEnabled", "message": "x"}}',
            GivenUp,
            "400 (WorkflowTriggerIsNotEnabled)",
        ),
        ("teams", 429, b"", AttemptFailed, "429"),
        ("teams", 502, b"", AttemptFailed, "502"),
        ("slack", 200, b"ok", None, ""),
        ("slack", 200, b'{"ok":true}', None, ""),
        ("slack", 200, b"", None, ""),
        ("slack", 200, b'{"ok":false,"error":"ratelimited"}', AttemptFailed, "ratelimited"),
        ("slack", 200, b'{"ok":false,"error":"invalid_blocks"}', GivenUp, "invalid_blocks"),
        ("slack", 400, b"invalid_payload", GivenUp, "400 (invalid_payload)"),
        ("slack", 403, b"action_prohibited", GivenUp, "403 (action_prohibited)"),
        ("slack", 404, b"channel_not_found", GivenUp, "404 (channel_not_found)"),
        ("slack", 410, b"channel_is_archived", GivenUp, "410 (channel_is_archived): the receiver is gone"),
        ("slack", 500, b"rollup_error", AttemptFailed, "500 (rollup_error)"),
        ("slack", 404, b"<html>no such page", GivenUp, "404: trying"),
        ("discord", 200, b'{"id": "1"}', None, ""),
        ("discord", 204, b"", None, ""),
        ("discord", 404, b'{"message": "Unknown Webhook", "code": 10015}', GivenUp, "404 (Unknown Webhook)"),
        ("discord", 400, b'{"embeds": ["0"]}', GivenUp, "400: trying"),
        ("pagerduty", 202, b'{"status":"success"}', None, ""),
        ("pagerduty", 400, INVALID, GivenUp, "'routing_key' is incorrect"),
        ("pagerduty", 400, b'{"message":"Event object is invalid","errors":[]}', GivenUp, "Event object is invalid"),
        ("pagerduty", 500, b"", AttemptFailed, "500"),
        ("fleethook", 200, FAILED + b"429", None, ""),
        ("fleethook", 200, b'{"ok":false}', None, ""),
        ("cloudevents", 204, b"", None, ""),
        ("cloudevents", 415, b"", GivenUp, "415"),
    ],
)
def test_what_an_answer_of_a_service_means(
    name: Format, status: int, body: bytes, meaning: type[Exception] | None, said: str
) -> None:
    found = judge(Reply(status=status, body=body), name)
    assert found is None if meaning is None else type(found) is meaning
    assert said in str(found)


@pytest.mark.req("G-09", "G-22")
@pytest.mark.parametrize(
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
    found = judge(Reply(status=429, retry_after=header, body=json.dumps(body).encode()), name)
    assert isinstance(found, AttemptFailed)
    assert found.retry_after == seconds


@pytest.mark.req("G-09")
@given(
    st.sampled_from(FORMATS),
    st.sampled_from((200, 202, 400, 404, 429, 500)),
    st.binary(max_size=80)
    | st.sampled_from((b'{"retry_after": NaN}', b'{"ok": false}', b'{"a":' * 20_000, b"{", b'{"error": 1}')),
)
def test_no_answer_breaks_the_judge(name: Format, status: int, body: bytes) -> None:
    found = judge(Reply(status=status, body=body), name)
    assert found is None or len(str(found)) < 400
    if isinstance(found, AttemptFailed):
        assert 0 <= found.retry_after <= MOST_RETRY_AFTER
