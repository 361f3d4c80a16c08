"""Encrypts the secrets that are stored in Redis, with a key file that never leaves the machines of the workers.

A `whsec_…` secret of a published hook set is stored as `sealed:KEY-ID:…` (older versions wrote no key id). A key is a
Fernet key (AES-128-CBC and HMAC-SHA256). The key file has mode 0600 and one key a line: the first one seals, all of them
can open. `fleethook up`, or the first `hooks apply`, makes the file; `fleethook key export` and `key import` copy a key to
another machine.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from pathlib import Path
from typing import Final

from bus.errors import ConfigError
from bus.system.directories import directories
from bus.system.locks import write_private

PREFIX: Final = "sealed:"
UNKNOWN: Final = "unknown"
_KEY_BYTES: Final = 32
VARIABLE: Final = "FLEETHOOK_SECRET_KEY_FILE"
"""The variable with the path of the key file, for workers that share one, e.g. from a mounted secret."""


class MissingKey(ConfigError):
    """A sealed secret whose key this machine does not have (yet)."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        """The id of the key; `unknown` for a secret that names none."""
        super().__init__(message, hint=_HINT)


def key_file() -> Path:
    """The path of the key file."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else directories().data / "secret.key"


def make_key() -> Path:
    """Make the key file unless there is one; returns its path."""
    from cryptography.fernet import Fernet

    path = key_file()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path
    with os.fdopen(fd, "wb") as file:
        file.write(Fernet.generate_key() + b"\n")
    return path


def seal(secret: str) -> str:
    """`secret` in the form that Redis stores; references (`env:`, `file:`) and sealed secrets stay as they are."""
    from cryptography.fernet import Fernet

    if not secret.startswith("whsec_"):
        return secret
    key = _keys(make_key())[0]
    return f"{PREFIX}{key_id(key)}:{Fernet(key).encrypt(secret.encode()).decode('ascii')}"


def unseal(sealed: str) -> str:
    """The secret behind a sealed one; MissingKey if this machine does not have its key."""
    from cryptography.fernet import Fernet, InvalidToken

    path = key_file()
    wanted, colon, token = sealed.removeprefix(PREFIX).partition(":")
    if not colon:  # an older version sealed it
        wanted, token = "", wanted
    try:
        keys = _keys(path)
    except MissingKey as error:
        raise MissingKey(wanted or UNKNOWN, error.message) from error
    for key in keys:
        if wanted in {"", key_id(key)}:
            with contextlib.suppress(InvalidToken):
                return Fernet(key).decrypt(token.encode()).decode()
    named = f"key {wanted}, which is not in {path}" if wanted else f"another key than {path}"
    raise MissingKey(wanted or UNKNOWN, f"the secret was sealed with {named}")


def key_id(key: bytes) -> str:
    """The public id of a key."""
    return hashlib.sha256(b"fleethook key\n" + key).hexdigest()[:8]


def key_ids() -> list[str]:
    """The ids of this machine's keys, first the one that seals; empty if there is no key file."""
    try:
        return [key_id(key) for key in _keys(key_file())]
    except MissingKey:
        return []


def export_key(wanted: str = "") -> str:
    """A key of this machine as text: the one that seals, or the one with this id. ConfigError if there is none."""
    path = key_file()
    found = next((key for key in _keys(path) if wanted in {"", key_id(key)}), None)
    if found is None:
        raise MissingKey(wanted, f"key {wanted} is not in {path}")
    return found.decode("ascii")


def import_key(text: str) -> str:
    """Put another machine's key before this machine's own; returns its id. ConfigError if the text is not a key.

    This machine's own keys can still open what they sealed.
    """
    key = text.strip().encode("ascii", "replace")
    if not _is_key(key):
        raise ConfigError(
            "this is not a key", hint="pipe the output of `fleethook key export` from the machine that has it"
        )
    path = key_file()
    known = _keys(path) if path.exists() else []
    try:
        write_private(path, "".join(f"{line.decode('ascii')}\n" for line in dict.fromkeys((key, *known))))
    except OSError as error:
        raise ConfigError(f"the key file {path} cannot be written: {error.strerror or error}") from error
    return key_id(key)


def fingerprint(secret: str) -> str:
    """A short text in place of a secret, which shows only whether the secret changed."""
    if secret.startswith(PREFIX):
        try:
            secret = unseal(secret)
        except ConfigError:
            return "[sealed with a key that is not here]"
    if not secret.startswith("whsec_"):
        return secret
    return f"[secret {hashlib.sha256(secret.encode()).hexdigest()[:8]}]"


_HINT: Final = (
    "hand it over from a machine that has it: `fleethook key export | ssh HOST fleethook key import`; or name a shared "
    f"file with {VARIABLE}; env:NAME needs no key"
)


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.urlsafe_b64decode(key)) == _KEY_BYTES
    except ValueError:
        return False


def _keys(path: Path) -> list[bytes]:
    """Every key in the file, at least one."""
    try:
        keys = [line.strip() for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise MissingKey(UNKNOWN, f"the key file {path} cannot be read: {error.strerror}") from error
    if not keys or not all(map(_is_key, keys)):
        raise MissingKey(UNKNOWN, f"the key file {path} contains a line that is no key")
    return keys
