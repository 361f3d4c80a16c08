"""A blocking hook and a delivery get the same headers, whoever sends them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bus.errors import ConfigError
from bus.hooks import Endpoint, HttpCall, OldSecret
from bus.http.signing import generate_secret, verify
from bus.http.webhook_headers import signing_secrets, webhook_headers

URL = "https://h.example/"
JSON = {"Content-Type": "application/json"}


@pytest.mark.req("G-08", "G-20")
def test_an_endpoint_and_a_blocking_call_are_signed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM", "blue")
    secret, now = generate_secret(), 1_700_000_000
    written = {"X-Team": "${TEAM}", "WEBHOOK-ID": "forged", "content-type": "text/plain"}
    endpoint = Endpoint(id="log", url=URL, secret=secret, headers=written)
    call = HttpCall(url=URL, secret=secret, headers=written)
    headers = webhook_headers(endpoint, "e1_log", now, b"{}", JSON)
    assert headers == webhook_headers(call, "e1_log", now, b"{}", JSON)
    assert set(headers) == {"X-Team", "webhook-id", "webhook-timestamp", "webhook-signature", "Content-Type"}
    assert (headers["X-Team"], headers["webhook-id"]) == ("blue", "e1_log")
    verify(secret, headers, b"{}", now=now)


@pytest.mark.req("G-07")
def test_without_a_secret_there_is_an_id_unless_the_receivers_system_knows_none() -> None:
    call = HttpCall(url=URL)
    assert webhook_headers(call, "e1_log", 7, b"{}", JSON) == {"webhook-id": "e1_log", "webhook-timestamp": "7", **JSON}
    assert webhook_headers(call, "e1_log", 7, b"{}", JSON, with_id=False) == JSON


@pytest.mark.req("G-10")
def test_only_the_new_secret_has_to_exist(tmp_path: Path) -> None:
    new, until = generate_secret(), datetime.now(UTC) + timedelta(hours=1)
    gone = f"file:{tmp_path / 'gone'}"
    old = (OldSecret(secret=gone, until=until),)
    assert signing_secrets(HttpCall(url=URL, secret=new, old_secrets=old), until.timestamp() - 1) == [new]
    with pytest.raises(ConfigError, match="gone"):
        signing_secrets(HttpCall(url=URL, secret=gone), 0)
