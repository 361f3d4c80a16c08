"""The outcome of one run of one hook."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.verdicts import Charge, Decision, LimitUse, ModelUse


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one run of one hook; after a `failure`, the failure policy decides."""

    decision: Decision = "abstain"
    reason: str = ""
    instead: str = ""
    contexts: tuple[str, ...] = ()
    updated_input: dict[str, Any] | None = None
    updated_output: Any = None
    """What the model reads instead of the tool's output, in the agent's own form; None leaves the output as it is."""
    halt: str = ""
    """Why the agent has to stop altogether (Claude Code's `continue: false`); empty if it continues."""
    permissions: tuple[dict[str, Any], ...] = ()
    """Changes of the agent's permissions that come with an allow (Claude Code's `updatedPermissions`)."""
    interrupt: bool = False
    """The deny also interrupts the agent's turn (Claude Code's `interrupt`)."""
    failure: str = ""
    """Why the hook gave no answer: timeout, spawn error, signal, crash, unreadable output; empty if it answered."""
    note: str = ""
    """A message for the user, although the hook answered, or although it was not run to avoid a loop."""
    exit_code: int | None = None
    output: str = ""
    """The end of what the hook printed, redacted, for the trace."""
    model: ModelUse | None = None
    """What a hook that asks a model used."""
    limit: LimitUse | None = None
    """The limit of the rule, where its other conditions fit."""
    facts: tuple[str, ...] = ()
    """The facts of the session that its condition read."""
    charge: Charge | None = None
    """What the call adds to that limit."""


NOTHING: Final = Outcome()
"""The outcome of a rule that does not fit; a verdict has only its name and its time (`Verdict.silent`)."""
