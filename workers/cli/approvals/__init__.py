"""`fleethook approvals`: the calls that wait for a person, and the person's answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet
from workers.cli.screens.rows import no_trunc_option

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from workers.approvals.decisions import Verb
    from workers.approvals.questions import Question

_STATES: Final = ("waiting", "approved", "denied", "timed_out", "nobody_could_be_asked", "overtaken")


@click.group(cls=LazyGroup)
def approvals() -> None:
    """List, show, approve and deny calls that wait for a person's answer."""


@approvals.command("list")
@click.option("--all", "every", is_flag=True, help="Decided questions too.")
@click.option("--state", "states", type=click.Choice(_STATES), multiple=True, help="In this state; may come often.")
@click.option("--session", default="", metavar="ID", help="Of this session, by its id or how it begins.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="The most questions.")
@no_trunc_option
@common_options
@pass_fleet
def list_(fleet: Context, every: bool, states: tuple[str, ...], session: str, limit: int, whole: bool) -> None:
    """List the questions that wait, newest first."""
    from workers.approvals.questions import QuestionFilter, question_page
    from workers.cli.approvals.texts import show_questions
    from workers.cli.fleet_control.notice import say_stops

    say_stops(fleet)
    wanted = QuestionFilter(states=states or (() if every else ("waiting",)), session=session)
    page = fleet.run(lambda connections: question_page(connections, fleet.keys(), wanted, limit))
    nothing = "there are none" if every or states else "no call waits for a person"
    show_questions(fleet, page.items, nothing, whole=whole)


@approvals.command()
@click.argument("name", metavar="ID")
@common_options
@pass_fleet
def show(fleet: Context, name: str) -> None:
    """Show one question: the call, the rule that asks, and the answer."""
    import msgspec

    from workers.cli.approvals.texts import question_lines
    from workers.cli.screens.columns import wrapped_lines

    found = _read(fleet, name)
    fleet.data(msgspec.to_builtins(found) if fleet.json else wrapped_lines(question_lines(fleet, found)))


@approvals.command()
@click.argument("name", metavar="ID")
@click.option("--comment", default="", metavar="TEXT", help="A text for the model and the record, with the answer.")
@click.option(
    "--remember", is_flag=True, help="Also except this exact call from the rules that asked: `approvals remember`."
)
@click.option("--yes", is_flag=True, help="Do not ask before the exception is written.")
@common_options
@pass_fleet
def approve(fleet: Context, name: str, comment: str, remember: bool, yes: bool) -> None:
    """Let a held call run. If its agent has stopped waiting, the same call passes once within ten minutes."""
    fleet.require_person("approvals approve", published=True)
    if not remember:
        _print(fleet, _answer(fleet, name, "approve", comment))
        return
    from workers.cli.approvals.remember import planned, remember_call

    plan = planned(fleet, _read(fleet, name))  # a call that cannot be remembered is not answered either
    said = _answer(fleet, plan.remembered.question.id, "approve", comment)
    if said["state"] == "approved":
        remember_call(fleet, plan, yes, dry_run=False, said=said)
        return
    fleet.say("nothing is remembered yet: say `approvals remember` when the others have approved")
    if fleet.json:
        fleet.data({**said, "changes": []})


@approvals.command()
@click.argument("name", metavar="ID")
@click.option("--comment", default="", metavar="TEXT", help="A text for the model and the record, with the answer.")
@common_options
@pass_fleet
def deny(fleet: Context, name: str, comment: str) -> None:
    """Refuse a held call."""
    fleet.require_person("approvals deny", published=True)
    _print(fleet, _answer(fleet, name, "deny", comment))


@approvals.command("remember")
@click.argument("name", metavar="ID")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def remember_(fleet: Context, name: str, dry_run: bool, yes: bool) -> None:
    """Except an approved call from the rules that asked: exactly this input in this folder, and nothing else.

    The exception goes where the rule is: into your file, the project's file, or the published set.
    """
    from workers.approvals.remembered_calls import check_approved
    from workers.cli.approvals.remember import planned, remember_call

    question = _read(fleet, name)
    check_approved(question)
    remember_call(fleet, planned(fleet, question), yes, dry_run)


def _read(fleet: Context, name: str) -> Question:
    from workers.approvals.questions import read_question, whole_question_id

    whole = fleet.run(lambda connections: whole_question_id(connections, fleet.keys(), name))
    return fleet.run(lambda connections: read_question(connections, fleet.keys(), whole))


def _print(fleet: Context, said: dict[str, Any]) -> None:
    if fleet.json:
        fleet.data(said)


def _answer(fleet: Context, name: str, verb: Verb, comment: str) -> dict[str, Any]:
    from bus.errors import FleethookError
    from workers.approvals.decisions import answer
    from workers.cli.approvals.texts import person_here, result_text
    from workers.cli.common import CheckFailed

    found = _read(fleet, name)
    person = fleet.run(lambda connections: person_here(connections, fleet.keys()))
    result = fleet.run(lambda connections: answer(connections, fleet.keys(), found.id, verb, person, comment))
    text = result_text(found, result, verb)
    counted = result.word == "more" or (
        result.word == "done" and result.state == ("approved" if verb == "approve" else "denied")
    )
    if result.word == "refused":
        raise FleethookError(text)
    said = {"id": found.id, "counted": counted, "state": result.state, "by": result.by, "missing": result.missing}
    if not fleet.json:
        fleet.say(text)
    if not counted:
        _print(fleet, said)
        raise CheckFailed("")
    return said
