"""`fleethook open`: the address of the pages, with a one-time sign-in."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from workers.cli.common import Context, common_options, pass_fleet

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.system.directories import Directories


@click.command("open")
@click.option("--read-only", is_flag=True, help="The browser may look, and neither answer, retry nor stop.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@common_options
@pass_fleet
def open_(fleet: Context, read_only: bool, no_browser: bool) -> None:
    """Print and open the pages' address. It signs one browser in, once, within ten minutes."""
    from bus.errors import ServerError

    fleet.require_person("open", published=True)
    url = pages_url(fleet)
    if not url:
        raise ServerError(
            "no gateway serves pages here: `fleethook up` starts one; if it runs, another program has the gateway's port, and "
            "FLEETHOOK_GATEWAY_PORT sets another one"
        )
    address = one_time_address(fleet, url, read_only=read_only)
    if fleet.json:
        fleet.data({"address": address, "minutes": 10, "read_only": read_only})
        return
    fleet.data(address)
    fleet.say("It signs one browser in, once, within ten minutes; do not share it.")
    if not no_browser and sys.stdout.isatty() and _has_display():
        import webbrowser

        webbrowser.open(address)


def pages_url(fleet: Context) -> str:
    """Where the pages are: this machine's gateway, else the public URL; empty if there is neither."""
    from bus.system.directories import directories

    found = [url for url in gateway_addresses(directories()) if url.startswith("http")]
    url = found[0] if found else fleet.settings().public_url
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:").rstrip("/")


def one_time_address(fleet: Context, url: str, *, read_only: bool = False) -> str:
    """The address of the pages with a new one-time code, behind `#`: browsers send it to no server, and no log has it.

    Raises Unreachable, and FleethookError where this user's Redis URL lacks the rights of an admin.
    """
    import getpass

    from bus.ids import host_name
    from workers.gateway.pages.sign_ins import PAGE_SCOPES, create_code

    by = f"{getpass.getuser()}@{host_name()}"
    scopes = ("observe",) if read_only else PAGE_SCOPES
    code = fleet.run(lambda connections: create_code(connections, fleet.keys(), by=by, scopes=scopes))
    return f"{url}/#sign-in={code}"


def gateway_addresses(places: Directories) -> list[str]:
    """The addresses of this machine's gateway, its TCP port first; none where no gateway runs."""
    try:
        return sorted(places.gateway_file.read_text("utf-8").splitlines())
    except FileNotFoundError:
        return []


def _has_display() -> bool:
    """Whether a browser can open a window for the person who runs this command."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
