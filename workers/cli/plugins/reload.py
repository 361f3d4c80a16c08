"""`fleethook plugins reload`: every worker loads plugins anew, without losing a call (G-15)."""

from __future__ import annotations

import click

from workers.cli.common import Context, common_options, pass_fleet


@click.command()
@click.argument("name", required=False)
@click.option("--timeout", default=30.0, show_default=True, help="Seconds to wait for the workers.")
@common_options
@pass_fleet
def reload(fleet: Context, name: str | None, timeout: float) -> None:
    """Load a Python plugin anew in every worker, or all plugins; their state is lost.

    A new process takes over when it is ready, and the old one finishes its calls. A plugin that cannot be loaded goes on as it
    was. If an agent runs this, a person has to confirm it on a terminal.
    """
    import msgspec

    from workers.plugins.records import ALL, reload_plugin

    fleet.require_person("plugins reload", published=True)
    done = fleet.run(lambda connections: reload_plugin(connections, fleet.keys(), name or ALL, timeout))
    wrong = [state for state in done.done if state.problem]
    if fleet.json:
        fleet.data(msgspec.to_builtins(done))
    else:
        for plugin in dict.fromkeys(state.name for state in done.done):
            states = [state for state in done.done if state.name == plugin]
            if good := [state for state in states if not state.problem]:
                where = f"{len(good)} worker{'s' if len(good) > 1 else ''}"
                fleet.data(f"Plugin '{plugin}' reloaded successfully in {where}.\n  Version: {good[0].version}")
        for state in wrong:
            fleet.warn(f"Failed to reload plugin: {state.name} in {state.worker}: {state.problem}")
        for worker in done.waiting:
            fleet.warn(f"{worker} has not reloaded it within {timeout:g} s; it does so as soon as it can")
    if wrong or done.waiting:
        raise click.exceptions.Exit(1 if wrong else 5)
