"""`fleethook workflows start` and `stop`: a person's orders about a session's workflow."""

from __future__ import annotations

from functools import partial

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.workflows import find_workflow, same_name

_SESSION = click.option("--session", required=True, metavar="ID", help="The agent's id of the session.")
_SOURCE = click.option(
    "--source", default="claude", show_default=True, metavar="AGENT", help="The agent that the session is of."
)


@click.command()
@click.argument("name")
@_SESSION
@_SOURCE
@click.option("--step", default="", metavar="STEP", help="The step. Default: the first.")
@common_options
@pass_fleet
def start(fleet: Context, name: str, session: str, source: str, step: str) -> None:
    """Give a session a workflow, or put it into another step; the step's `on_enter` runs at the session's next event.

    A project's workflow of the same name starts too.

    If an agent runs this, a person has to confirm it on a terminal.
    """
    from bus.events import source_name
    from workers.workflows.records import start_workflow, state_record

    fleet.require_person("workflows start", published=True)
    hooks = same_name(fleet, find_workflow(fleet, name))
    agent = source_name(source)
    for hook in hooks:
        wanted = step if hook is hooks[0] or (hook.workflow is not None and hook.workflow.step(step)) else ""
        given = partial(start_workflow, keys=fleet.keys(), hook=hook, source=agent, session=session, step=wanted)
        state = fleet.run(given)
        if not fleet.json:
            at = f", step {state.step}" if state.step else ""
            fleet.data(f"session {session} of {agent} is in the workflow {hook.id}{at}")
        elif hook is hooks[0]:
            fleet.data(state_record(hook.id, state) | {"also": [other.id for other in hooks[1:]]})


@click.command()
@click.argument("name")
@_SESSION
@_SOURCE
@common_options
@pass_fleet
def stop(fleet: Context, name: str, session: str, source: str) -> None:
    """End a workflow for a session. If an agent runs this, a person has to confirm it on a terminal."""
    from bus.events import source_name
    from workers.workflows.records import stop_workflow

    fleet.require_person("workflows stop", published=True)
    hooks = same_name(fleet, find_workflow(fleet, name))
    agent = source_name(source)
    for hook in hooks:
        left = partial(stop_workflow, keys=fleet.keys(), hook=hook, source=agent, session=session)
        was_in_it = fleet.run(left)
        if not fleet.json:
            text = "has left" if was_in_it else "was not in, and does not get,"
            fleet.data(f"session {session} of {agent} {text} the workflow {hook.id}")
        elif hook is hooks[0]:
            also = [other.id for other in hooks[1:]]
            record = {"workflow": hook.id, "source": agent, "session": session, "stopped": was_in_it}
            fleet.data(record | {"also": also})
