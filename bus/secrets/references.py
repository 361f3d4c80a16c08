"""Resolves references: to secrets, which no configuration file should contain, and to variables in header values."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Final

from bus.errors import ConfigError
from bus.lazy.regex import lazy_regex
from bus.secrets import sealing

_VARIABLE: Final = lazy_regex(r"\$\{([^}]*)\}")
_NAME: Final = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CONTROL: Final = lazy_regex(r"[\x00-\x1f\x7f]")
_MOST_BYTES: Final = 4096
"""The most bytes of a secret's file; a larger file is no secret."""
_RECENT_SECONDS: Final = 1.0
_MOST_RECENT: Final = 4096
_recent: dict[str, tuple[float, str]] = {}
"""Secrets by reference, each with the monotonic time at which it has to be looked up again."""


def resolve_secret(reference: str) -> str:
    """The secret behind `env:NAME` or `file:PATH` (a leading ~ is home), or `whsec_…` itself; raises ConfigError."""
    kind, _, name = reference.partition(":")
    if reference.startswith("whsec_"):
        return reference
    if reference.startswith(sealing.PREFIX):
        return sealing.unseal(reference)
    if kind == "env":
        secret = os.environ.get(name, "").strip()
        if not secret:
            raise ConfigError(f"the secret env:{name} is not set", hint=f"set {name} where the workers run")
        return secret
    if kind == "file":
        try:
            with open(os.path.expanduser(name), "rb") as file:
                secret = file.read(_MOST_BYTES).decode("ascii").strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ConfigError(f"the secret file:{name} cannot be read: {why}") from error
        if not secret:
            raise ConfigError(f"the secret file:{name} is empty")
        return secret
    # The text is not shown: it may be a secret that was pasted without its prefix.
    raise ConfigError("the secret is not a reference", hint="write env:NAME, file:PATH or whsec_<base64>")


def recent_secret(reference: str) -> str:
    """As `resolve_secret`, but looked up at most once a second: a file may change, and unsealing takes time."""
    now = time.monotonic()
    known = _recent.get(reference)
    if known is None or known[0] < now:
        if len(_recent) >= _MOST_RECENT:
            _recent.clear()
        known = _recent[reference] = (now + _RECENT_SECONDS, resolve_secret(reference))
    return known[1]


def fill(values: Mapping[str, str]) -> dict[str, str]:
    """Header values with every `${VAR}`, `${VAR:-default}`, `${env:VAR}` and `${file:PATH}` replaced.

    Raises ConfigError if one is missing. As in a shell, the default is used for a variable that is not set or empty.
    """

    def variable(match: re.Match[str]) -> str:
        if match[1].startswith("file:"):
            secret = resolve_secret(match[1])
            if _CONTROL.search(secret):
                raise ConfigError(f"{match[0]} has more than one line; a header cannot")
            return secret
        name, with_default, default = match[1].removeprefix("env:").partition(":-")
        if not _NAME.match(name):
            raise ConfigError(f"{match[0]} is not a variable", hint="write ${NAME} or ${file:PATH}")
        if name.startswith("FLEETHOOK_"):
            raise ConfigError(
                f"{match[0]} is a variable of Fleethook itself and is not sent", hint="use another variable"
            )
        if with_default and not os.environ.get(name):
            return default
        if name not in os.environ:
            raise ConfigError(f"the variable {name} is not set", hint=f"set {name} where the workers run")
        return os.environ[name]

    return {name: _VARIABLE.sub(variable, value) for name, value in values.items()}
