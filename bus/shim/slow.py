"""How the hook command waits for a slow hook, a held call, and the answer of a full server; loaded only then."""

import time

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SLICE_S = 1.0
"""Seconds of one wait for the answer; after each, the evaluator's note shows whether the hook still runs."""
LATE_S = 2.0
"""How many seconds late a reply may be before the server counts as away."""
AGAIN_S = 5.0
"""How long after an outage an evaluator may take until it says that it works at a request that was sent again."""
GAP_S = 2.0
"""How long a note may be missing that was there: a server that lost its data gets it again within a second."""
AT_ONCE = b"0.001"


def find(link: "Any", reply: bytes) -> "int | bytes | None":
    """The answer that came while a connection was lost; None without one. Raises OSError, NoAnswer. `link` is a `main.Link`."""
    until = link.until
    seconds = max(0.0, until - time.monotonic())
    try:
        return link.exchange(seconds, b"BLMOVE", reply, reply, b"LEFT", b"LEFT", AT_ONCE)  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - raised again where it is another
        return read_from_full(link.exchange, reply, time.monotonic(), error)
    finally:
        link.until = until


def wait_longer(
    call: "Any", exchange: "Callable[..., int | bytes | None]", reply: bytes, longest: float
) -> "int | bytes | None":
    """The reply of a `HookCall`, by its deadline or by `longest`; None without one. Raises OSError, NoAnswer.

    After its deadline the call waits only while there is a note beside the reply key: an evaluator keeps it alive while a
    slow hook runs, so if evaluators or the server die, the call does not wait for the hook's whole time. The note of a call
    that waits for a person has the answer that counts if no other one comes. A call that had waited so when the connection
    broke has sent its request again: an evaluator has AGAIN_S for the first note.

    `exchange` takes seconds and the words of a command.
    """
    note, deadline, until = reply + b":wait", 0.0 if call.waits else call.soft, max(call.soft, longest)
    late = LATE_S if until > deadline else (call.end - deadline) / 3
    again = time.monotonic() + AGAIN_S if call.waits else 0.0
    while (now := time.monotonic()) < until:
        limit = max(0.0, deadline - now) + late
        try:
            runs = exchange(limit, b"BLMOVE", note, note, b"LEFT", b"LEFT", AT_ONCE)
        except Exception as error:
            if not is_full(error):
                raise
            runs = exchange(limit, b"EXISTS", note)
        if isinstance(runs, bytes) and runs[:4] == b"FH1 ":
            call.provisional = runs
        again = max(again, now + GAP_S) if runs else again
        if runs and now >= deadline:
            call.waits, call.soft, call.end = True, until, call.hard
        going = bool(runs) or now < again
        seconds = max(0.001, min(SLICE_S, (until if going else deadline) - now))
        try:
            answer = exchange(limit + seconds, b"BLMOVE", reply, reply, b"LEFT", b"LEFT", b"%.3f" % seconds)
        except Exception as error:  # noqa: BLE001 - raised again where it is another
            answer = read_from_full(exchange, reply, now + seconds, error)
        if answer is not None or not (going or now < deadline):
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
