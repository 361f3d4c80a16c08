"""Reads what a client of the feed sends: the subscriptions in its URL, and its messages."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.datastructures import QueryParams

from bus.errors import DecodeError
from bus.wire.codec import read_json
from workers.gateway.live.subscriptions import Subscriptions
from workers.gateway.problems import Problem
from workers.gateway.records.queries import LiveQuery, bad_query

_PARAMETERS: Final = frozenset(field.name for field in msgspec.structs.fields(LiveQuery))


def asked_subscriptions(query: QueryParams) -> Subscriptions:
    """The subscriptions of `?events=tool:*,session:*&where=…`; raises Problem."""
    if unknown := sorted(set(query) - _PARAMETERS):
        raise bad_query(f"there is no parameter {unknown[0][:80]!r}; there are {', '.join(sorted(_PARAMETERS))}")
    subscriptions = Subscriptions()
    patterns = [part.strip() for text in query.getlist("events") for part in text.split(",") if part.strip()]
    where = query.get("where", "")
    if patterns or where:
        subscriptions.subscribe(patterns or ("*",), where)
    return subscriptions


def read_command(text: str) -> tuple[str, list[str], str]:
    """A client's message: its type, its patterns and its condition; raises Problem."""
    try:
        asked: Any = read_json(text.encode())
    except (DecodeError, UnicodeEncodeError) as error:
        raise Problem(400, "message-invalid", f"a message is a JSON object: {error}") from error
    if not isinstance(asked, dict):
        raise Problem(400, "message-invalid", "a message is a JSON object")
    kind, patterns, where = asked.get("type"), asked.get("events") or [], asked.get("where") or ""
    if kind not in {"subscribe", "unsubscribe", "ping"}:
        raise Problem(400, "message-invalid", "a message's type is `subscribe`, `unsubscribe` or `ping`")
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise Problem(400, "message-invalid", "`events` is a list of event patterns")
    if not isinstance(where, str):
        raise Problem(400, "message-invalid", "`where` is a CEL condition in a string")
    return kind, patterns, where
