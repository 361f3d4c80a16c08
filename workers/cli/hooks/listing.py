"""`fleethook hooks list`: the hooks in force here, with file and line, and when each ran last."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.formatting import plain, when
from workers.cli.screens.columns import Cell, Column
from workers.cli.screens.rows import no_trunc_option
from workers.records.hook_list import hook_records, listed_hooks
from workers.runtime.wording import counted

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hooks import Endpoint, Hook
    from workers.admin.hook_timeouts import Granted
    from workers.records.last_runs import HookRun, RunHistory

HOOK_COLUMNS: Final = (
    Column("HOOK", 8, halved=True),
    Column("LAYER", 7, rank=3),
    Column("WAITS", 10, rank=1),
    Column("ON", 16, rank=2),
    Column("KIND", 7, rank=5),
    Column("TIMEOUT", 7, rank=6),
    Column("LAST RUN", 16, rank=4),
    Column("FROM", 16, rank=7, keep_end=True),
)
"""In a narrow terminal the file is dropped first, then the timeout, the kind and the last run."""

_MOST_ON: Final = 40
"""The most characters of event patterns on a line; `--json` has all of them."""


@click.command("list")
@click.option(
    "--event", "kind", default="", metavar="TYPE", help="Only hooks for one event type, e.g. tool:pre_execute."
)
@click.option("--all", "every_rule", is_flag=True, help="List every rule of the guard packs too.")
@click.option(
    "--untrusted",
    is_flag=True,
    help="List the projects whose hooks do not run, because you do not trust their present content.",
)
@no_trunc_option
@common_options
@pass_fleet
def list_hooks(fleet: Context, kind: str, every_rule: bool, untrusted: bool, whole: bool) -> None:
    """List the hooks in force here: the fleet's, the user's and those of the (trusted) project around this folder.

    TIMEOUT is a hook's own limit, then the shorter limits of agents that are installed here.
    LAST RUN is taken from the newest recorded events and deliveries; a dash means that the hook did not run in them.
    """
    if untrusted:
        _list_untrusted(fleet)
        return
    from workers.admin.hook_timeouts import effective, granted_here
    from workers.cli.hooks.sets import in_force

    here = in_force(fleet)
    granted = granted_here(fleet.directories())
    found = listed_hooks(here)
    if kind:
        found = [hook for hook in found if _is_for(hook, kind)]
    if fleet.json:
        records = fleet.run(lambda connections: hook_records(connections, fleet.keys(), found))
        hooks = [{**record, "timeouts": effective(hook, granted)} for hook, record in zip(found, records, strict=True)]
        fleet.data({"version": here.version, "hooks": hooks, "waiting": list(here.waiting)})
        return
    record_ = _record_of(fleet)
    packs = {} if every_rule else _packs(found)
    rows = [_row(hook, record_.runs, granted) for hook in found if hook.id not in packs]
    folded = Counter((packs[hook.id], _layer(hook)) for hook in found if hook.id in packs)
    rows += [
        (f"guard {pack}", layer, "blocking", counted(count, "rule"), "rule", "-", "-", "--all lists them")
        for (pack, layer), count in folded.items()
    ]
    if rows:
        fleet.table(HOOK_COLUMNS, rows, whole=whole)
    else:
        fleet.say(f"no hooks are in force here{f' for {kind}' if kind else ''}")
    fleet.say(f"in force: {here.version}")
    for text in here.waiting:
        fleet.warn(text)


def import_row(entry: Hook | Endpoint) -> tuple[object, ...]:
    """A hook or endpoint in the form of `hooks import`: id, events, kind, waits, timeout, policy, place."""
    from bus.hookfiles import find_hooks
    from bus.hooks import Hook

    if not isinstance(entry, Hook):
        policy = f"retry {entry.retry}" if isinstance(entry.retry, str) else f"{len(entry.retry)} more attempts"
        return (
            entry.id,
            _patterns(entry.events, entry.tool),
            f"{entry.dialect} webhook",
            _waits(entry),
            f"{entry.timeout:g} s",
            policy,
            short_origin(entry.origin),
        )
    policy = entry.on_failure or find_hooks(entry.dialect).policy or "-"
    return (
        entry.id,
        _on(entry),
        _kind(entry),
        _waits(entry),
        f"{entry.timeout:g} s",
        policy,
        short_origin(entry.origin),
    )


def _record_of(fleet: Context) -> RunHistory:
    from bus.wire.connections import Connections
    from workers.records.last_runs import last_runs

    async def work(connections: Connections) -> RunHistory:
        return await last_runs(connections, fleet.keys())

    return fleet.run(work)


def _row(hook: Hook, runs: Mapping[str, HookRun], granted: Granted) -> tuple[object, ...]:
    run = runs.get(hook.id)
    last = f"{_moment(run.ms)} {run.what}" if run is not None else "-"
    return (
        hook.id,
        _layer(hook),
        Cell(_waits(hook), None if hook.enabled else "bright_black"),
        _on(hook),
        _kind(hook),
        _timeout(hook, granted),
        last,
        Cell(short_origin(hook.origin), "bright_black"),
    )


def _timeout(hook: Hook, granted: Granted) -> str:
    """Its timeout, and the agents here that wait less: `600 s; codex 26.5 s`. Rules have their own limit."""
    from workers.admin.hook_timeouts import declared, effective

    most = declared(hook)
    if most is None:
        return "-"
    less: dict[float, list[str]] = {}
    for agent, seconds in effective(hook, granted).items():
        if seconds < most:
            less.setdefault(seconds, []).append(agent)
    return "; ".join([f"{most:g} s", *(f"{', '.join(agents)} {seconds:g} s" for seconds, agents in less.items())])


def _layer(hook: Hook) -> str:
    """The layer, with the number of a published version. The list's last lines explain the version of a file."""
    return f"{hook.layer}@{hook.version}" if hook.layer == "fleet" else hook.layer


