"""`fleethook plugins new`: writes a working Python plugin with its test as a start."""

from __future__ import annotations

from pathlib import Path

import click

from workers.cli.common import Context, common_options, pass_fleet


@click.command()
@click.argument("name")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder that gets the files. Default: the project's .fleethook/plugins in a repository, else the user's.",
)
@common_options
@pass_fleet
def new(fleet: Context, name: str, folder: Path | None) -> None:
    """Write a plugin with its test, which passes. It is not enabled yet.

    \b
    fleethook plugins new house-style
    pytest .fleethook/plugins
    fleethook plugins enable house-style --layer project
    """
    from workers.plugins.new_plugin import new_plugin, write_plugin

    layer = "user"
    if folder is None:
        root = next((path for path in (Path.cwd(), *Path.cwd().parents) if (path / ".git").exists()), None)
        layer = "project" if root is not None else "user"
        folder = root / ".fleethook" / "plugins" if root is not None else fleet.directories().config / "plugins"
        path = ""
    else:
        path = f" --path {folder / (name.replace('-', '_') + '.py')}"
    plugin = new_plugin(name, folder)
    write_plugin(plugin)
    if fleet.json:
        fleet.data({"name": name, "file": str(plugin.file), "test": str(plugin.test)})
        return
    fleet.data(f"wrote {plugin.file} and {plugin.test}")
    more = " --layer project" if layer == "project" else ""
    fleet.say(f"`pytest {plugin.test}` tests it; `fleethook plugins enable {name}{path}{more}` enables it")
