"""What is kept of a response: head and body, redacted, 4 KiB at most (G-10)."""

from __future__ import annotations

import pytest

from bus.http.webhook_client import Reply
from workers.delivery.responses import SHOWN, response_text

TOKEN = "ghp_" + "a1B2" * 9


@pytest.mark.req("G-10")
def test_status_line_and_headers_without_their_secrets() -> None:
    headers = (("Server", "x"), ("Set-Cookie", "sid=s3cr3t"), ("X-Api-Key", "k3y"), ("Location", f"/?token={TOKEN}"))
    head, body = response_text(Reply(status=503, reason="Busy", headers=headers, body=b"later"))
    assert head.splitlines()[:4] == ["503 Busy", "Server: x", "Set-Cookie: [redacted]", "X-Api-Key: [redacted]"]
    assert (TOKEN[:12] in head, body) == (False, "later")


@pytest.mark.parametrize(("count", "size"), [(1, 9000), (200, 100), (3, 0)])
def test_head_and_body_together_stay_within_the_cap(count: int, size: int) -> None:
    headers = tuple((f"X-{n}", "v" * size) for n in range(count))
    head, body = response_text(Reply(status=200, headers=headers, body=b"b" * 9000))
    assert len(head) + len(body) == SHOWN
    assert len(body) >= 1_000, "headers never take all of it"


def test_a_secret_at_a_cut_is_not_half_shown() -> None:
    for before in range(SHOWN - 60, SHOWN, 7):
        _, body = response_text(Reply(status=500, body=b"x" * before + b" " + TOKEN.encode()))
        assert TOKEN[:12] not in body
    head, _ = response_text(Reply(status=200, headers=(("X", "y" * 985 + " " + TOKEN),)))
    assert TOKEN[:12] not in head


def test_no_answer_leaves_nothing() -> None:
    assert response_text(Reply(error="timeout", detail="no complete answer")) == ("", "")
