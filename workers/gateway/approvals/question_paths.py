"""`/v1/approvals`: the questions of held calls, and a person's answers to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import DecodeError
from bus.lazy.conversions import from_json
from bus.verdicts import ApprovalState
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.approvals.decisions import MOST_COMMENT, Person, Result, Verb, answer
from workers.approvals.inbox import InboxItem
from workers.approvals.inbox_reader import InboxReader
from workers.approvals.questions import (
    STATES,
    Question,
    QuestionFilter,
    question_page,
    read_question,
    whole_question_id,
)
from workers.gateway.access import CALLER, RIGHTS
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.bodies import read_body
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import (
    entity_tag,
    is_known,
    json_response,
    list_response,
    not_modified,
    page_response,
)
from workers.gateway.records.queries import Cursor, Limit, ListQuery, NoQuery, Session, read_query
from workers.records.pages import INDEX_POSITION

_MOST_BODY: Final = 16 * 1024


class QuestionQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which questions."""

    state: Annotated[
        tuple[ApprovalState, ...], Meta(description="In one of these states. May come often; without it, every state.")
    ] = ()
    session: Session = ""
    source: Annotated[str, Meta(description="Of one agent, such as `claude`.")] = ""
    host: Annotated[str, Meta(description="Of one machine.")] = ""
    tool: Annotated[str, Meta(description="About one tool, such as `bash`.")] = ""
    limit: Limit = 50
    cursor: Cursor = ""


class Comment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the person says with the answer; the model reads it."""

    comment: Annotated[str, Meta(max_length=MOST_COMMENT)] = ""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer did."""

    id: str
    state: ApprovalState
    by: str
    """Who has answered; empty while more persons have to approve."""
    missing: int
    """How many more persons have to approve."""
    agent_waits: bool
    """Whether the agent waited for this answer; if not, its next call that is the same passes once, within ten minutes."""


class Answering:
    """The questions of one gateway's fleet."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._inbox = InboxReader(connections, keys)

    async def questions(self, request: Request) -> Response:
        """The questions of held calls, newest first."""
        query = read_query(request, QuestionQuery)
        wanted = QuestionFilter(
            states=query.state, session=query.session, source=query.source, host=query.host, tool=query.tool
        )
        return await page_response(
            request,
            query.limit,
            query.cursor,
            INDEX_POSITION,
            lambda most, before: question_page(self._connections, self._keys, wanted, most, before),
            plain,
        )

    async def question(self, request: Request) -> Response:
        """One question, by its id or how it begins."""
        read_query(request, NoQuery)
        name = await whole_question_id(self._connections, self._keys, request.path_params["id"])
        return json_response(plain(await read_question(self._connections, self._keys, name)))

    async def inbox(self, request: Request) -> Response:
        """Everything that waits for a person on any host, the oldest first."""
        query = read_query(request, ListQuery)
        found = await self._inbox.read()
        tag = entity_tag(request, found.version)
        if is_known(request, tag):
            return not_modified(tag)
        plain_items = [msgspec.to_builtins(item) for item in found.items]
        keys = ("since", "session", "source", "host", "kind", "text")
        response = list_response(request, query, plain_items, keys)
        response.headers["ETag"] = tag
        return response

    async def approve(self, request: Request) -> Response:
        """Let a held call run, as the person whose token or sign-in this is."""
        return await self._answer(request, "approve")

    async def deny(self, request: Request) -> Response:
        """Refuse a held call, as the person whose token or sign-in this is."""
        return await self._answer(request, "deny")

    async def _answer(self, request: Request, verb: Verb) -> Response:
        try:
            said = from_json(await read_body(request, _MOST_BODY) or b"{}", Comment)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DecodeError(f"the body cannot be read: {error}") from error
        name = await whole_question_id(self._connections, self._keys, request.path_params["id"])
        question = await read_question(self._connections, self._keys, name)
        person = Person(request.scope[CALLER], request.scope[RIGHTS].via)
        result = await answer(self._connections, self._keys, name, verb, person, said.comment)
        check(result, name, verb)
        return json_response(
            msgspec.to_builtins(
                Answered(
                    id=name,
                    state=result.state or "waiting",
                    by=result.by,
                    missing=result.missing,
                    agent_waits=question.agent_waits,
                )
            )
        )


def check(result: Result, name: str, verb: Verb) -> None:
    """Raise Problem unless the answer counted."""
    if result.word == "unknown":
        raise Problem(404, "not-found", f"there is no question {name[:80]!r} any more")
    if result.word == "refused":
        raise Problem(403, "not-asked", "others are asked: the question names the persons that can answer it")
    wanted: ApprovalState = "approved" if verb == "approve" else "denied"
    if result.word == "before" or (result.word == "done" and result.state != wanted):
        by = f" by {result.by}" if result.by else ""
        state = STATES[result.state] if result.state else "gone"
        raise Problem(409, "decided", f"this question was decided before: {state}{by}")


def plain(question: Question) -> dict[str, object]:
    """A question as JSON, with every field."""
    return {name: msgspec.to_builtins(getattr(question, name)) for name in Question.__struct_fields__}


def approval_paths(connections: Connections, keys: Keys) -> tuple[ApiPath, ...]:
    """The paths of questions and answers."""
    here = Answering(connections, keys)

    def act(verb: Literal["approve", "deny"], handle: Callable[[Request], Awaitable[Response]]) -> ApiPath:
        path = f"/v1/approvals/{{id}}/{verb}"
        return ApiPath("POST", path, "operate", handle, (Content(Answered),), body=(Content(Comment),), refusals=(409,))

    return (
        ApiPath("GET", "/v1/approvals", "observe", here.questions, (), item=Question, query=QuestionQuery),
        ApiPath("GET", "/v1/approvals/{id}", "observe", here.question, (Content(Question),), query=NoQuery),
        ApiPath(
            "GET",
            "/v1/inbox",
            "observe",
            here.inbox,
            (),
            item=InboxItem,
            query=ListQuery,
            headers=(("If-None-Match", "The `ETag` of an answer: if nothing has changed since, the answer is a 304."),),
            also=(304,),
        ),
        act("approve", here.approve),
        act("deny", here.deny),
    )
