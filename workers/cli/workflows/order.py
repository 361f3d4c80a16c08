"""`fleethook workflows start` and `stop`: a person's orders about a session's workflow."""

from __future__ import annotations

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.workflows import find_workflow

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

    If an agent runs this, a person has to confirm it on a terminal.
    """
    from bus.events import source_name
    from workers.workflows.records import start_workflow, state_record

    fleet.require_person("workflows start", published=True)
    hook = find_workflow(fleet, name)
    agent = source_name(source)
    state = fleet.run(lambda connections: start_workflow(connections, fleet.keys(), hook, agent, session, step))
    if fleet.json:
        fleet.data(state_record(hook.id, state))
    else:
        fleet.data(
            f"session {session} of {agent} is in the workflow {name}" + (f", step {state.step}" if state.step else "")
        )


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
    hook = find_workflow(fleet, name)
    agent = source_name(source)
    was_in_it = fleet.run(lambda connections: stop_workflow(connections, fleet.keys(), hook, agent, session))
    if fleet.json:
        fleet.data({"workflow": hook.id, "source": agent, "session": session, "stopped": was_in_it})
    else:
        text = "has left" if was_in_it else "was not in, and does not get,"
        fleet.data(f"session {session} of {agent} {text} the workflow {name}")
