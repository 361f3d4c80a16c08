"""`fleethook key`: copies the key of sealed secrets from one machine to another."""

from __future__ import annotations

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet

_MOST: int = 4096


@click.group(cls=LazyGroup)
def key() -> None:
    """Copy the key of sealed secrets to another machine: `fleethook key export | ssh HOST fleethook key import`."""


@key.command("list")
@common_options
@pass_fleet
def list_keys(fleet: Context) -> None:
    """List the ids of the keys that this machine has; the first one seals."""
    from bus.secrets.sealing import key_file, key_ids

    found = key_ids()
    if fleet.json:
        fleet.data({"file": str(key_file()), "keys": found})
    elif found:
        for one in found:
            fleet.data(one)
    else:
        fleet.say(f"there is no key at {key_file()}")


@key.command("export")
@click.argument("name", metavar="[KEY-ID]", default="")
@common_options
@pass_fleet
def export(fleet: Context, name: str) -> None:
    """Print a key of this machine on stdout: the one that seals, or the one with this id."""
    from bus.secrets.sealing import export_key, key_file, key_id

    fleet.require_person("key export", key_file())
    text = export_key(name)
    if fleet.json:
        fleet.data({"id": key_id(text.encode()), "key": text})
    else:
        click.echo(text)


@key.command("import")
@common_options
@pass_fleet
def import_(fleet: Context) -> None:
    """Read a key from stdin and keep it here (mode 0600); deliveries that wait for it are then sent.

    New secrets are sealed with it from now on; the older keys here still open the secrets that they sealed.
    """
    from bus.secrets.sealing import import_key, key_file
    from bus.system.directories import directories

    directories()  # creates the folders: this may be the first command on a machine
    fleet.require_person("key import", key_file())
    with click.open_file("-", encoding="ascii", errors="replace") as stdin:
        text = stdin.read(_MOST)
    known = import_key(text)
    fleet.data({"id": known, "file": str(key_file())} if fleet.json else f"key {known} is in {key_file()}")
