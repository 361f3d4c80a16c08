"""Where a chat endpoint is, and what a refusal of a server leads to."""

from __future__ import annotations

import pytest

from bus.judge.chat import chat_url

pytestmark = pytest.mark.req("I-12")


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.example/v1", "https://api.example/v1/chat/completions"),
        ("https://api.example/v1/", "https://api.example/v1/chat/completions"),
        ("https://api.example/v1/chat/completions", "https://api.example/v1/chat/completions"),
        (
            "https://x.example/deployments/m?api-version=1",
            "https://x.example/deployments/m/chat/completions?api-version=1",
        ),
    ],
)
def test_the_endpoint_is_below_the_base_url(base: str, url: str) -> None:
    assert chat_url(base) == url
