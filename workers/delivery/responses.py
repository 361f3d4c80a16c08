"""The part of a response that the log of attempts keeps: its head and the beginning of its body, redacted, at most 4 KiB."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from bus.http.webhook_client import Reply
from bus.secrets.redaction import is_secret_name, redact_text
from bus.secrets.replacements import REDACTED

SHOWN: Final = 4096
"""Characters of head and body together."""

_MOST_HEAD: Final = 3072
_MOST_VALUE: Final = 1000


def response_text(reply: Reply) -> tuple[str, str]:
    """The status line with the headers, and the beginning of the body; two empty texts if there is no response."""
    if not reply.status:
        return "", ""
    lines, room = [_status(reply.status, reply.reason)], _MOST_HEAD
    for name, value in reply.headers:
        line = _line(name[:100], value[: 2 * _MOST_VALUE])
        room -= len(line) + 1
        if room < 0:
            lines.append("…")
            break
        lines.append(line)
    head = "\n".join(lines)
    return head, body_text(reply, SHOWN - len(head))


def body_text(reply: Reply, most: int = SHOWN) -> str:
    """The beginning of the body, redacted."""
    return beginning(reply.body, most)


def beginning(body: bytes, most: int = SHOWN) -> str:
    """The beginning of the body of a response or request, redacted."""
    # Twice the length is redacted, so that a secret at the cut is recognised.
    return redact_text(body[: 2 * most].decode("utf-8", "replace"))[:most] if body else ""


@lru_cache(maxsize=256)
def _status(status: int, reason: str) -> str:
    return f"{status} {redact_text(reason[: 2 * _MOST_VALUE])[:200]}".rstrip()


@lru_cache(maxsize=1024)
def _line(name: str, value: str) -> str:
    """One header, redacted. Receivers repeat the same headers, so the result is cached."""
    if is_secret_name(name):
        return f"{name}: {REDACTED}"
    return redact_text(f"{name}: {value}")[: len(name) + 2 + _MOST_VALUE]
