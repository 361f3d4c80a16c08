"""`fleethook simulate`: one event through the hooks in force or those of a file, without side effects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.formatting import COLOURS, event_subject, plain, verdict_lines
from workers.cli.hooks.sets import in_force, sound
from workers.cli.parameters import DURATION
from workers.cli.screens.columns import wrapped_lines

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.events import Event
    from bus.hooksets.in_force import HookSet
    from bus.verdicts import Verdict
    from workers.simulation.simulate import Effect, Simulation

_WOULD = {
    "command": "would run",
    "http": "would ask",
    "plugin": "would ask the plugin",
    "prompt": "would ask the model",
    "agent": "would let the model read files and ask it",
    "webhook": "would post to",
    "workflow": "workflow",
}
_DID = {
    "command": "ran",
    "http": "asked",
    "plugin": "asked the plugin",
    "prompt": "asked the model",
    "agent": "let the model read files and asked it",
}


@click.command()
@click.argument("file", metavar="[FILE|-]", required=False)
@click.option("--event", "name", metavar="ID", help="A recorded event, by its id or the beginning of it.")
@click.option(
    "--hooks",
    "hook_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Ask the hooks of this file, and not those in force.",
)
@click.option(
    "--history",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The events before it, as JSON lines: they count for limits, facts and workflows, and what is recorded does not.",
)
@click.option("--source", default="", metavar="AGENT", help="The agent of the payload. Default: recognised.")
@click.option("--native", default="", metavar="NAME", help="The agent's name of the event, if the payload has none.")
@click.option(
    "--cwd",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of an event that names none. Default: the current one.",
)
@click.option(
    "--session",
    default="",
    metavar="ID",
    help="Judge it as an event of this session, with its limits, facts and workflows.",
)
@click.option("--run", is_flag=True, help="Run the commands and ask the URLs of the hooks that decide.")
@click.option("--budget", type=DURATION, metavar="TIME", help="How long the verdict may take.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if the verdict is deny.")
@common_options
@pass_fleet
def simulate(
    fleet: Context,
    file: str | None,
    name: str | None,
    hook_file: Path | None,
    history: Path | None,
    source: str,
    native: str,
    cwd: Path | None,
    session: str,
    run: bool,
    budget: float | None,
    exit_code: bool,
) -> None:
    """Show what the hooks would say to one event, each hook's part, and what they would start.

    FILE has an event in Fleethook's form, or an agent's own payload; - is stdin. Nothing is recorded, counted, delivered or
    started. With --run, the hooks that decide are run; what comes after the verdict is still only named. Limits, facts
    and workflows of the session are as they are now, or as --history leaves them.

    \b
    fleethook simulate payload.json
    fleethook simulate payload.json --hooks candidate.yaml
    fleethook simulate --event e01a2032eb --hooks candidate.yaml --exit-code
    """
    import msgspec

    from bus.ids import host_name
    from workers.admin.dry_run import hooks_of
    from workers.cli.simulation.given_event import file_event
    from workers.records.stored_events import stored_event
    from workers.simulation.simulate import simulation_record

    if (file is None) == (name is None):
        raise click.UsageError("say one event: FILE, - for stdin, or --event ID")
    recorded: Verdict | None = None
    if name is not None:
        if source or native or cwd is not None:
            raise click.UsageError("--event has its own agent, name and folder: leave --source, --native and --cwd out")
        event, seen = fleet.run(lambda connections: stored_event(connections, fleet.keys(), name))
        recorded = seen.verdict
    else:
        event = file_event(fleet, file or "-", source=source, kind=native, cwd=(cwd or Path.cwd()).absolute())
    if session:
        event = msgspec.structs.replace(event, session=session)
    if hook_file is not None:
        hooks = hooks_of(sound(fleet, hook_file)[1])
    else:
        hooks = in_force(fleet, Path(event.cwd), needed=False, host=event.host)
        if event.host != host_name():
            fleet.say(f"the files of the user and project on {event.host} are not known here: the fleet's hooks alone")
    settings = fleet.settings()
    seconds = settings.budget if budget is None else budget
    if history is not None:
        found = _after_history(fleet, event, hooks, history, run=run, seconds=seconds)
    else:
        found = _as_now(fleet, event, hooks, run=run, seconds=seconds)
    if fleet.json:
        before = None if recorded is None else {"decision": recorded.decision, **msgspec.to_builtins(recorded)}
        fleet.data({**simulation_record(found), **({} if name is None else {"recorded": before})})
    else:
        fleet.data(wrapped_lines(_lines(fleet, found, recorded)))
    if exit_code and found.verdict.blocks:
        raise CheckFailed("")


def _as_now(fleet: Context, event: Event, hooks: HookSet, *, run: bool, seconds: float) -> Simulation:
    """The simulation with the limits, facts and workflows of now, where the server can be asked; else of a new session."""
    import asyncio
    import os

    from bus.errors import FleethookError
    from bus.memory.replayed import remembers
    from workers.simulation.present import simulate_now
    from workers.simulation.simulate import simulate as judge

    how: dict[str, Any] = {"hooks": hooks, "run": run, "seconds": seconds, "policy": fleet.settings().on_failure}
    if not any(remembers(hook) or (hook.workflow is not None and event.session) for hook in hooks.hooks.values()):
        return asyncio.run(judge(event, **how))
    user = str(os.getuid())
    try:
        return fleet.run(lambda connections: simulate_now(connections, fleet.keys(), event, user=user, **how))
    except FleethookError as error:
        fleet.say(f"without the limits, facts and workflows of the session: {error}")
        return asyncio.run(judge(event, **how))


def _after_history(
    fleet: Context, event: Event, hooks: HookSet, path: Path, *, run: bool, seconds: float
) -> Simulation:
    """The simulation after the events of a file, which nothing is run for."""
    import asyncio

    import msgspec

    from bus.memory.replayed import ReplayedMemory
    from workers.admin.workflows.dry import DryWorkflows
    from workers.simulation.past_events import in_order
    from workers.simulation.simulate import pass_through
    from workers.simulation.simulate import simulate as judge

    policy, flows, past = fleet.settings().on_failure, DryWorkflows(), ReplayedMemory()
    events, unreadable = in_order(path)
    if unreadable:
        fleet.warn(
            f"{len(unreadable)} of {len(unreadable) + len(events)} events in {path} cannot be read: {unreadable[0]}"
        )
    after = msgspec.structs.replace(event, time=max([each.time for each in events], default=event.time) + 1)

    async def work() -> Simulation:
        await pass_through(events, hooks, flows, past, policy=policy)
        return await judge(after, hooks, run=run, seconds=seconds, policy=policy, workflows=flows, known=past)

    return asyncio.run(work())


def _lines(fleet: Context, found: Simulation, recorded: Verdict | None) -> Iterator[str]:
    from bus.secrets.redaction import redact_event
    from workers.simulation.simulate import redacted_verdict

    event: Event = redact_event(found.event)
    yield f"event    {plain(event.type)}  {plain(event.tool)}".rstrip()
    yield f"  {fleet.style(event_subject(event, 200), 'cyan')}"
    if recorded is not None:
        word = fleet.style(recorded.decision.upper(), COLOURS.get(recorded.decision, "bright_black"))
        yield f"recorded {word}  {plain(recorded.version) or 'no hooks'}"
        if recorded.reason:
            yield f"  reason: {fleet.style(plain(recorded.reason, 2_000), 'cyan')}"
    yield from verdict_lines(fleet, redacted_verdict(found.verdict))
    if not found.fitting:
        yield "  no blocking hook fits"
    for effect in found.effects:
        yield f"{_would(effect)}  {plain(effect.hook)}: {fleet.style(plain(effect.target), 'cyan')}"
    if found.unknown and not found.verdict.blocks:
        count = len(found.unknown)
        text = f"the verdict is without {count} hook{'s' * (count > 1)} that did not run; --run runs them"
        yield fleet.style(text, "yellow")


def _would(effect: Effect) -> str:
    """What happened or would happen: `ran`, `would ask`, `would run afterwards`."""
    if effect.kind == "workflow":
        return "workflow"
    verb = _DID[effect.kind] if effect.ran else _WOULD[effect.kind]
    return f"{verb}{' afterwards' if effect.when == 'after' else ''}"
