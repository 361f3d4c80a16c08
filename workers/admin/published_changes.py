"""What a new version of the published hook set changes: a diff for people, and the guards that it weakens."""

from __future__ import annotations

import re
from typing import Final

from bus.hooksets.guard_changes import Loss, weakened
from bus.hooksets.hookfile import HookFile
from bus.hooksets.in_force import HookSet, Layered
from bus.secrets.redaction import redact_text

_REFERENCE: Final = re.compile(r'[-+ ]\s*(?:"secret": "(?:(?:env|file):[^"]*|\[[^"]*\])",?|"old_secrets": \[)\s*\Z')
"""A line of a diff that refers to a secret or shows its fingerprint, without the secret itself."""
_NAMED: Final = re.compile(r'"?(?:old_)?secrets?"?: *(?:\[\{"?secret"?: *)?"?(?:env|file):[^",}\]\s]*"?')
"""Such a reference within a line of a person's file."""


def guard_losses(before: HookFile, after: HookFile) -> tuple[Loss, ...]:
    """The guards of `before` that are missing or weaker in `after`."""
    old, new = (HookSet([Layered("fleet", "1", file)]).hooks for file in (before, after))
    return weakened(old, new)


def redacted_diff(changes: str) -> str:
    """A diff without secrets; a reference such as `env:NAME` is shown."""
    return "\n".join(line if _REFERENCE.match(line) else _without_secrets(line) for line in changes.splitlines())


def _without_secrets(line: str) -> str:
    """The line redacted, except for the references in it."""
    parts = iter(_NAMED.findall(line))
    return re.sub("\x00", lambda _: next(parts), redact_text(_NAMED.sub("\x00", line.replace("\x00", ""))))
