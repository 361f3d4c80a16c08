"""Stored secrets are encrypted, and shown as a fingerprint only."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.config.hookfile import parse_hook_file
from bus.errors import ConfigError
from bus.hooksets.published import diff
from bus.sealing import fingerprint, key_file, make_key, seal, unseal
from bus.secrets import resolve_secret
from bus.signing import generate_secret


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
    with pytest.raises(ConfigError, match="sealed with another key"):
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
