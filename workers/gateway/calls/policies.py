"""The failure policies that a call names in its query: `?on_failure=deny`."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.datastructures import QueryParams

from bus.verdicts import POLICIES, Policy
from workers.gateway.problems import Problem
from workers.gateway.records.queries import HookQuery, bad_query

_PARAMETERS: Final = frozenset(field.name for field in msgspec.structs.fields(HookQuery))


def given_policies(query: QueryParams) -> list[Policy]:
    """The policies in the query of a call; raises Problem for one that there is not, and for another parameter."""
    if unknown := sorted(set(query) - _PARAMETERS):
        raise bad_query(f"there is no parameter {unknown[0][:80]!r}; there are {', '.join(sorted(_PARAMETERS))}")
    for text in query.getlist("on_failure"):
        if text not in POLICIES:
            raise Problem(400, "policy-invalid", f"on_failure is {text[:40]!r}; it is one of {', '.join(POLICIES)}")
    return meant_policies(query)


def meant_policies(query: QueryParams) -> list[Policy]:
    """The same without a problem: `deny` for a policy that there is not, since somebody wanted one."""
    return [text if text in POLICIES else "deny" for text in query.getlist("on_failure")] or ["allow"]
