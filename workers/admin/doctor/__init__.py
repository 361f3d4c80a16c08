"""Whether hooks really run here: every check as a value, with what is wrong and how to mend it.

`unknown` is a state of its own: what could not be seen is neither well nor ill.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

State = Literal["ok", "warn", "fail", "unknown"]
Mend = Literal["", "modes", "install", "spool"]

INSTALL: Final = "fleethook install"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: `fix` is what a person can do, `mend` what `doctor --fix` does about it."""

    id: str
    status: State
    what: str
    fix: str = ""
    mend: Mend = ""
    agent: str = ""
    """Whom it is about, where it is about one agent."""
