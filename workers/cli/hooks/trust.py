"""`hooks trust` and `hooks untrust`: shows a project's hook file, allows its hooks to run, and revokes that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.formatting import plain, when
from workers.cli.hooks.sets import holds
from workers.cli.hosts import record_host

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hooksets.hookfile import HookFile
    from bus.hooksets.last_good import Kept


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List what is trusted.")
@click.option("--remove", is_flag=True, help="Take the trust back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def trust(fleet: Context, folder: Path | None, listing: bool, remove: bool, yes: bool) -> None:
    """Show a project's hook file whole, and let its hooks run on this machine; changed content asks again.

    A project's hooks come with a cloned repository and are code. Anyone who can change them, or a file that they run, can run
    any program with your rights.
    """
    from bus.errors import NotFound
    from bus.hooksets.trust import trusted_file

    store = fleet.directories().trust_file
    if listing:
        _list_trusted(fleet, store)
        return
    place = (folder or Path.cwd()).absolute()
    path = place if place.is_file() else trusted_file(place, store)
    if path is None:
        raise NotFound(f"there is no fleethook.yaml in {place} or above it in its repository")
    if remove:
        _take_back(fleet, path)
        return
    trust_file(fleet, path, yes=yes)


def trust_file(fleet: Context, path: Path, *, yes: bool) -> None:
    """Show a project's file, or what has changed in it, and trust it if the person agrees."""
    from bus.config.files import is_gone
    from bus.errors import NotFound
    from bus.hooksets.projects import accept, read_trusted, trusted_content
    from bus.hooksets.trust import listed

    places = fleet.directories()
    store = places.trust_file
    if is_gone(path):
        raise NotFound(f"{path} is gone; its trusted rules stay in force until `fleethook hooks untrust {path.parent}`")
    read, new = read_trusted(path)
    entry = next((kept for kept in listed(store) if kept.path == new.path), None)
    if entry is not None and entry.digest == new.digest:
        accept(path, store, places.last_good)  # copies the content, if an older version of Fleethook trusted it
        fleet.say(f"{path} is trusted as it is now")
    else:
        old = trusted_content(path, entry, places.last_good) if entry is not None else None
        if old is None:
            _show_content(fleet, path, read)
        else:
            _show_changes(fleet, path, old, new)
            _show_hooks(fleet, read)
        fleet.require_person("hooks trust")
        if not fleet.confirm(f"Trust {path}, so that these hooks run on this machine?", yes):
            fleet.say("not trusted; " + ("none of its hooks run" if old is None else "what you trusted stays in force"))
            return
        accept(path, store, places.last_good, new.digest)
    record_host(fleet)
    if fleet.json:
        fleet.data(
            {"path": str(path), "trusted": True, "digest": new.digest, "hooks": [hook.id for hook in read.hooks]}
        )
    else:
        fleet.data(f"{path} is trusted: {holds(read)} from now on")


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@common_options
@pass_fleet
def untrust(fleet: Context, folder: Path | None) -> None:
    """Revoke the trust in a project: none of its hooks runs from now on. FOLDER may be gone by now."""
    from bus.errors import NotFound
    from bus.hooksets.trust import listed, trusted_file

    store = fleet.directories().trust_file
    place = (folder or Path.cwd()).absolute()
    known = {known_path.path for known_path in listed(store)}
    real = os.path.realpath(place)
    path = next(
        (known_path for known_path in known if real in {known_path, os.path.dirname(known_path)}), None
    ) or trusted_file(place, store)
    if path is None:
        raise NotFound(f"there is no fleethook.yaml in {place} or above it in its repository")
    _take_back(fleet, Path(path))


