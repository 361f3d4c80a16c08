"""The `fleethook` command: one file for each group of commands, imported on use."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from workers.cli.common import COMPLETION_VARIABLE, HELP, Context, Lazy, LazyGroup, run_command

_RUN, _SEE, _SET, _MORE = "Run", "Events and deliveries", "Hooks and settings", "Internals"

COMMANDS: Final = {
    "up": Lazy(
        "workers.cli.up:up",
        "Start everything on this machine: server, evaluators, dispatcher, carriers, gateway.",
        _RUN,
    ),
    "down": Lazy("workers.cli.up:down", "Stop what `up --detach` started.", _RUN),
    "service": Lazy("workers.cli.service:service", "Install and uninstall services of systemd or launchd.", _RUN),
    "logs": Lazy("workers.cli.up:logs", "Show the log of the processes.", _RUN),
    "status": Lazy("workers.cli.status:status", "Show which processes are alive, and what waits.", _RUN),
    "demo": Lazy("workers.cli.demo:demo", "Play a scripted fleet through the real processes.", _RUN),
    "open": Lazy("workers.cli.gateway.pages:open_", "Open the pages in a browser, signed in.", _RUN),
    "publish": Lazy("workers.cli.events:publish", "Announce an event (JSON); prints its id.", _SEE),
    "request": Lazy("workers.cli.events:request", "Ask for a verdict on an event (JSON); prints the verdict.", _SEE),
    "events": Lazy("workers.cli.events:events", "List, show and purge events.", _SEE),
    "tail": Lazy("workers.cli.events:tail", "Follow events as they happen.", _SEE),
    "watch": Lazy("workers.cli.watch:watch", "Watch events, sessions and endpoints on the whole terminal.", _SEE),
    "trace": Lazy("workers.cli.events:trace", "Show everything that one event caused.", _SEE),
    "sessions": Lazy(
        "workers.cli.hosts:sessions", "List the agents' sessions, and calls that no hook was asked about.", _SEE
    ),
    "inbox": Lazy("workers.cli.approvals.inbox:inbox", "List the sessions that wait for a person.", _SEE),
    "approvals": Lazy(
        "workers.cli.approvals:approvals", "List, show, approve and deny calls that wait for a person.", _SEE
    ),
    "limits": Lazy(
        "workers.cli.fleet_control.limits:limits", "List and reset what rules have counted for their limits.", _SEE
    ),
    "stop": Lazy(
        "workers.cli.fleet_control.stop:stop", "Stop all agents at once, or those that a condition names.", _SEE
    ),
    "resume": Lazy("workers.cli.fleet_control.stop:resume", "Let stopped agents go on.", _SEE),
    "say": Lazy("workers.cli.fleet_control.say:say", "Send a message into running sessions.", _SEE),
    "deliveries": Lazy(
        "workers.cli.deliveries:deliveries", "List, show and retry deliveries and their attempts.", _SEE
    ),
    "dead": Lazy("workers.cli.deliveries.dead:dead", "List, show, retry, drop and export dead letters.", _SEE),
    "replay": Lazy("workers.cli.deliveries.replay:replay", "Send past events to endpoints again.", _SEE),
    "jobs": Lazy("workers.cli.deliveries.replay:jobs", "List, show and stop bulk retries, drops and replays.", _SEE),
    "webhooks": Lazy("workers.cli.webhooks:webhooks", "Add, change, test and check endpoints; rotate secrets.", _SEE),
    "listen": Lazy("workers.cli.webhooks.listen:listen", "Receive your own webhooks here: check and show them.", _SEE),
    "hooks": Lazy("workers.cli.hooks:hooks", "List, test, check, import, apply, roll back and trust hooks.", _SET),
    "guards": Lazy("workers.cli.guards:guards", "List, show, enable, disable and test guard packs and rules.", _SET),
    "simulate": Lazy(
        "workers.cli.simulation.simulate:simulate",
        "Show what the hooks would say to one event, and start nothing.",
        _SET,
    ),
    "backtest": Lazy(
        "workers.cli.simulation.backtest:backtest", "Show what hooks would have changed about recorded events.", _SET
    ),
    "suggest": Lazy(
        "workers.cli.simulation.suggest:suggest", "Suggest narrow changes of rules from past answers.", _SET
    ),
    "workflows": Lazy(
        "workers.cli.workflows:workflows", "List, show, test, trace, start and stop workflows of sessions.", _SET
    ),
    "plugins": Lazy("workers.cli.plugins:plugins", "List, show, write, enable, disable and reload plugins.", _SET),
    "hosts": Lazy("workers.cli.hosts:hosts", "List the hosts and their agents, and forget one.", _SEE),
    "key": Lazy("workers.cli.key:key", "Copy the key of sealed secrets to another machine.", _SET),
    "tokens": Lazy(
        "workers.cli.gateway.tokens:tokens", "Create, list and revoke the tokens that gateways accept.", _SET
    ),
    "mcp": Lazy("workers.cli.gateway.mcp:mcp", "Serve MCP on stdin and stdout: tools for agents and programs.", _SEE),
    "config": Lazy("workers.cli.config:config", "Show and check settings and files.", _SET),
    "install": Lazy("workers.cli.install:install", "Connect an agent: write its hook settings.", _SET),
    "uninstall": Lazy("workers.cli.uninstall:uninstall", "Remove an agent's hook settings again.", _SET),
    "doctor": Lazy(
        "workers.cli.doctor:doctor", "Check that hooks really run, and show how to repair what fails.", _SET
    ),
    "completion": Lazy("workers.cli.completion:completion", "Print the completion script of bash, zsh or fish.", _MORE),
    "help": Lazy("workers.cli.help_version:help_", "Show the help of a command.", _MORE),
    "version": Lazy("workers.cli.help_version:version_", "Show the version.", _MORE),
    "acl": Lazy("workers.cli.config:acl", "Print the Redis users of the roles.", _MORE),
    "bench": Lazy("workers.cli.bench:bench", "Measure Fleethook against bare libraries.", _MORE),
    "worker": Lazy("workers.cli.worker:worker", "Run one process, as a Procfile line does.", _MORE),
}


def version() -> str:
    """The installed version; `0+checkout` for a checkout."""
    from bus.system.version import installed_version

    return installed_version()


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"fleethook {version()}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings=HELP,
    epilog="Exit codes: 0 ok, 1 findings, 2 usage, 3 unreachable, 4 configuration invalid, 5 partly done.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
@click.option("--no-color", "no_colour", is_flag=True, help="No colours, as with NO_COLOR; FORCE_COLOR turns them on.")
@click.option("-v", "--verbose", is_flag=True, help="Show more messages, and where an error came from.")
@click.option("-n", "--namespace", metavar="NAME", help="Use the fleet with this name instead of the configured one.")
@click.pass_context
def root(ctx: click.Context, no_colour: bool, verbose: bool, namespace: str | None) -> None:
    """The hook bus for fleets of AI coding agents."""
    fleet = ctx.ensure_object(Context)
    fleet.verbose = verbose
    fleet.namespace = namespace
    fleet.colour = False if no_colour else None
    from workers.cli.screens.bus_log import show_logged

    show_logged(fleet)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line, and end the process with its exit code."""
    if COMPLETION_VARIABLE in os.environ:
        from workers.cli.completion import with_values

        LazyGroup.prepare = staticmethod(with_values)
    # redis-py loads OpenTelemetry's SDK wherever it is installed, which makes each command 60 ms slower (measured on 8.1).
    # `bus/tracing/spans.py` takes this away where traces are configured.
    sys.modules.setdefault("opentelemetry", None)  # type: ignore[arg-type]  # so Python notes a module that is not there
    # Nearly all that a start makes stays to the end. Without the searches for garbage in it, at the start and at the end, a
    # command takes a quarter less CPU (measured). What runs for long sets thresholds of its own.
    gc.set_threshold(20_000, 20, 50)
    code = run_command(root, argv)
    gc.freeze()
    sys.exit(code)
