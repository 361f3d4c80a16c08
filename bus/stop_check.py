"""Whether a hook call fulfils the condition of a stop, for a hook command that reaches no evaluator.

`bus/shim/stop_flag.py` starts it with the agent, its event, the host and the condition, and the payload as stdin. Its exit
code is DOES_NOT_FIT if the stop does not concern the call; any other code counts as a fit, so no failure weakens a stop.
"""

from __future__ import annotations

import os
import sys

from bus.events import GATES
from bus.matching.scopes import scope_of
from bus.requests import read_event, read_request
from bus.shim.stop_flag import DOES_NOT_FIT
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry


def main(argv: list[str]) -> int:
    """Check one call; returns the exit code. Raises an exception if they cannot be read."""
    source, native, host, condition = (os.fsencode(word) for word in argv)
    body = sys.stdin.buffer.read()
    fields = {b"source": source, b"event": native, b"host": host, b"body": body}
    event = read_event(read_request(StreamEntry("", "0-0", fields), Keys()))
    fits = event.type in GATES and scope_of(bytes.fromhex(condition.decode()).decode()).fits(event)
    return 0 if fits else DOES_NOT_FIT
