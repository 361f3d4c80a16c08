"""Signing and checking against the published vectors, and against the standardwebhooks package in both directions."""

from __future__ import annotations

import json
import random
import time
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from bus.errors import ConfigError, SignatureError
from bus.http.signing import generate_secret, headers, sign, verify

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "golden" / "standard-webhooks-vectors.json").read_text(encoding="utf-8")
)
POSITIVE = [vector for vector in VECTORS["vectors"] if vector["scheme"] == "v1"]
SECRET, OTHER = POSITIVE[0]["secret"], POSITIVE[1]["secret"]


def received(vector: dict[str, Any]) -> dict[str, str]:
    return {
        "Webhook-Id": vector["msg_id"],
        "WEBHOOK-TIMESTAMP": str(vector["timestamp"]),
        "webhook-signature": vector["signature"],
    }


@pytest.mark.parametrize("vector", POSITIVE, ids=lambda vector: vector["name"])
def test_published_vector(vector: dict[str, Any]) -> None:
    body = vector["body"].encode()
    assert sign([vector["secret"]], vector["msg_id"], vector["timestamp"], body) == vector["signature"]
    verify([vector["secret"]], received(vector), body, now=vector["timestamp"])


@pytest.mark.parametrize("vector", VECTORS["negative"], ids=lambda vector: vector["name"])
def test_published_negative(vector: dict[str, Any]) -> None:
    with pytest.raises(SignatureError, match="no signature"):
        verify([vector["secret"]], received(vector), vector["body"].encode(), now=vector["timestamp"])


def test_vectors_are_the_whole_published_set() -> None:
    assert (len(POSITIVE), len(VECTORS["negative"])) == (2, 4)


@pytest.mark.parametrize("size", [1, 16, 23])
def test_short_secrets_are_verified_and_never_signed_with(size: int) -> None:
    secret = "whsec_" + b64encode(bytes(range(size))).decode()
    theirs = Webhook(secret).sign("msg_1", datetime.fromtimestamp(1000, UTC), "{}")
    given = {"webhook-id": "msg_1", "webhook-timestamp": "1000", "webhook-signature": theirs}
    verify(secret, given, b"{}", now=1000)
    with pytest.raises(SignatureError, match="no signature"):
        verify(secret, given, b"{ }", now=1000)
    with pytest.raises(ConfigError, match="24 to 64"):
        sign([secret], "msg_1", 1000, b"{}")


def test_agrees_with_the_standardwebhooks_package() -> None:
    rng = random.Random("standardwebhooks")
    now = int(time.time())
    for round_ in range(300):
        secret = "whsec_" + b64encode(rng.randbytes(rng.randint(24, 64))).decode().rstrip("=" if round_ % 2 else "")
        text = "".join(chr(rng.choice([rng.randint(0, 127), rng.randint(0x80, 0xD7FF)])) for _ in range(round_))
        ours = headers([secret], f"msg_{round_}", now, text.encode())
        theirs = Webhook(secret).sign(f"msg_{round_}", datetime.fromtimestamp(now, UTC), text)
        assert ours["webhook-signature"] == theirs
        Webhook(secret).verify(text.encode(), ours, json_parse=False)
        changed = text.encode() + b" "
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(changed, ours, json_parse=False)
        with pytest.raises(SignatureError):
            verify([secret], ours, changed)
        verify([secret], {**ours, "webhook-signature": theirs}, text.encode())


def test_bytes_that_are_not_text_can_be_signed() -> None:
    body = bytes(range(256))
    verify([SECRET], headers([SECRET], "msg_1", 1000, body), body, now=1000)


