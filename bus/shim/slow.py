"""How the hook command waits for a slow hook, and for the answer of a full server; loaded only then."""

import time

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_S = 1.0
"""Seconds of one wait for the answer; after each, the evaluator's note shows whether the hook still runs."""
LATE_S = 2.0
"""How many seconds late a reply may be before the server counts as away."""
AT_ONCE = b"0.001"


def wait_longer(exchange: "Callable[..., int | bytes | None]", reply: bytes, until: float) -> "int | bytes | None":
    """The reply, or None: no evaluator says any more that the hook runs, or `until` has come. Raises OSError, NoAnswer.

    `exchange` takes seconds and the words of a command. The note is a list beside the reply key, which the evaluator
    keeps alive while the hook runs. So if an evaluator or the server dies, the call does not wait for the hook's whole time.
    """
    while (now := time.monotonic()) < until:
        note, seconds = reply + b":wait", min(SLICE_S, until - now)
        try:
            runs = exchange(LATE_S, b"BLMOVE", note, note, b"LEFT", b"LEFT", AT_ONCE)
        except Exception as error:
            if not is_full(error):
                raise
            runs = exchange(LATE_S, b"EXISTS", note)
        try:
            patience = b"%.3f" % seconds if runs else AT_ONCE
            answer = exchange(seconds + LATE_S, b"BLMOVE", reply, reply, b"LEFT", b"LEFT", patience)
        except Exception as error:  # noqa: BLE001 - raised again where it is another
            answer = read_from_full(exchange, reply, now + seconds if runs else now, error)
        if answer is not None or not runs:
            return answer
    return None


def read_from_full(
    exchange: "Callable[..., int | bytes | None]", reply: bytes, until: float, error: Exception
) -> "int | bytes | None":
    """The reply from a server at its memory limit, which refuses BLMOVE and accepts BLPOP; None if none comes before `until`.

    Raises `error` if it is another error, or if our ACL is from a version that does not allow BLPOP.
    """
    if not is_full(error):
        raise error
    seconds = max(0.001, until - time.monotonic())
    try:
        return exchange(seconds + LATE_S, b"BLPOP", reply, b"%.3f" % seconds)
    except Exception as refused:
        if str(refused).endswith("NOPERM"):
            raise error from refused
        raise


def is_full(error: Exception) -> bool:
    """Whether an error is the refusal of a server at its memory limit."""
    return str(error).endswith(" OOM")