def _take_back(fleet: Context, path: Path) -> None:
    from bus.hooksets.projects import withdraw_trust
    from bus.hooksets.trust import trusted_entry

    fleet.require_person("hooks untrust")
    places = fleet.directories()
    store = places.trust_file
    if trusted_entry(path, store) is not None:  # announced before a worker can notice it, who knows no name
        from bus.hooksets.guard_changes import file_mark
        from bus.hooksets.hookfile import HookFile
        from bus.ids import host_name
        from workers.cli.guard_reports import report_losses

        about = f"{host_name()}\n{file_mark(str(path), HookFile().digest)}"
        report_losses(fleet, "hooks untrust", str(path), ["the project's hooks\nuntrusted"], about=about)
    if taken := withdraw_trust(path, store, places.last_good):
        record_host(fleet)
    if fleet.json:
        fleet.data({"path": str(path), "trusted": False, "was_trusted": taken})
    else:
        fleet.data(f"{path} is {'not trusted any more' if taken else 'not trusted'}")


def _list_trusted(fleet: Context, store: Path) -> None:
    from bus.config.files import is_gone
    from bus.hooksets.trust import is_trusted, listed

    rows = [
        (
            kept,
            "trusted"
            if is_trusted(Path(kept.path), store)
            else "gone, its rules stay in force"
            if is_gone(kept.path)
            else "changed since, asks again",
        )
        for kept in listed(store)
    ]
    if fleet.json:
        fleet.data(
            [
                {"path": kept.path, "digest": kept.digest, "time": kept.time, "state": state.split()[0].rstrip(",")}
                for kept, state in rows
            ]
        )
    elif rows:
        fleet.table(("FILE", "STATE", "SINCE"), [(one.path, state, when(one.time)) for one, state in rows])
    else:
        fleet.say("no project is trusted")


def _show_content(fleet: Context, path: Path, read: HookFile) -> None:
    """Show the whole file, and the files that its commands name, on stderr.

    Nothing is redacted: a text that looks like a secret may hide a command from the person who is asked for trust, and the file
    is that person's own. Control characters are written out.
    """
    from bus.config.documents import read_file
    from bus.hooksets.trust import covered_files, imported_files

    imported = imported_files(path)
    for shown in (path, *map(Path, imported)):
        fleet.say(f"--- {shown}" + ("" if shown == path else " is imported"))
        fleet.say(read_file(shown).rstrip("\n"))
    for name in covered_files(path):
        if os.path.realpath(path.parent / name) not in imported and os.path.isfile(path.parent / name):
            fleet.say(f"--- {path.parent / name} is named by a command, and belongs to what is trusted")
    _show_hooks(fleet, read)


def _show_changes(fleet: Context, path: Path, old: Kept, new: Kept) -> None:
    """Show what has changed since the file was trusted, file by file, on stderr; nothing is redacted, as in `_show_content`."""
    import difflib

    before = old.files_text() | old.scripts
    after = new.files_text() | new.scripts
    fleet.say(f"{path} changed since you trusted it:")
    for name in sorted({*before, *after}):
        was, now = (texts.get(name, "").splitlines() for texts in (before, after))
        for line in difflib.unified_diff(was, now, f"{name} (trusted)", f"{name} (now)", lineterm=""):
            fleet.say(
                fleet.style(line, "green" if line[0] == "+" else "red" if line[0] == "-" else "bright_black", err=True)
            )
    was_pinned, now_pinned = _pins(old), _pins(new)
    for name in sorted({*was_pinned, *now_pinned}):
        if was_pinned.get(name, "") != now_pinned.get(name, "") and name not in before and name not in after:
            fleet.say(f"--- {name} changed; it is too long to be shown, or no text")


def _pins(kept: Kept) -> dict[str, str]:
    """The digest of every file that the commands name."""
    hooks = (kept.contents or {}).get("hooks", ())
    return {name: digest for hook in hooks for name, digest in hook.get("pins", {}).items()}


def _show_hooks(fleet: Context, read: HookFile) -> None:
    fleet.say("---")
    for hook in read.hooks:
        what = hook.target or hook.kind
        fleet.say(f"{plain(hook.id)}: on {', '.join(hook.on)}: {plain(' '.join((what, *hook.args)))}")
    for endpoint in read.endpoints:
        fleet.say(f"{plain(endpoint.id)}: on {', '.join(endpoint.events)}: {plain(endpoint.url)}")
    for problem in read.problems:
        fleet.say(fleet.style(f"{problem} (left out)", "yellow", err=True))
