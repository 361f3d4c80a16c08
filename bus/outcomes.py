"""What one run of one hook came to."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.verdicts import Decision


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of one hook came to; a `failure` leaves the decision to the failure policy."""

    decision: Decision = "abstain"
    reason: str = ""
    instead: str = ""
    contexts: tuple[str, ...] = ()
    updated_input: dict[str, Any] | None = None
    updated_output: Any = None
    """What the model reads in the place of the tool's output, in the agent's own form; None leaves it as it is."""
    halt: str = ""
    """Why the agent's work ends here, beyond a deny (Claude Code's `continue: false`); empty where it goes on."""
    permissions: tuple[dict[str, Any], ...] = ()
    """Changes of the agent's permissions that an allow brings along (Claude Code's `updatedPermissions`)."""
    interrupt: bool = False
    """A deny that also ends what the agent does now (Claude Code's `interrupt`)."""
    failure: str = ""
    """Why the hook gave no answer: timeout, spawn error, signal, crash, unreadable output; empty where it did."""
    note: str = ""
    """What a person should know although the hook gave its answer, or was kept from running in a loop."""
    exit_code: int | None = None
    output: str = ""
    """The end of what it printed, redacted, for the trace."""


NOTHING: Final = Outcome()
"""What a rule comes to that does not fit; a verdict names it and says no more of it."""
