"""`fleethook help` and `fleethook version`: commands that do the same as `--help` and `--version`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from workers.cli.common import Context, common_options, pass_fleet


@click.command("help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(ctx: click.Context, names: Sequence[str]) -> None:
    """Show the help of a command: `fleethook help webhooks add`."""
    above = ctx.find_root()
    command: click.Command = above.command
    for name in names:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"`{above.command_path}` has no commands below it", ctx=above)
        command = command.resolve_command(above, [name])[1] or command  # fails if there is no such command
        above = click.Context(command, info_name=name, parent=above)
    click.echo(command.get_help(above))


@click.command("version")
@common_options
@pass_fleet
def version_(fleet: Context) -> None:
    """Show the version."""
    from workers.cli import version

    fleet.data({"version": version()} if fleet.json else f"fleethook {version()}")
