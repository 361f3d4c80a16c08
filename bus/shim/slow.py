"""How the hook command waits for a hook that takes longer than its deadline; loaded only then."""

import time

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_S = 1.0
"""One wait for the answer; after each the evaluator's note says whether the hook still runs."""
LATE_S = 2.0
"""How late the server may be with its word before it counts as gone."""
AT_ONCE = b"0.001"


def wait_longer(exchange: "Callable[..., int | bytes | None]", reply: bytes, until: float) -> "int | bytes | None":
    """The reply, or None: no evaluator says any more that the hook runs, or `until` has come. Raises OSError, NoAnswer.

    `exchange` takes seconds and the words of a command. The note is a list beside the reply key, which the evaluator
    keeps alive while the hook runs. So neither an evaluator's death nor a dead server costs what the hook was given.
    """
    while (now := time.monotonic()) < until:
        note, seconds = reply + b":wait", min(SLICE_S, until - now)
        runs = exchange(LATE_S, b"BLMOVE", note, note, b"LEFT", b"LEFT", AT_ONCE)
        patience = b"%.3f" % seconds if runs else AT_ONCE
        answer = exchange(seconds + LATE_S, b"BLMOVE", reply, reply, b"LEFT", b"LEFT", patience)
        if answer is not None or not runs:
            return answer
    return None
