"""Trust on the command line: a project's hook file shown whole, its hooks let run, and the trust taken back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.hooksets import holds, load
from workers.cli.showing import plain, when

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.config.hookfile import HookFile


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List what is trusted.")
@click.option("--remove", is_flag=True, help="Take the trust back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def trust(fleet: Context, folder: Path | None, listing: bool, remove: bool, yes: bool) -> None:
    """Show a project's hook file whole, and let its hooks run on this machine; changed content asks again.

    A project's hooks come with a cloned repository and are code: whoever can change the files that they name can run
    what they like as you.
    """
    from bus.config import trust as trusting
    from bus.errors import ConfigError, NotFound

    store = fleet.directories().trust_file
    if listing:
        _list_trusted(fleet, store)
        return
    place = (folder or Path.cwd()).absolute()
    path = place if place.is_file() else trusting.project_file(place)
    if path is None:
        raise NotFound(f"there is no fleethook.yaml in {place} or above it in its repository")
    if remove:
        _take_back(fleet, path)
        return
    digest = trusting.content_digest(path)
    read = load(fleet, path)[1]
    if trusting.is_trusted(path, store):
        fleet.say(f"{path} is trusted as it is now")
    else:
        _show_content(fleet, path, read)
        fleet.require_person("hooks trust")
        if not fleet.confirm(f"Trust {path}, so that these hooks run on this machine?", yes):
            fleet.say("not trusted; none of its hooks run")
            return
        if trusting.trust(path, store).digest != digest:
            trusting.untrust(path, store)
            raise ConfigError("the files changed while they were shown, so they are not trusted", file=str(path))
    if fleet.json:
        fleet.data({"path": str(path), "trusted": True, "digest": digest, "hooks": [hook.id for hook in read.hooks]})
    else:
        fleet.data(f"{path} is trusted: {holds(read)} from now on")


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@common_options
@pass_fleet
def untrust(fleet: Context, folder: Path | None) -> None:
    """Take the trust in a project back: none of its hooks runs from now on. FOLDER may be gone by now."""
    from bus.config import trust as trusting
    from bus.errors import NotFound

    place = (folder or Path.cwd()).absolute()
    known = {one.path for one in trusting.listed(fleet.directories().trust_file)}
    real = os.path.realpath(place)
    path = next((one for one in known if real in {one, os.path.dirname(one)}), None) or trusting.project_file(place)
    if path is None:
        raise NotFound(f"there is no fleethook.yaml in {place} or above it in its repository")
    _take_back(fleet, Path(path))


def _take_back(fleet: Context, path: Path) -> None:
    from bus.config.trust import untrust as take

    fleet.require_person("hooks untrust")
    taken = take(path, fleet.directories().trust_file)
    if fleet.json:
        fleet.data({"path": str(path), "trusted": False, "was_trusted": taken})
    else:
        fleet.data(f"{path} is {'not trusted any more' if taken else 'not trusted'}")


def _list_trusted(fleet: Context, store: Path) -> None:
    from bus.config.trust import is_trusted, listed

    rows = [
        (one, "trusted" if is_trusted(Path(one.path), store) else "changed since, asks again") for one in listed(store)
    ]
    if fleet.json:
        fleet.data([{"path": one.path, "digest": one.digest, "time": one.time, "state": state.split()[0]}
                    for one, state in rows])  # fmt: skip
    elif rows:
        fleet.table(("FILE", "STATE", "SINCE"), [(one.path, state, when(one.time)) for one, state in rows])
    else:
        fleet.say("no project is trusted")


def _show_content(fleet: Context, path: Path, read: HookFile) -> None:
    """The whole file and what its commands name, on stderr.

    Nothing is redacted: what looks like a secret may hide a command from whoever is about to trust it, and the file
    is the reader's own. Control characters are written out.
    """
    from bus.config.documents import read_file
    from bus.config.trust import covered_files, imported_files

    imported = imported_files(path)
    for one in (path, *map(Path, imported)):
        fleet.say(f"--- {one}" + ("" if one == path else " is imported"))
        fleet.say(read_file(one).rstrip("\n"))
    for name in covered_files(path):
        if os.path.realpath(path.parent / name) not in imported and os.path.isfile(path.parent / name):
            fleet.say(f"--- {path.parent / name} is named by a command, and belongs to what is trusted")
    fleet.say("---")
    for hook in read.hooks:
        what = hook.command or (hook.http.url if hook.http is not None else "rule")
        fleet.say(f"{plain(hook.id)}: on {', '.join(hook.on)}: {plain(' '.join((what, *hook.args)))}")
    for endpoint in read.endpoints:
        fleet.say(f"{plain(endpoint.id)}: on {', '.join(endpoint.events)}: {plain(endpoint.url)}")
    for problem in read.problems:
        fleet.say(fleet.style(f"{problem} (left out)", "yellow", err=True))
