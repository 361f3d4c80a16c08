"""`fleethook worker`: runs one process, as a Procfile line does, or checks whether one is alive (`--health`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import click

from bus.errors import FleethookError, Unreachable
from workers.cli.common import CheckFailed, Context, LazyGroup, common_options, pass_fleet

if TYPE_CHECKING:  # the start of a worker needs none of them
    from workers.admin.worker_health import WorkerHealth

ANY: Final = "any"
"""The type for `--health` without a type."""

KINDS: Final = {
    "evaluator": "Answer requests: run their blocking hooks and give verdicts.",
    "dispatcher": "Turn events into deliveries; start carriers; one is active, others wait to take over.",
    "host": "Run the user's and projects' hooks of this machine, for evaluators on other machines.",
    "carrier": "Carry deliveries: background commands and webhooks (an RQ worker).",
    "chores": "Trim, sweep, retry and replay (an RQ worker).",
    "gateway": "Answer hooks and programs over HTTP, on a TCP port and a unix socket.",
}


class _WorkerGroup(LazyGroup):
    """A group whose health probe fails only with exit code 1: Docker reserves 2, and some agents read 2 as `block`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Parse as click does, but a usage error of a probe becomes a finding (exit code 1)."""
        probe = "--health" in args
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if probe:
                raise CheckFailed(error.format_message()) from error
            raise


@click.group(cls=_WorkerGroup, invoke_without_command=True)
@click.option(
    "--health",
    metavar="[TYPE]",
    is_flag=False,
    flag_value=ANY,
    help="Exit 0 if this machine's worker of that type answers within 4 s, else 1; without a type, any worker.",
)
@click.option("--allow-outage", is_flag=True, help="With --health: exit 0 also while the server is away (liveness).")
@common_options
@click.pass_context
def worker(ctx: click.Context, health: str | None, allow_outage: bool) -> None:
    """Run one process until SIGTERM, as a Procfile line does; `fleethook up` starts all of them."""
    if health is not None:
        _probe(ctx.ensure_object(Context), health, allow_outage=allow_outage)
        ctx.exit()
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _probe(fleet: Context, kind: str, *, allow_outage: bool) -> None:
    """Print the live workers of a type on this machine; raises CheckFailed (exit 1) if there is none, or that is unknown."""
    if kind not in {ANY, *KINDS}:
        raise CheckFailed(f"there is no worker type {kind!r}; types: {', '.join(KINDS)}")
    try:
        asked = [health for health in _living(fleet) if kind in {ANY, health.kind}]
        found = [health for health in asked if health.alive or (kind != ANY and health.is_started_on_demand)]
    except (Unreachable, TimeoutError) as error:
        if not allow_outage:
            raise CheckFailed(f"the server cannot be asked: {str(error) or 'it does not answer'}") from error
        fleet.say("the server is away, and workers wait for it")
        return
    except FleethookError as error:
        raise CheckFailed(str(error)) from error
    if not found:
        raise CheckFailed(f"no {kind if kind != ANY else 'worker'} of this machine answers")
    if fleet.json:
        fleet.data({health.kind: list(health.alive) for health in found})
    else:
        named = [name for health in found for name in health.alive]
        fleet.data("\n".join(named or [f"no {kind} runs: `fleethook up` starts one when there is work"]))


def _living(fleet: Context) -> tuple[WorkerHealth, ...]:
    import asyncio

    from bus.wire.connections import PATIENT_CONNECT_SECONDS, Connections
    from workers.admin.worker_health import SECONDS, worker_health

    settings = fleet.settings()
    url = fleet.url("worker")

    async def ask() -> tuple[WorkerHealth, ...]:
        connections, queues = (
            Connections(url, connect=PATIENT_CONNECT_SECONDS),
            Connections(settings.rq_url or url, connect=PATIENT_CONNECT_SECONDS),
        )
        with (
            connections.lease()
        ):  # imports the client, which takes long on a busy machine: that is not the server's time
            pass
        try:
            async with asyncio.timeout(SECONDS):
                return await worker_health(connections, queues, fleet.keys(), settings)
        finally:
            await connections.close()
            await queues.close()

    return asyncio.run(ask())


def _command(kind: str, text: str) -> click.Command:
    @click.command(kind, help=text)
    @click.option("--also", multiple=True, hidden=True, type=click.Choice(["host", "gateway"]), help="Do its work too.")
    @click.option(
        "--most-idle",
        type=float,
        default=math.inf,
        hidden=True,
        help="The evaluator: end without requests for so long.",
    )
    @common_options
    @pass_fleet
    def run(fleet: Context, also: tuple[str, ...], most_idle: float) -> None:
        _take_variables()
        from workers.roles import run_role

        fleet.url("worker")  # raises Unreachable, and says so where a machine has agents only
        run_role(kind, fleet.settings(), also=also, most_idle=most_idle)

    return run


def _take_variables() -> None:
    """Take what our supervisor gave us; called before the settings are read, because its variables are no settings."""
    from workers.runtime.lifeline import die_with_parent
    from workers.supervision.predecessor import take_predecessor
    from workers.supervision.watchdog import take_timer
    from workers.waiting.on_demand import take_on_demand

    die_with_parent()
    take_on_demand()
    take_timer()
    take_predecessor()


@click.command(hidden=True)
@common_options
@pass_fleet
def answered(fleet: Context) -> None:
    """End when an evaluator of this machine's `fleethook up` has answered a test request: it starts this for itself."""
    import asyncio

    from bus.wire.embedded_server import bus_url
    from workers.runtime.readiness import until_answered
    from workers.supervisor import running

    _take_variables()
    places = fleet.directories()

    def pids() -> list[int]:
        state = running(places)
        return [child.pid for child in state.children] if state is not None else []

    asyncio.run(until_answered(bus_url(fleet.settings(), "worker", places), fleet.keys(), pids, fleet.say))


worker.add_command(answered)
for _kind, _text in KINDS.items():
    worker.add_command(_command(_kind, _text))
