"""What a rule is: a declarative hook that needs no process."""

from __future__ import annotations

import msgspec

from bus.verdicts import Decision


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Placeholder shape; the full conditions follow."""

    decision: Decision = "deny"
    reason: str = ""
    instead: str = ""
