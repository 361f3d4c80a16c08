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


def pack_answer(answer: HookAnswer, flag: bytes = b"") -> bytes:
    """`FH1 <exit> <length of stdout> <length of stderr>\\n`, then both; the shim reads it without any import.

    While a stop is in force, the head ends with the length of a stop flag, which comes last (`bus/shim/stop_flag.py`).
    """
    more = b" %d" % len(flag) if flag else b""
    head = b"%s %d %d %d%b\n" % (_MAGIC, answer.exit_code, len(answer.stdout), len(answer.stderr), more)
    return head + answer.stdout + answer.stderr + flag


def unpack_answer(raw: bytes) -> HookAnswer:
    """The answer in a reply to an agent's own payload; raises DecodeError."""
    head, newline, rest = raw.partition(b"\n")
    parts = head.split(b" ")
    if not newline or len(parts) not in {4, 5} or parts[0] != _MAGIC:
        raise DecodeError("reply is not an answer for a hook command")
    try:
        code, out, err, flag = (int(part) for part in (*parts[1:], b"0")[:4])
    except ValueError as error:
        raise DecodeError("reply is not an answer for a hook command") from error
    if len(rest) != out + err + flag:
        raise DecodeError("answer is cut short")
    return HookAnswer(code, rest[:out], rest[out : out + err])
