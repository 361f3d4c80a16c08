"""Questions and answers on the terminal: lists, one question in full, and what an answer did."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bus.ids import host_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.approvals.decisions import Person, Result, Verb
from workers.approvals.questions import STATES, Question
from workers.approvals.summary import input_fields
from workers.cli.common import Context
from workers.cli.formatting import plain, short, when
from workers.cli.output import Colour, printable
from workers.cli.screens.columns import Cell, Column, session_colour, sign
from workers.cli.screens.rows import list_times, short_id, shown_ids
from workers.gateway.tokens import TokenBook

COLOURS: Final[dict[str, Colour]] = {
    "waiting": "yellow",
    "approved": "green",
    "denied": "red",
    "timed_out": "yellow",
    "nobody_could_be_asked": "yellow",
    "overtaken": "yellow",
}
_COLUMNS: Final = (
    Column("ASKED", 8),
    Column("STATE", 8, 21),
    Column("LEFT", 5, rank=4),
    Column("AGENT", 8, 9, rank=3),
    Column("SESSION", 8, 8, rank=5),
    Column("TOOL", 6, 12, rank=2),
    Column("CALL", 16, 60, rank=1),
    Column("REASON", 24, rank=6),
    Column("BY", 8, rank=4),
    Column("ID", 10),
)


async def person_here(connections: Connections, keys: Keys) -> Person:
    """Who runs this command: the name of the token in FLEETHOOK_TOKEN if it may `operate`, else the user and host."""
    secret = os.environ.get("FLEETHOOK_TOKEN", "")
    token = await TokenBook(connections, keys).find(secret) if secret else None
    if token is not None and token.may("operate"):
        return Person(token.name, "token")
    return Person(f"{getpass.getuser()}@{host_name()}", "user")


def show_questions(fleet: Context, found: Sequence[Question], nothing: str, *, whole: bool) -> None:
    """Print a list of questions; `whole` shows every column and every id whole."""
    if fleet.json:
        fleet.data(msgspec.to_builtins(found))
    elif found:
        asked = list_times([question.asked for question in found])
        ids = shown_ids([question.id for question in found], whole)
        rows = [_cells(question, moment, name) for question, moment, name in zip(found, asked, ids, strict=True)]
        fleet.table(_COLUMNS, rows, whole=whole)
    else:
        fleet.say(nothing)


def question_lines(fleet: Context, question: Question) -> Iterator[str]:
    """One question in full."""
    state = fleet.style(STATES[question.state], COLOURS[question.state])
    yield f"{state}  {plain(question.tool or '')}  {question.id}"
    yield from _call_lines(question)
    yield f"  reason: {short(question.reason, 2_000)}"
    yield f"  agent: {plain(question.source)}, session {plain(question.session) or '-'}, host {plain(question.host) or '-'}"
    if question.cwd:
        yield f"  folder: {plain(question.cwd)}"
    for rule in question.rules:
        place = f"{rule.layer}@{rule.version}" if rule.version else rule.layer
        yield f"  asked by: {plain(rule.hook)} ({plain(place)}) {plain(rule.origin)}".rstrip()
    for need in question.needs:
        names = ", ".join(plain(name) for name in need.members) or "anybody with a token"
        yield f"  can be approved by: {names}" + (f"; {need.persons} persons have to" if need.persons > 1 else "")
    if question.approved_by:
        yield f"  approved so far by: {', '.join(map(plain, question.approved_by))}"
    yield f"  asked: {when(question.asked)}"
    if question.state == "waiting":
        until = when(question.due) if question.agent_waits else "no longer; a yes lets the same call pass once"
        yield f"  the agent waits until: {until}"
        yield f"  ends: {when(question.ends)}, then the default is {question.default}"
        return
    if question.by:
        yield f"  answered by: {plain(question.by)}"
    if question.answered:
        yield f"  decided: {when(question.answered)}"
    if question.comment:
        yield f"  comment: {short(question.comment, 500)}"


def _call_lines(question: Question) -> Iterator[str]:
    """The call: its whole input where the question has it, else what it is about."""
    if question.input is None:
        yield f"  call: {plain(question.summary, 2_000)}"
        return
    changed = ", as hooks changed it" if question.input_changed else ""
    secrets = ", without its secrets" if question.has_secret else ""
    yield f"  input{changed}{secrets}:"
    for name, value in input_fields(question.input):
        first, *rest = value.split("\n")
        yield f"    {plain(name)}: {printable(first)}"
        yield from (f"    | {printable(line)}" for line in rest)


def result_text(question: Question, result: Result, verb: Verb) -> str:
    """What an answer did, in words."""
    name = short_id(question.id)
    if result.word == "unknown":
        return f"there is no question {name} any more"
    if result.word == "refused":
        who = "; ".join(", ".join(need.members) or "persons with a token" for need in question.needs)
        return f"only {who} can answer question {name}: set FLEETHOOK_TOKEN to a token of one of them that may operate"
    if result.word == "more":
        return (
            f"noted; {result.missing} more {'person has' if result.missing == 1 else 'persons have'} to approve {name}"
        )
    state = STATES[result.state] if result.state else "decided"
    by = f" by {plain(result.by)}" if result.by else ""
    if result.word == "before":
        return f"question {name} was decided before: {state}{by}"
    if result.state == "timed_out":
        return f"question {name} has timed out before this answer"
    if verb == "approve" and not question.agent_waits:
        return f"{name} is approved; its agent has stopped waiting, so the same call passes once within ten minutes"
    return f"{name} is {state}"


def _cells(question: Question, asked: str, name: str) -> list[Cell]:
    left = max(0, question.ends - int(time.time() * 1000)) // 1000 if question.state == "waiting" else None
    return [
        Cell(asked),
        Cell(sign(STATES[question.state]), COLOURS[question.state]),
        Cell("" if left is None else f"{left} s" if left < 120 else f"{left // 60} m"),
        Cell(plain(question.source)),
        Cell(plain(question.session), session_colour(question.session)),
        Cell(plain(question.tool)),
        Cell(short(question.summary)),
        Cell(short(question.reason)),
        Cell(plain(question.by)),
        Cell(name, "bright_black"),
    ]
