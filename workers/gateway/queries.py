"""What a list can be asked for in its URL: one type for each list, which is also what `/openapi.json` says of it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request

from bus.errors import ConfigError
from bus.verdicts import Policy
from workers.delivery.filters import Filter
from workers.gateway.problems import Problem
from workers.records.moments import parse_moment

MOST_ITEMS: Final = 1_000

State = Literal["ready", "running", "due", "parked", "delivered", "dead"]
Decision = Literal["", "allow", "deny", "ask", "abstain", "fallback"]
_TIME: Final = "a length of time ago (90s, 12h, 7d), a date (2026-11-21T14:30:00Z), or milliseconds since 1970"

Types = Annotated[tuple[str, ...], Meta(description="Event patterns, as in a hook's `on`: `tool:*`. May come often.")]
Session = Annotated[str, Meta(description="The session's id, or how it begins.")]
Since = Annotated[str, Meta(description=f"No older than this: {_TIME}.")]
Until = Annotated[str, Meta(description=f"No newer than this: {_TIME}.")]
Limit = Annotated[int, Meta(ge=1, le=MOST_ITEMS, description="The most items of a page.")]
Wait = Annotated[str, Meta(description="The longest wait for a verdict: `5s`.", examples=["5s"])]
Cursor = Annotated[str, Meta(description="The `next` of the page before, with the same filters.")]


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameter."""


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions."""

    source: Annotated[str, Meta(description="Of one agent, such as `claude`.")] = ""
    host: Annotated[str, Meta(description="Of one machine.")] = ""
    ended: Annotated[bool | None, Meta(description="`true`: only those that have ended; `false`: only the others.")] = (
        None
    )


class EventQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events."""

    type: Types = ()
    session: Session = ""
    tool: Annotated[str, Meta(description="Tool names with |, or a regular expression.")] = ""
    source: Annotated[str, Meta(description="Of one agent, such as `claude`.")] = ""
    decision: Annotated[Decision, Meta(description="What was decided; `fallback` for every answer of no hook.")] = ""
    where: Annotated[str, Meta(description="A CEL condition, as a hook's `when`: `event.tool == 'bash'`.")] = ""
    since: Since = ""
    until: Until = ""
    limit: Limit = 50
    cursor: Cursor = ""

    def filter(self) -> Filter:
        """The filter; raises ConfigError."""
        return Filter(
            types=self.type,
            session=self.session,
            tool=self.tool,
            source=self.source,
            decision=self.decision,
            where=self.where,
            since=_moment(self.since),
            until=_moment(self.until),
        )


class LetterQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters."""

    endpoint: Annotated[str, Meta(description="Of this endpoint or hook, by its id.")] = ""
    target: Annotated[str, Meta(description="With this text in the target: `endpoint:log`, `hook:lint`.")] = ""
    event: Annotated[str, Meta(description="Of this event, by its id or how it begins.")] = ""
    type: Types = ()
    session: Session = ""
    reason: Annotated[str, Meta(description="With this text in the reason, in upper or lower case.")] = ""
    since: Since = ""
    until: Until = ""
    limit: Limit = 50
    cursor: Cursor = ""

    def filter(self) -> Filter:
        """The filter; raises ConfigError."""
        return Filter(
            endpoint=self.endpoint,
            target=self.target,
            event=self.event,
            types=self.type,
            session=self.session,
            reason=self.reason,
            since=_moment(self.since),
            until=_moment(self.until),
        )


class DeliveryQuery(LetterQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries."""

    state: Annotated[tuple[State, ...], Meta(description="In one of these states. May come often.")] = ()
    status: Annotated[str, Meta(description="With this status of the last attempt: `503`, `5xx`.")] = ""

    def filter(self) -> Filter:
        """The filter; raises ConfigError."""
        return msgspec.structs.replace(super().filter(), states=self.state, status=self.status)


class HookQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How a hook call is answered."""

    on_failure: Annotated[Policy, Meta(description="The failure policy; a stricter setting wins.")] = "allow"
    wait: Wait = ""


class LiveQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where the feed begins, and what it sends."""

    cursor: Annotated[str, Meta(description="The cursor of the last message; without it the feed begins now.")] = ""
    events: Annotated[str, Meta(description="Event patterns, with commas between them.")] = ""
    where: Annotated[str, Meta(description="A CEL condition, as a hook's `when`.")] = ""


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How long a verdict may take."""

    wait: Wait = ""


class ReadyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How the state is told."""

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
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise bad_query(str(error)) from error


def bad_query(detail: str) -> Problem:
    """The problem of a call whose parameters are wrong."""
    return Problem(400, "query-invalid", f"{detail}; /openapi.json lists the parameters")


def _moment(text: str) -> int:
    return parse_moment(text) if text else 0


def filter_of(query: EventQuery | LetterQuery) -> Filter:
    """The filter that a query describes; raises Problem."""
    try:
        return query.filter()
    except ConfigError as error:
        raise bad_query(str(error)) from error
