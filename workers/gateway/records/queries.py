"""The parameters of calls: one type for each kind of call. `/openapi.json` describes the parameters by these types."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request

from bus.errors import ConfigError
from bus.lazy.conversions import converted
from bus.verdicts import Policy
from workers.admin.hook_findings import check_condition
from workers.delivery.filters import Filter
from workers.gateway.problems import Problem
from workers.records.moments import parse_moment

MOST_ITEMS: Final = 1_000

State = Literal["ready", "running", "due", "parked", "delivered", "dead"]
Decision = Literal["", "allow", "deny", "ask", "abstain", "fallback"]
_TIME: Final = "a length of time ago (90s, 12h, 7d), a date (2026-11-21T14:30:00Z), or milliseconds since 1970"

Types = Annotated[tuple[str, ...], Meta(description="Event patterns, as in a hook's `on`: `tool:*`. Repeatable.")]
Session = Annotated[str, Meta(description="The session's id, or the beginning of it.")]
Since = Annotated[str, Meta(description=f"No older than this: {_TIME}.")]
Until = Annotated[str, Meta(description=f"No newer than this: {_TIME}.")]
Limit = Annotated[int, Meta(ge=1, le=MOST_ITEMS, description="The most items of a page.")]
PageLimit = Annotated[
    Annotated[int, Meta(ge=1, le=MOST_ITEMS)] | None,
    Meta(description="The most items of a page. Without it and a cursor, the whole list in its own order."),
]
Wait = Annotated[str, Meta(description="The longest wait for a verdict: `5s`.", examples=["5s"])]
Cursor = Annotated[str, Meta(description="The value `next` of the previous page. Use the same filters.")]

_PLURALS: Final = {"type": "types", "state": "states"}
"""The names of repeatable parameters, and of their fields in a filter."""


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a list that comes whole without these parameters."""

    limit: PageLimit = None
    cursor: Cursor = ""


class SessionQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects sessions."""

    source: Annotated[str, Meta(description="Of one agent, such as `claude`.")] = ""
    host: Annotated[str, Meta(description="Of one machine.")] = ""
    ended: Annotated[bool | None, Meta(description="`true`: only those that have ended; `false`: only the others.")] = (
        None
    )
    uncovered: Annotated[
        bool | None, Meta(description="`true`: only those with tool calls that ran without their pre-hook event.")
    ] = None


class Filters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The filters of events, deliveries and dead letters."""

    type: Types = ()
    session: Session = ""
    since: Since = ""
    until: Until = ""

    def filter(self) -> Filter:
        """The filter; raises ConfigError."""
        fields = {_PLURALS.get(name, name): value for name, value in msgspec.structs.asdict(self).items()}
        fields.pop("limit", None)
        fields.pop("cursor", None)
        if where := fields.get("where"):
            check_condition(where)
        return Filter(**{**fields, "since": _moment(self.since), "until": _moment(self.until)})


class EventQuery(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects events."""

    tool: Annotated[str, Meta(description="Tool names with |, or a regular expression.")] = ""
    source: Annotated[str, Meta(description="Of one agent, such as `claude`.")] = ""
    decision: Annotated[
        Decision, Meta(description="The decision; `fallback` selects the answers that no hook gave.")
    ] = ""
    trace: Annotated[str, Meta(description="Of this W3C trace, by its id or the beginning of it.")] = ""
    where: Annotated[str, Meta(description="A CEL condition, as a hook's `when`: `event.tool == 'bash'`.")] = ""
    limit: Limit = 50
    cursor: Cursor = ""


class LetterFilters(Filters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects dead letters."""

    endpoint: Annotated[str, Meta(description="Of this endpoint or hook, by its id.")] = ""
    target: Annotated[str, Meta(description="With this text in the target: `endpoint:log`, `hook:lint`.")] = ""
    event: Annotated[str, Meta(description="Of this event, by its id or the beginning of it.")] = ""
    reason: Annotated[str, Meta(description="With this text in the reason, in upper or lower case.")] = ""


class ReasonQuery(LetterFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects dead letters that are counted by reason."""

    limit: PageLimit = None
    cursor: Cursor = ""


class LetterQuery(LetterFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects dead letters, a page at a time."""

    limit: Limit = 50
    cursor: Cursor = ""


class DeliveryQuery(LetterQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects deliveries."""

    state: Annotated[tuple[State, ...], Meta(description="In one of these states. Repeatable.")] = ()
    status: Annotated[str, Meta(description="With this status of the last attempt: `503`, `5xx`.")] = ""
    payload: Annotated[
        str, Meta(description="With this text in a body that was sent, where Gobby's `log_deliveries` records these.")
    ] = ""


class HookQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a hook call, and of a request for a verdict."""

    on_failure: Annotated[Policy, Meta(description="The failure policy; a stricter setting wins.")] = "allow"
    wait: Wait = ""


class LiveQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the live feed: its beginning and its messages."""

    cursor: Annotated[str, Meta(description="The cursor of the last message; without it the feed begins now.")] = ""
    events: Annotated[str, Meta(description="Event patterns, with commas between them.")] = ""
    where: Annotated[str, Meta(description="A CEL condition, as a hook's `when`.")] = ""


class ReadyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `/readyz`."""

    verbose: Annotated[str, Meta(description="Lists the checks; its value does not matter.")] = ""


Q = TypeVar("Q", bound=msgspec.Struct)


def read_query(request: Request, kind: type[Q]) -> Q:
    """The parameters of a call; raises Problem for one that is unknown, comes twice, or has a bad value."""
    many = {field.name for field in msgspec.structs.fields(kind) if field.default == ()}
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in many:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise bad_query(f"the parameter {name[:80]!r} came twice")
        else:
            given[name] = value
    try:
        return converted(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise bad_query(str(error)) from error


def bad_query(detail: str) -> Problem:
    """The problem of a call whose parameters are wrong."""
    return Problem(400, "query-invalid", f"{detail}; /openapi.json lists the parameters")


def check_where(condition: str) -> None:
    """Raise Problem for a condition with a mistake, which would fit other agents than its author means; none is fine."""
    if condition:
        try:
            check_condition(condition)
        except ConfigError as error:
            raise Problem(400, "where-invalid", str(error)) from error


def _moment(text: str) -> int:
    return parse_moment(text) if text else 0


def filter_of(query: Filters) -> Filter:
    """The filter that a query describes; raises Problem."""
    try:
        return query.filter()
    except ConfigError as error:
        raise bad_query(str(error)) from error
