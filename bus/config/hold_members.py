"""The persons who can answer a held call: the members of the group that its hook names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bus.config.validation import suggestion
from bus.errors import ConfigError
from bus.verdicts import Hold


def with_members(hold: Hold | None, groups: Mapping[str, Sequence[str]]) -> Hold | None:
    """The hold with the members of its group; raises ConfigError where nobody, or too few, could ever approve."""
    if hold is None:
        return None
    members = tuple(dict.fromkeys(hold.members))
    if hold.group:
        if members:
            raise ConfigError("a hold has either a group or members", hint="add the members to the group")
        if hold.group not in groups:
            hint = suggestion(hold.group, groups) or "`groups:` of the same file lists the groups"
            raise ConfigError(f"there is no group {hold.group[:64]!r} in this file", hint=hint)
        members = tuple(dict.fromkeys(groups[hold.group]))
        if not members:
            raise ConfigError(f"the group {hold.group[:64]!r} has no member", hint="add names of tokens")
    if members and len(members) < hold.persons:
        raise ConfigError(f"{hold.persons} persons have to approve, and only {len(members)} can")
    return msgspec.structs.replace(hold, members=members)
