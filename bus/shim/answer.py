"""The answer of an agent's hook command: exit code, stdout and stderr, as bytes that the shim only copies."""

from __future__ import annotations

from typing import Final, NamedTuple

from bus.errors import DecodeError

_MAGIC: Final = b"FH1"


class HookAnswer(NamedTuple):
    """The output and exit code of an agent's hook command."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    lost: tuple[str, ...] = ()
    """The parts of the verdict that this answer cannot carry; for the record, and never sent."""


def pack_answer(answer: HookAnswer) -> bytes:
    """`FH1 <exit> <length of stdout> <length of stderr>\\n`, then both; the shim reads it without any import."""
    head = b"%s %d %d %d\n" % (_MAGIC, answer.exit_code, len(answer.stdout), len(answer.stderr))
    return head + answer.stdout + answer.stderr


def unpack_answer(raw: bytes) -> HookAnswer:
    """The answer in a reply to an agent's own payload; raises DecodeError."""
    head, newline, rest = raw.partition(b"\n")
    parts = head.split(b" ")
    if not newline or len(parts) != 4 or parts[0] != _MAGIC:
        raise DecodeError("reply is not an answer for a hook command")
    try:
        code, out, err = (int(part) for part in parts[1:])
    except ValueError as error:
        raise DecodeError("reply is not an answer for a hook command") from error
    if len(rest) != out + err:
        raise DecodeError("answer is cut short")
    return HookAnswer(code, rest[:out], rest[out:])
