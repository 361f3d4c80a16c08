"""The texts of `limit:` (X-13)."""

from __future__ import annotations

import pytest

from bus.errors import PatternError
from bus.matching.limits import Limit, read_limit
from tests.support.rows import rows

pytestmark = pytest.mark.req("X-13")


@pytest.mark.parametrize(
    ("text", "limit", "words"),
    [
        ("30 per minute", Limit(30, "calls", 60_000), "30 calls per minute for this session"),
        ("1 call per 10m", Limit(1, "calls", 600_000), "1 calls per 10 minutes for this session"),
        ("100 per session", Limit(100), "100 calls for this session"),
        ("5 per user per day", Limit(5, "calls", 86_400_000, "user"), "5 calls per day for this user"),
        ("5 times per 2 hours per agent", Limit(5, "calls", 7_200_000, "agent"), "5 calls per 2 hours for this agent"),
        ("200k tokens per session", Limit(200_000, "tokens"), "200000 tokens for this session"),
        (
            "2.50 USD per day per fleet",
            Limit(2.5, "money", 86_400_000, "fleet", "USD"),
            "2.5 USD per day for the whole fleet",
        ),
        ("0 per hour", Limit(0, "calls", 3_600_000), "0 calls per hour for this session"),
    ],
)
def test_a_limit_is_a_number_a_unit_and_per_what(text: str, limit: Limit, words: str) -> None:
    assert read_limit(text) == limit
    assert f"{limit.number}{limit.span}" == words


@rows(
    "text",
    [
        *("", "30", "per minute", "-1 per minute", "30 per", "30 per minute per minute", "30 per session per agent"),
        *("1.5 per minute", "10001 per day", "3 apples per day", "3 per 8 days", "3 usd per day", "1 USD per 2 days"),
        *("10 tokens per 30 seconds", "30 per agent", "30 per 0 minutes", "30  calls of mine per minute"),
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(PatternError) as caught:
        read_limit(text)
    assert caught.value.hint
