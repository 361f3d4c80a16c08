"""`fleethook service`: shows, writes, starts and removes services of systemd and launchd."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import Context, LazyGroup, PartlyDone, common_options, pass_fleet

if TYPE_CHECKING:  # `--help` needs none of them
    from workers.admin.services import ServiceManager, ServicePlan, System

ROLES: Final = ("evaluator", "dispatcher", "host", "carrier", "chores", "gateway")

_roles = click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(ROLES),
    help="Run this process type instead of `fleethook up`; may be given several times.",
)
_machine_wide = click.option(
    "--system", "machine_wide", is_flag=True, help="For the whole machine (root), not for this user."
)
_for = click.option(
    "--for",
    "kind",
    type=click.Choice(("systemd", "launchd")),
    help="The service manager to write files for. Default: the one of this machine.",
)
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.group(cls=LazyGroup)
def service() -> None:
    """Let systemd or launchd start `fleethook up`, or single processes, at login or boot."""


@service.command()
@_roles
@_machine_wide
@_for
@click.option("--run-as", metavar="USER", help="The user of a --system service; default: the user who called sudo.")
@click.option("--print", "only_print", is_flag=True, help="Print the files; change nothing.")
@click.option("--no-start", is_flag=True, help="Write the files; start nothing.")
@_yes
@common_options
@pass_fleet
def install(
    fleet: Context,
    roles: tuple[str, ...],
    machine_wide: bool,
    kind: System | None,
    run_as: str | None,
    only_print: bool,
    no_start: bool,
    yes: bool,
) -> None:
    """Show and write service files, and start them: `fleethook up` for this user, unless options say otherwise.

    The FLEETHOOK_* settings and the PATH of this shell are written to an environment file of mode 0600. The units read it,
    and contain no secret themselves. Other lines of that file stay as they are.
    """
    from bus.system.directories import directories, make_private
    from workers.admin import services
    from workers.supervisor import import_path

    manager, processes = _manager(fleet, machine_wide=machine_wide, kind=kind), list(dict.fromkeys(roles)) or ["up"]
    _check(fleet, manager, processes, only_print=only_print)
    variables = {**import_path(), **services.passed_on(os.environ)}
    if fleet.namespace:
        variables["FLEETHOOK_NAMESPACE"] = fleet.namespace
    user = services.service_user(os.environ, run_as) if machine_wide else ""
    plan = services.plan_services(manager, processes, variables, user=user)
    if only_print:
        _print(fleet, plan)
        return
    _show(fleet, plan)
    if any(file.changes and file.before is not None for file in plan.files):
        fleet.require_person("service install", *(file.path for file in plan.files))
    if not fleet.confirm("Write this?" if no_start else "Write this and start it?", yes):
        fleet.say("Nothing was changed.")
        return
    make_private(directories().log_dir, narrow=True)
    services.write(plan)
    failures: list[str] = []
    if not no_start:
        # These commands stop the installed service. They fail if it does not run, so their failures do not count.
        services.run(plan.before)
        failures = services.run(plan.after)
    _report(fleet, plan, failures, done="installed", commands=() if no_start else plan.after)
    for step in plan.steps if not fleet.json else ():
        fleet.say(f"{fleet.style('only you can do this:', 'yellow', err=True)} {step}")
    if failures:
        raise PartlyDone(f"the files are written, but {'; '.join(failures)}")


@service.command()
@_roles
@_machine_wide
@_for
@_yes
@common_options
@pass_fleet
def uninstall(fleet: Context, roles: tuple[str, ...], machine_wide: bool, kind: System | None, yes: bool) -> None:
    """Stop and remove the services that `service install` wrote. Without --role, it removes all of them."""
    from bus.ids import host_name
    from workers.admin import services
    from workers.cli.guard_reports import report_losses

    manager = _manager(fleet, machine_wide=machine_wide, kind=kind)
    plan = services.plan_removal(manager, roles)
    if not plan.files:
        if fleet.json:
            fleet.data({"files": [], "commands": [], "removed": False})
        fleet.say("No service of fleethook is installed; nothing was changed.")
        return
    _show(fleet, plan)
    fleet.require_person("service uninstall", *(file.path for file in plan.files))
    if not fleet.confirm("Stop and remove this?", yes):
        fleet.say("Nothing was changed.")
        return
    names = ", ".join(file.path.stem for file in plan.files if file.mode == services.UNIT_MODE)
    report_losses(fleet, "service uninstall", host_name(), [f"{names}\nremoved"])
    failures = services.run(plan.before)
    services.write(plan)
    failures += services.run(plan.after)
    _report(fleet, plan, failures, done="removed", commands=plan.before)
    if failures:
        raise PartlyDone(f"the files are gone, but {'; '.join(failures)}")


def _manager(fleet: Context, *, machine_wide: bool, kind: System | None) -> ServiceManager:
    from workers.admin.services import service_manager

    return service_manager(fleet.directories(), machine_wide=machine_wide, kind=kind)


def _check(fleet: Context, manager: ServiceManager, processes: list[str], *, only_print: bool) -> None:
    """Raise an error for services that could not run: services without a server to reach, or a second `up`.

    The files are printed also while `up` runs, because that changes nothing.
    """
    from bus.errors import ConfigError, ServerError
    from workers.admin.services import has_server_url, installed_services
    from workers.supervisor import running

    known = fleet.settings().redis_url or has_server_url(manager)
    if not known and (manager.machine_wide or "up" not in processes):
        raise ConfigError(
            "these services need the fleet's server",
            hint="set FLEETHOOK_REDIS_URL in this shell, or redis_url in fleethook.yaml",
        )
    if only_print or "up" not in processes or installed_services(manager):
        return
    already = running(fleet.directories())
    if already is not None:
        raise ServerError(
            f"`fleethook up` runs here already (process {already.pid}); `fleethook down` stops it, then install the service"
        )


def _print(fleet: Context, plan: ServicePlan) -> None:
    from workers.admin.services import redacted

    if fleet.json:
        fleet.data(
            {
                "files": {str(file.path): redacted(file.after or "") for file in plan.files},
                "commands": [" ".join(command) for command in (*plan.before, *plan.after)],
            }
        )
        return
    for file in plan.files:
        fleet.say(fleet.style(f"{file.path} (mode {file.mode:04o})", "cyan", err=True))
        fleet.data(redacted(file.after or "").rstrip("\n"))


def _show(fleet: Context, plan: ServicePlan) -> None:
    from workers.admin.services import preview

    if fleet.json:
        return
    for line in preview(plan).splitlines():
        new, old = line.startswith("+"), line.startswith("-")
        fleet.data(fleet.style(line, "green") if new else fleet.style(line, "red") if old else line)


def _report(
    fleet: Context, plan: ServicePlan, failures: list[str], *, done: str, commands: tuple[tuple[str, ...], ...]
) -> None:
    if fleet.json:
        fleet.data(
            {
                "files": [str(file.path) for file in plan.files],
                done: True,
                "failures": failures,
                "commands": [" ".join(command) for command in commands],
            }
        )
    elif not failures:
        fleet.say(
            f"{fleet.style(done.capitalize() + '.', 'green', err=True)} {', '.join(str(f.path) for f in plan.files)}"
        )
