"""Signs and verifies webhooks by Standard Webhooks 1.0.0, symmetric scheme v1.

The signed content is `<id>.<unix seconds>.<body bytes>`, exactly the bytes sent; v1 is the base64 of its HMAC-SHA256.
While a secret is rotated there are two secrets, and the header carries a signature by each, separated by a space.
"""

from __future__ import annotations

import hmac
import re
import secrets as randomness
import time
from base64 import b64decode, b64encode
from binascii import b2a_base64
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from bus.errors import ConfigError, SignatureError

PREFIX = "whsec_"
TOLERANCE = 300  # seconds, both ways

_LEAST_KEY = 24
_MOST_KEY = 64
"""Bytes; the specification's bounds for a symmetric key. A shorter one is verified, since other senders use such keys."""
# With a dot, another id, time and body could have the same signature. Other characters could break the header's line.
_MESSAGE_ID = re.compile(r"[!-\-/-~]{1,256}\Z")
_TIMESTAMP = re.compile(r"[0-9]{1,12}\Z")
_MOST_SIGNATURES = 16  # the most signatures of a header that are checked; a sender needs no more keys at a time


def generate_secret() -> str:
    """Make a new secret: 32 random bytes as `whsec_<base64>`."""
    return PREFIX + b64encode(randomness.token_bytes(32)).decode("ascii")


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the webhook-signature header: one `v1,<base64>` for each secret, in order, separated by spaces.

    `timestamp` is in whole unix seconds, that of this attempt. ConfigError: no secret, or one that is malformed.
    SignatureError: an id that is empty, longer than 256 characters, or holds a dot, a space or non-ASCII.
    """
    if not secrets:
        raise ConfigError("a signed webhook needs at least one secret", hint="add `secrets:` to the endpoint")
    digests = _digests(secrets, message_id, timestamp, body, least=_LEAST_KEY)
    return " ".join(["v1," + b2a_base64(digest, newline=False).decode("ascii") for digest in digests])


def headers(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the three headers of one attempt; every attempt has the same id, and its own time and signature."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secrets, message_id, timestamp, body),
    }


def verify(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float | None = None,
    tolerance: float = TOLERANCE,
) -> None:
    """Raise SignatureError unless a signature in the headers was made with one of the secrets, not long ago.

    For receivers too: `bus.verify(secret, request.headers, raw_body)`; the body has to be exactly the bytes that came.
    Header names may be in any case. A secret may be shorter than one that we sign with. `now` in unix seconds, the clock if
    None; `tolerance` in seconds, both ways. Versions other than v1 are skipped. ConfigError for a malformed secret:
    that is the receiver's fault, not the sender's.
    """
    found = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, listed = (found.get(f"webhook-{part}", "") for part in ("id", "timestamp", "signature"))
    if not (message_id and timestamp and listed):
        raise SignatureError("webhook-id, webhook-timestamp and webhook-signature are needed, and one is missing")
    if not _TIMESTAMP.match(timestamp):
        raise SignatureError("webhook-timestamp is not a number of unix seconds")
    ahead = int(timestamp) - (time.time() if now is None else now)
    if not abs(ahead) <= tolerance:
        side = "ahead" if ahead > 0 else "behind"
        raise SignatureError(
            f"webhook-timestamp is {abs(ahead):.0f} seconds away from our clock ({side}), more than {tolerance:g}: "
            "a replay, or a clock that is wrong"
        )
    received = list(_signatures(listed))
    # The text of the header is signed, not the number, so 007 and 7 stay different messages.
    expected = _digests([secrets] if isinstance(secrets, str) else secrets, message_id, timestamp, body, least=1)
    matches = [hmac.compare_digest(ours, theirs) for ours in expected for theirs in received]
    if not any(matches):
        raise SignatureError("no signature of the webhook matches; check that both sides hold the same secret")


def _digests(secrets: Sequence[str], message_id: str, timestamp: int | str, body: bytes, *, least: int) -> list[bytes]:
    if not _MESSAGE_ID.match(message_id):
        raise SignatureError("a webhook id is 1 to 256 visible ASCII characters without a dot")
    content = f"{message_id}.{timestamp}.".encode("ascii") + body
    return [_digest(secret, content, least) for secret in secrets]


def _digest(secret: str, content: bytes, least: int) -> bytes:
    keyed = _keyed(secret, least).copy()
    keyed.update(content)
    return keyed.digest()


def _signatures(listed: str) -> Iterator[bytes]:
    """The v1 signatures of a header, decoded; a signature that is not base64 cannot match and is left out."""
    for entry in listed.split(" ")[:_MOST_SIGNATURES]:
        version, _, text = entry.partition(",")
        if version == "v1" and (decoded := _base64(text)):
            yield decoded


def _base64(text: str) -> bytes:
    """Decode standard base64, padded or not; empty if it is not base64."""
    try:
        stripped = text.rstrip("=")
        return b64decode(stripped + "=" * (-len(stripped) % 4), validate=True)
    except ValueError:
        return b""


@lru_cache(maxsize=4096)  # creating an HMAC costs as much as signing a small body; no fleet has more endpoints
def _keyed(secret: str, least: int) -> hmac.HMAC:
    key = _base64(secret.removeprefix(PREFIX))
    if not least <= len(key) <= _MOST_KEY:
        # The secret stays out of the text: it ends up in logs and on terminals.
        raise ConfigError(
            f"a webhook secret holds {len(key)} bytes of base64 where {least} to {_MOST_KEY} are needed",
            hint=f"write it as {PREFIX}<base64>",
        )
    return hmac.new(key, digestmod="sha256")