def _moment(ms: int) -> str:
    """The time of a run today, or the day of an earlier run."""
    day, _, hour = when(ms).partition(" ")
    return hour if day == when(int(time.time() * 1000)).partition(" ")[0] else day


def _on(hook: Hook) -> str:
    return _patterns(hook.on, hook.tool) + (" when …" if hook.when else "")


def _patterns(on: Sequence[str], tool: str) -> str:
    from workers.cli.formatting import short

    return plain(short(", ".join(on), _MOST_ON) + (f" [{short(tool, _MOST_ON)}]" if tool else ""))


def _kind(hook: Hook) -> str:
    from bus.hooks import NATIVE

    return hook.kind if hook.dialect == NATIVE else f"{hook.dialect} {hook.kind}"


def _waits(entry: Hook | Endpoint) -> str:
    from bus.hooks import Hook

    if not entry.enabled:
        return "off"
    if not isinstance(entry, Hook):
        return "background"
    return "observes" if entry.observe else "blocking" if entry.blocking else "background"


def short_origin(origin: str) -> str:
    """The shortest form of a path: from this folder, from home, or absolute."""
    for base, prefix in ((os.getcwd(), ""), (os.path.expanduser("~"), "~/")):
        if origin.startswith(base.rstrip("/") + "/"):
            return prefix + origin[len(base.rstrip("/")) + 1 :]
    return origin


def _list_untrusted(fleet: Context) -> None:
    """Project files with content that is not trusted: around this folder, in recent events, in the trust list."""
    from bus.errors import Unreachable
    from bus.hooksets import trust
    from bus.ids import host_name
    from bus.system.directories import config_file
    from bus.wire.connections import Connections
    from workers.records.last_runs import last_runs

    async def work(connections: Connections) -> tuple[str, ...]:
        return (await last_runs(connections, fleet.keys(), host=host_name())).folders

    places = fleet.directories()
    store, user = places.trust_file, config_file(places.config)
    known = {kept.path: kept for kept in trust.listed(store)}
    try:
        seen = fleet.run(work)
    except Unreachable as error:
        fleet.say(f"without the folders in which agents were: {error}")
        seen = ()
    folders = [str(Path.cwd()), *(folder for folder in seen if os.path.isabs(folder))]
    files = [path for folder in folders if (path := trust.project_file(Path(folder), user=user)) is not None]
    names = dict.fromkeys([os.path.realpath(path) for path in files] + [path for path in known if os.path.isfile(path)])
    rows = [
        (name, "changed since it was trusted" if name in known else "never trusted")
        for name in names
        if not trust.is_trusted(Path(name), store)
    ]
    if fleet.json:
        fleet.data([{"path": name, "state": state.split()[0]} for name, state in rows])
    elif rows:
        fleet.table(("FILE", "STATE"), rows)
        fleet.say("`fleethook hooks trust FILE` shows one whole and lets its hooks run")
    else:
        fleet.say("no untrusted project was seen")


def _is_for(hook: Hook, kind: str) -> bool:
    """Whether a hook is for an event type, whatever its tool; a third part (`tool:pre_execute:bash`) asks for the tool."""
    from fnmatch import fnmatchcase

    from bus.events import Event
    from bus.matching.patterns import Index, parse_pattern

    wanted = parse_pattern(kind)
    if any(asked.tool for asked in wanted):
        index = Index([(hook, hook.on)])
        return any(index.find(Event(type=asked.type, tool=asked.tool)) for asked in wanted)
    return any(
        fnmatchcase(asked.type, pattern.type) for asked in wanted for text in hook.on for pattern in parse_pattern(text)
    )


def _packs(hooks: Sequence[Hook]) -> dict[str, str]:
    """The name of the pack by the id of each guard rule, of packs that the hooks may come from: to read all takes 0.2 s."""
    from bus.hooksets.guards import load_pack, packs

    names = [name for name in packs() if any(hook.id.startswith(f"{name}_") for hook in hooks)]
    return {rule.id: name for name in names for rule in load_pack(name).rules}