def test_rotation_signs_with_both_and_either_side_may_be_behind() -> None:
    both = headers([SECRET, OTHER], "msg_1", 1000, b"{}")
    assert both["webhook-signature"] == f"{sign([SECRET], 'msg_1', 1000, b'{}')} {sign([OTHER], 'msg_1', 1000, b'{}')}"
    for accepted in ([SECRET], [OTHER], [OTHER, SECRET], [generate_secret(), OTHER]):
        verify(accepted, both, b"{}", now=1000)
    with pytest.raises(SignatureError):
        verify([generate_secret()], both, b"{}", now=1000)
    with pytest.raises(SignatureError):
        verify([], both, b"{}", now=1000)


def test_unknown_versions_are_skipped_and_padding_is_optional() -> None:
    good = headers([SECRET], "msg_1", 1000, b"{}")
    signature = good["webhook-signature"]
    verify([SECRET], {**good, "webhook-signature": f"v1a,AAAA v2,x  v1,! {signature.rstrip('=')}"}, b"{}", now=1000)
    for listed in (signature.replace("v1,", "v1a,"), signature.replace("v1,", ""), "v1", ",", " "):
        with pytest.raises(SignatureError):
            verify([SECRET], {**good, "webhook-signature": listed}, b"{}", now=1000)


def test_every_part_is_signed() -> None:
    good = headers([SECRET], "msg_1", 1000, b"{}")
    for part, value in (("webhook-id", "msg_2"), ("webhook-timestamp", "1001"), ("webhook-timestamp", "01000")):
        with pytest.raises(SignatureError, match="no signature"):
            verify([SECRET], {**good, part: value}, b"{}", now=1000)
    for missing in good:
        with pytest.raises(SignatureError, match="missing"):
            verify([SECRET], {name: value for name, value in good.items() if name != missing}, b"{}", now=1000)


@pytest.mark.parametrize(("now", "passes"), [(700, True), (1300, True), (699, False), (1301, False), (1e12, False)])
def test_time_is_tolerated_both_ways(now: float, passes: bool) -> None:
    good = headers([SECRET], "msg_1", 1000, b"{}")
    if passes:
        verify([SECRET], good, b"{}", now=now)
        return
    with pytest.raises(SignatureError, match="away"):
        verify([SECRET], good, b"{}", now=now)


@pytest.mark.parametrize(
    "timestamp", ["", "1e3", "-1000", "+1000", " 1000", "1000.0", "\u0661\u0660\u0660\u0660", "nan", "9" * 5000]
)
def test_timestamps_are_plain_numbers(timestamp: str) -> None:
    with pytest.raises(SignatureError):
        verify([SECRET], {**headers([SECRET], "msg_1", 1000, b"{}"), "webhook-timestamp": timestamp}, b"{}", now=1000)


@pytest.mark.parametrize("message_id", ["", "evt.hook", "a b", "a\r\nX-Injected: y", "é", "a" * 257])
def test_ids_that_could_be_read_twice_are_refused_by_both_sides(message_id: str) -> None:
    with pytest.raises(SignatureError, match="webhook id"):
        sign([SECRET], message_id, 1000, b"{}")
    with pytest.raises(SignatureError):
        verify([SECRET], {**headers([SECRET], "m", 1000, b"{}"), "webhook-id": message_id}, b"{}", now=1000)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!!", "whsk_" + "A" * 44, "A" * 100, "é"])
def test_a_bad_secret_is_a_config_error_that_does_not_quote_it(secret: str) -> None:
    for call in (
        lambda: sign([secret], "msg_1", 1000, b"{}"),
        lambda: verify([secret], headers([SECRET], "msg_1", 1000, b"{}"), b"{}", now=1000),
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        assert len(secret) < 8 or secret not in str(caught.value)


def test_no_secret_signs_nothing() -> None:
    with pytest.raises(ConfigError, match="at least one secret"):
        sign([], "msg_1", 1000, b"{}")


def test_secrets_are_new_and_usable() -> None:
    first, second = generate_secret(), generate_secret()
    assert first != second
    assert first.startswith("whsec_")
    verify([first], headers([first], "msg_1", 1000, b""), b"", now=1000)
