"""The page of a one-time link: it shows the question. Only its form answers, because link previews fetch the page too."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.approvals.decisions import LINK_HOLDER, MOST_COMMENT, Person, Verb, answer
from workers.approvals.questions import STATES, Question, read_questions
from workers.approvals.summary import input_fields
from workers.delivery.answer_links import PATH, link_key
from workers.delivery.formats.text import safe
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.bodies import read_body
from workers.gateway.problems import Problem

_HTML: Final = (Content(str, ("text/html",)),)
_MOST_BODY: Final = 8 * 1024
_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 42rem; margin: 0 auto; padding: 1rem; }
h2 { font-size: 1rem; margin: 1rem 0 .25rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .75rem; border: 1px solid; border-radius: .4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dt { opacity: .75; } dd { margin: 0; overflow-wrap: anywhere; }
label { display: block; margin: 1rem 0; } input { font: inherit; width: 100%; box-sizing: border-box; padding: .5rem; }
button { font: inherit; padding: .75rem 1.5rem; margin: 0 1rem 0 0; border: 2px solid; border-radius: .4rem; cursor: pointer; }
button[data-chosen] { font-weight: bold; border-width: 4px; }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    # Not `no-referrer`: with it a browser sends the form with `Origin: null`, which is refused.
    "Referrer-Policy": "same-origin",
    "X-Robots-Tag": "noindex, nofollow",
}
_GONE: Final = "This link is not valid any more: the question was answered or has ended, or the link is not complete."


class LinkPages:
    """The pages of one gateway."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys

    async def show(self, request: Request) -> Response:
        """The question with its buttons; changes nothing."""
        question = await self._question(request)
        if question is None:
            return _page("Not valid any more", f"<p>{_GONE}</p>", 404)
        if question.state != "waiting":
            return _ended(question)
        return _page("Answer", _form(question, request.query_params.get("answer", "")))

    async def decide(self, request: Request) -> Response:
        """Answers the question, as the holder of the link."""
        fields = parse_qs((await read_body(request, _MOST_BODY)).decode("utf-8", "replace"), max_num_fields=10)
        said = fields.get("answer", [""])[0]
        if said not in {"approve", "deny"}:
            raise Problem(400, "body-invalid", "the form has to say `answer=approve` or `answer=deny`")
        verb: Verb = "approve" if said == "approve" else "deny"
        question = await self._question(request)
        if question is None:
            return _page("Not valid any more", f"<p>{_GONE}</p>", 404)
        comment = fields.get("comment", [""])[0][:MOST_COMMENT]
        result = await answer(self._connections, self._keys, question.id, verb, Person(LINK_HOLDER, "link"), comment)
        if result.word == "refused":
            return _page("Not by link", "<p>This question needs a person with a token; a link does not count.</p>", 403)
        with self._connections.lease() as connection:
            await connection.exchange([("DEL", self._key(request))])
        (now,) = await read_questions(self._connections, self._keys, [question.id])
        status = 200 if result.word == "done" else 409
        return _ended(now or question, status)

    async def _question(self, request: Request) -> Question | None:
        with self._connections.lease() as connection:
            (name,) = await connection.exchange([("GET", self._key(request))])
        found = checked(name, "looking for a link")
        if not found:
            return None
        (question,) = await read_questions(self._connections, self._keys, [found.decode()], inputs=True)
        return question

    def _key(self, request: Request) -> str:
        return link_key(self._keys, request.path_params["token"])


def link_pages(connections: Connections, keys: Keys) -> tuple[ApiPath, ...]:
    """The paths of the pages; they need no token but the one in their path."""
    pages, path = LinkPages(connections, keys), f"{PATH}{{token}}"
    return (
        ApiPath("GET", path, None, pages.show, _HTML, from_anywhere=True),
        ApiPath("POST", path, None, pages.decide, _HTML, body=(Content(None),), refusals=(409,)),
    )


def _form(question: Question, chosen: str) -> str:
    buttons = "".join(
        f'<button name="answer" value="{verb}"{" data-chosen" if verb == chosen else ""}>{label}</button>'
        for verb, label in (("approve", "Approve"), ("deny", "Deny"))
    )
    late = "" if question.agent_waits else "<p>The agent waits no longer: a yes lets the same call pass once.</p>"
    return (
        f"{_facts(question)}{late}"
        f'<form method="post"><label>Comment <input name="comment" maxlength="{MOST_COMMENT}"></label>{buttons}</form>'
    )


def _facts(question: Question) -> str:
    listed = (
        ("Tool", question.tool),
        ("Agent", question.source),
        ("Session", question.session),
        ("Host", question.host),
        ("Folder", question.cwd),
        ("Rule", ", ".join(rule.hook for rule in question.rules)),
        ("Reason", question.reason),
        ("Without an answer", question.default),
    )
    rows = "".join(f"<dt>{name}</dt><dd>{escape(safe(text))}</dd>" for name, text in listed if text)
    return f"{_call(question)}<dl>{rows}</dl>"


def _call(question: Question) -> str:
    """The call: its whole input while the question waits, else what it is about."""
    if question.input is None:
        return f"<pre>{escape(safe(question.summary))}</pre>"
    changed = "<p>Hooks have changed the input that the agent gave. This is what runs:</p>"
    fields = "".join(
        f"<h2>{escape(safe(name))}</h2><pre>{escape(safe(text))}</pre>" for name, text in input_fields(question.input)
    )
    return (changed if question.input_changed else "") + fields


def _ended(question: Question, status: int = 200) -> Response:
    by = f" by {escape(safe(question.by))}" if question.by else ""
    text = f"<p>This call is <strong>{STATES[question.state]}</strong>{by}.</p>"
    return _page(STATES[question.state].capitalize(), text + _facts(question), status)


def _page(title: str, content: str, status: int = 200) -> Response:
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · Fleethook</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{content}</main></body></html>"
    )
    return Response(html, status, _HEADERS, "text/html; charset=utf-8")
