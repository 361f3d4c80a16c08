"""Secrets that are stored in Redis: encrypted with a key file that never leaves the machines of the workers.

A published hook set may hold a `whsec_…` as it was written; in Redis it stands as `sealed:…`. The key is a Fernet key
(AES-128-CBC and HMAC-SHA256) in a file of mode 0600 that `fleethook up`, or the first `hooks apply`, makes.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from bus.directories import directories
from bus.errors import ConfigError

PREFIX: Final = "sealed:"
VARIABLE: Final = "FLEETHOOK_SECRET_KEY_FILE"
"""Names the key file where the workers of a fleet share one, e.g. from a mounted secret."""


def key_file() -> Path:
    """Where the key lies."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else directories().data / "secret.key"


def make_key() -> Path:
    """Make the key file unless there is one; returns where it lies."""
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
    """`secret` as it may lie in Redis; references (`env:`, `file:`) and sealed ones stay as they are."""
    from cryptography.fernet import Fernet

    if not secret.startswith("whsec_"):
        return secret
    return PREFIX + Fernet(_key(make_key())).encrypt(secret.encode()).decode("ascii")


def unseal(sealed: str) -> str:
    """The secret in a sealed one; ConfigError where this machine does not have the key that closed it."""
    from cryptography.fernet import Fernet, InvalidToken

    path = key_file()
    try:
        return Fernet(_key(path)).decrypt(sealed.removeprefix(PREFIX).encode()).decode()
    except InvalidToken as error:
        raise ConfigError(f"the secret was sealed with another key than {path}", hint=_HINT) from error


def fingerprint(secret: str) -> str:
    """What is shown of a secret: enough to see whether it changed."""
    if secret.startswith(PREFIX):
        try:
            secret = unseal(secret)
        except ConfigError:
            return "[sealed with a key that is not here]"
    if not secret.startswith("whsec_"):
        return secret
    return f"[secret {hashlib.sha256(secret.encode()).hexdigest()[:8]}]"


_HINT: Final = f"copy the key file of the machine that published it, or name it with {VARIABLE}; env:NAME needs no key"


def _key(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"the key file {path} cannot be read: {error.strerror}", hint=_HINT) from error
