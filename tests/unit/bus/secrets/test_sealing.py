"""Stored secrets are encrypted, and shown as a fingerprint only."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.errors import ConfigError
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import diff
from bus.http.signing import generate_secret
from bus.secrets.references import resolve_secret
from bus.secrets.sealing import (
    MissingKey,
    export_key,
    fingerprint,
    import_key,
    key_file,
    key_ids,
    make_key,
    seal,
    unseal,
)


def test_a_sealed_secret_opens_with_its_key_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What lies in Redis says nothing without the key file."""
    secret = generate_secret()
    sealed = seal(secret)
    assert secret not in sealed
    assert secret.removeprefix("whsec_") not in sealed
    assert unseal(sealed) == resolve_secret(sealed) == secret
    monkeypatch.setenv("FLEETHOOK_SECRET_KEY_FILE", str(tmp_path / "other.key"))
    with pytest.raises(ConfigError, match=r"cannot be read.*FLEETHOOK_SECRET_KEY_FILE"):
        unseal(sealed)
    make_key()
    with pytest.raises(ConfigError, match=r"sealed with key [0-9a-f]{8}, which is not in"):
        unseal(sealed)


def test_references_stay_references() -> None:
    """Only a secret itself is sealed, once."""
    assert seal("env:HOOK_SECRET") == "env:HOOK_SECRET"
    assert seal("") == ""
    sealed = seal(generate_secret())
    assert seal(sealed) == sealed


def test_the_key_file_is_private_and_made_once() -> None:
    """Mode 0600, and a second call changes nothing."""
    first = make_key().read_bytes()
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert make_key().read_bytes() == first


def test_a_diff_shows_that_a_secret_changed_and_not_what_it_is() -> None:
    """Fingerprints stand for secrets, sealed or not."""
    secrets = [generate_secret(), generate_secret()]
    text = "endpoints:\n  - {{id: chat, url: 'https://example.com/', secret: '{}'}}\n"
    before, after = (parse_hook_file(text.format(secret), "fleet") for secret in secrets)
    shown = diff(before, after)
    assert fingerprint(secrets[0]) in shown
    assert fingerprint(secrets[1]) in shown
    assert not any(secret in shown for secret in secrets)
    assert fingerprint(seal(secrets[0])) == fingerprint(secrets[0])


@pytest.mark.req("X-10")
def test_a_key_is_handed_over_and_older_keys_and_secrets_still_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret, other = generate_secret(), generate_secret()
    sealed, handed = seal(secret), export_key()
    own = key_ids()[0]
    assert sealed.split(":")[1] == own
    older = "sealed:" + sealed.split(":")[2]
    assert unseal(older) == secret
    monkeypatch.setenv("FLEETHOOK_SECRET_KEY_FILE", str(tmp_path / "other.key"))
    assert key_ids() == []
    before = seal(other)
    with pytest.raises(MissingKey) as missing:
        unseal(sealed)
    assert missing.value.key == own
    with pytest.raises(MissingKey) as missing:
        unseal(older)
    assert missing.value.key == "unknown"
    assert import_key(handed + "\n") == own == import_key(handed)
    assert key_ids()[0] == own
    assert len(key_ids()) == 2
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert [unseal(sealed), unseal(older), unseal(before)] == [secret, secret, other]
    assert seal(other).split(":")[1] == own, "what is published here now is opened wherever the fleet's key is"


@pytest.mark.parametrize("text", ["", "no key", "é" * 44, "QUJD"])
def test_what_is_no_key_is_not_taken(text: str) -> None:
    before = make_key().read_bytes()
    with pytest.raises(ConfigError, match="not a key"):
        import_key(text)
    assert key_file().read_bytes() == before
