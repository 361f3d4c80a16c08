"""One webhook: its body, its signature, and what an answer means (B-03, G-09)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from bus.errors import SignatureError
from bus.events import Event
from bus.hooks import Endpoint, OldSecret
from bus.http.signing import generate_secret, verify
from bus.http.webhook_client import Failure, Reply
from bus.ids import delivery_id, webhook_id
from bus.verdicts import Verdict
from tests.support.rows import rows
from workers.delivery.formats import MOST_BODY
from workers.delivery.outcome_table import MOST_RETRY_AFTER, judge, parse_retry_after
from workers.delivery.responses import body_text
from workers.delivery.results import Outcome, Undeliverable
from workers.delivery.webhook import render_body, request_headers

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
PLAIN = Endpoint(id="plain", url="https://x.example")
TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz012345"


def event(**more: Any) -> Event:
    """A tool call."""
    return Event(
        **{
            "type": "tool:pre_execute",
            "id": "e1",
            "time": 1_700_000_000_123,
            "tool": "bash",
            "source": "claude",
            "session": "s1",
            "input": {"command": "ls"},
            **more,
        }
    )


@pytest.mark.req("B-03", "G-09")
@rows(
    ("status", "error", "outcome"),
    [
        (200, "", "delivered"),
        (201, "", "delivered"),
        (204, "", "delivered"),
        (299, "", "delivered"),
        (301, "", "dead"),
        (304, "", "dead"),
        (308, "", "dead"),
        (100, "", "dead"),
        (400, "", "dead"),
        (401, "", "dead"),
        (404, "", "dead"),
        (410, "", "dead"),
        (422, "", "dead"),
        (408, "", "retry"),
        (425, "", "retry"),
        (429, "", "retry"),
        (500, "", "retry"),
        (502, "", "retry"),
        (503, "", "retry"),
        (599, "", "retry"),
        (0, "timeout", "retry"),
        (0, "connect", "retry"),
        (0, "dns", "retry"),
        (0, "tls", "retry"),
        (200, "timeout", "retry"),
        (200, "protocol", "retry"),
        (0, "refused", "dead"),
    ],
)
def test_what_an_answer_means(status: int, error: Failure, outcome: Outcome) -> None:
    result = judge(Reply(status=status, error=error, detail="because"))
    assert result.outcome == outcome
    if outcome == "delivered":
        assert result.reason == ""
    else:
        assert (error or str(status)) in result.reason or error == "refused"


@pytest.mark.req("G-09")
def test_an_answer_carries_the_receivers_wish() -> None:
    result = judge(Reply(status=503, retry_after="120"))
    assert (result.outcome, result.retry_after) == ("retry", 120)


@rows(
    ("text", "seconds"),
    [
        ("", 0),
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("0000000120", 120),
        ("999999999999999999999", MOST_RETRY_AFTER),
        ("Sat, 21 Nov 2026 12:01:30 GMT", 90),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0),
        ("Sat, 21 Nov 2026 12:01:30 -0000", 90),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MOST_RETRY_AFTER),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("²", 0),
        ("١٢", 0),
        ("Sat, 99 Nov 2026 12:01:30 GMT", 0),
    ],
)
def test_retry_after(text: str, seconds: float) -> None:
    assert parse_retry_after(text, NOW) == seconds


@given(st.text(max_size=60))
def test_retry_after_of_any_text_is_a_number_within_a_day(text: str) -> None:
    assert 0 <= parse_retry_after(text, NOW) <= MOST_RETRY_AFTER


@pytest.mark.req("B-03")
def test_the_body() -> None:
    told = event(type="claude:Pre:Odd.Name")
    verdict = Verdict(decision="deny", reason="no", version="fleet@3", fallback="")
    body = json.loads(render_body(told, verdict, PLAIN))
    assert body["type"] == "claude.Pre.Odd.Name"
    assert datetime.fromisoformat(body["timestamp"]) == datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert body["data"]["verdict"] == {"decision": "deny", "reason": "no", "fallback": "", "version": "fleet@3"}
    assert body["data"]["input"] == {"command": "ls"}
    assert (body["data"]["id"], body["data"]["session"]) == ("e1", "s1")
    assert "verdict" not in json.loads(render_body(told, None, PLAIN))["data"]


@pytest.mark.req("B-03")
@pytest.mark.parametrize("field", ["session", "cwd", "host", "native", "tool", "call", "type"])
def test_no_secret_leaves_in_a_text_and_the_others_stay(field: str) -> None:
    raw = render_body(event(**{"cwd": "/home/me", field: f"x {TOKEN}"}), None, PLAIN)
    assert TOKEN.encode() not in raw
    assert b'"id":"e1"' in raw
    assert field == "cwd" or b'"cwd":"/home/me"' in raw


def test_no_secret_leaves_in_what_is_nested_nor_in_a_reason() -> None:
    told = event(
        input={"command": f"curl -H 'Authorization: Bearer {TOKEN}'", "password": "hunter22"},
        output=[{"token": TOKEN}],
        data={TOKEN: 1},
    )
    raw = render_body(told, Verdict(decision="deny", reason=f"it holds {TOKEN}"), PLAIN)
    assert TOKEN.encode() not in raw
    assert b"hunter22" not in raw


def test_a_large_body_goes_thin_and_says_so() -> None:
    told = event(output=["word "] * MOST_BODY, data={"x": 1})
    raw = render_body(told, None, PLAIN)
    data = json.loads(raw)["data"]
    assert len(raw) < 2_000
    assert "the full event has" in data["thin"]
    assert not {"input", "output", "data"} & set(data)
    assert data["session"] == "s1"


def test_lone_surrogates_and_odd_numbers_are_json() -> None:
    raw = render_body(event(input={"command": "\ud83d", "n": 2**70}), None, PLAIN)
    assert json.loads(raw)["data"]["input"] == {"command": "\ud83d", "n": 2**70}


@pytest.mark.req("B-03")
def test_an_independent_verifier_accepts_the_signature() -> None:
    secret, name = generate_secret(), delivery_id("e1", "slack")
    body = render_body(event(), None, PLAIN)
    now = int(datetime.now(UTC).timestamp())
    headers = request_headers(Endpoint(id="slack", url="https://x.example", secret=secret), name, body, now)
    assert Webhook(secret).verify(body, headers) == json.loads(body)
    assert headers["webhook-id"] == webhook_id(name) == "e1_slack"
    later = request_headers(Endpoint(id="slack", url="https://x.example", secret=secret), name, body, now + 60)
    assert later["webhook-id"] == headers["webhook-id"]
    assert later["webhook-signature"] != headers["webhook-signature"]


def test_headers_of_an_endpoint_never_replace_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM", "blue")
    endpoint = Endpoint(
        id="a",
        url="https://x.example",
        secret=generate_secret(),
        headers={"X-Team": "${TEAM}", "Webhook-Id": "forged", "content-type": "text/plain", "User-Agent": "mine"},
    )
    headers = request_headers(endpoint, "e1.a", b"{}", 1)
    folded = {name.lower() for name in headers}
    assert len(folded) == len(headers), "no header stands there twice"
    assert (headers["X-Team"], headers["User-Agent"], headers["webhook-id"]) == ("blue", "mine", "e1_a")
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint(id="a", url="https://x.example", secret="env:NOT_SET_ANYWHERE", origin="f.yaml:3"),
        Endpoint(id="a", url="https://x.example", headers={"X": "${NOT_SET_ANYWHERE}"}, origin="f.yaml:3"),
    ],
)
def test_what_is_not_configured_is_said_with_its_place(endpoint: Endpoint) -> None:
    with pytest.raises(Undeliverable, match=r"f\.yaml:3.*NOT_SET_ANYWHERE"):
        request_headers(endpoint, "e1.a", b"{}", 1)


def test_a_secret_in_a_file_may_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("bus.secrets.references.time.monotonic", lambda: clock[0])
    file = tmp_path / "secret"
    endpoint = Endpoint(id="a", url="https://x.example", secret=f"file:{file}")
    signatures = []
    for _ in range(2):
        file.write_text(generate_secret())
        clock[0] += 5
        signatures.append(request_headers(endpoint, "e1.a", b"{}", 1)["webhook-signature"])
    assert signatures[0] != signatures[1]


@pytest.mark.req("G-10")
def test_both_secrets_sign_until_the_old_ones_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = generate_secret(), generate_secret()
    now = datetime.now(UTC).replace(microsecond=0)
    monkeypatch.setenv("OLD_SECRET", old)
    until = now + timedelta(hours=1)
    endpoint = Endpoint(
        id="log",
        url="https://h.example/",
        secret=new,
        old_secrets=(OldSecret(secret="env:OLD_SECRET", until=until), OldSecret(secret="env:GONE", until=until)),
    )

    def verified_by(at: datetime) -> list[str]:
        headers = request_headers(endpoint, "e1.log", b"{}", int(at.timestamp()))
        accepted = []
        for name, secret in (("new", new), ("old", old)):
            try:
                verify(secret, headers, b"{}", now=at.timestamp())
            except SignatureError:
                continue
            accepted.append(name)
        return accepted

    assert verified_by(now) == ["new", "old"]
    assert verified_by(until - timedelta(seconds=1)) == ["new", "old"]
    assert verified_by(until) == ["new"]
    Webhook(old).verify("{}", request_headers(endpoint, "e1.log", b"{}", int(now.timestamp())))


def test_what_is_shown_of_a_response() -> None:
    assert body_text(Reply(status=500, body=b"token=" + TOKEN.encode() + b" \xff" + b"x" * 9000)).startswith(
        "token=[redacted"
    )
    assert len(body_text(Reply(body=b"x" * 9000))) == 4096
    assert body_text(Reply()) == ""


@pytest.mark.req("G-07")
def test_an_unsigned_webhook_has_its_id_and_its_time_too() -> None:
    headers = request_headers(Endpoint(id="log", url="https://x.example"), "e1.log", b"{}", 1_700_000_000)
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("e1_log", "1700000000")
    assert "webhook-signature" not in headers
