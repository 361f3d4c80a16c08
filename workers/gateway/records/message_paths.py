"""`/v1/messages`: people's messages into running sessions (X-12)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import ConfigError
from bus.matching.conditions import MAX_LENGTH
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.fleet_control.messages import MOST_TEXT, Message, messages, say
from workers.gateway.access import CALLER, RIGHTS
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import list_response
from workers.gateway.records.queries import ListQuery, check_where, read_query
from workers.gateway.records.stop_paths import order_answer, read_order


class MessageOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message and its sessions: one of `to` and `where`."""

    text: Annotated[str, Meta(min_length=1, max_length=MOST_TEXT)]
    to: Annotated[str, Meta(max_length=512, description="A running session, by its id or how it begins.")] = ""
    where: Annotated[
        str,
        Meta(
            max_length=MAX_LENGTH,
            description="A CEL condition on event.session, event.source, event.host and event.cwd; `true` for every session.",
        ),
    ] = ""


class Messaging:
    """The messages of one gateway's fleet."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys

    async def show(self, request: Request) -> Response:
        """The last 50 messages with what came of each, newest first."""
        query = read_query(request, ListQuery)
        found = await messages(self._connections, self._keys)
        plain = [msgspec.to_builtins(message) for message in found]
        return list_response(request, query, plain, ("at", "id"), newest_first=True)

    async def send(self, request: Request) -> Response:
        """Send a message, in the name of the caller."""
        order = await read_order(request, MessageOrder)
        by, via = request.scope[CALLER], request.scope[RIGHTS].via
        check_where(order.where)
        try:
            message = await say(
                self._connections,
                self._keys,
                order.text,
                by=by,
                via=via,
                to=order.to,
                where=order.where,
            )
        except ConfigError as error:
            raise Problem(400, "message-invalid", str(error)) from error
        return order_answer(message)


def message_paths(connections: Connections, keys: Keys) -> tuple[ApiPath, ...]:
    """The paths of messages."""
    here = Messaging(connections, keys)
    return (
        ApiPath("GET", "/v1/messages", "observe", here.show, (), item=Message, query=ListQuery),
        ApiPath(
            "POST",
            "/v1/messages",
            "operate",
            here.send,
            (Content(Message),),
            body=(Content(MessageOrder),),
            refusals=(404,),
        ),
    )
