"""`make bench-agents`: how much longer one tool call takes in each real agent with Fleethook's hooks than without.

The scripted model answers at once, and its own time is not counted: a call's time is from the moment at which it asks for the
command to the moment at which the agent comes back with the result. The sides take turns, one session of each in every round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from docs.reference.costs import RECORD, AgentFigure, AgentRecord, AgentSide, load_costs
from docs.reference.pages import DOCS, pages
from tests.agents.model import playing
from tests.agents.programs import PROGRAMS, Missing, Program
from tests.agents.world import World
from tests.support.up import up

BARS: Final = {"claude": 15.0, "opencode": 15.0, "codex": 25.0, "gemini": 25.0, "qwen": 25.0}
"""The most milliseconds that the default events may add to a call, on a quiet machine."""

SIDES: Final = {"none": "", "default events": "default", "all events": "all"}
CALLS: Final = 20
SKIPPED: Final = 2
"""The first calls of a session, which do not count: the agent still loads what it needs."""

_COMMAND: Final = "true {}"
"""Another one for each call: Gemini CLI and Qwen Code end a session that repeats itself."""


class Side(NamedTuple):
    """One way to run an agent: its home, and the times of its calls in milliseconds."""

    name: str
    home: Path
    events: str
    times: list[float]


def measure(world: World, program: Program, rounds: int) -> AgentFigure:
    """Measure one agent; raises Missing if it cannot be installed here."""
    world.on_path = program.on_path()
    names = enumerate(SIDES.items())
    sides = [Side(name, world.folder / f"{program.name}-{number}", events, []) for number, (name, events) in names]
    for side in sides:
        side.home.mkdir()
        world.home = side.home
        program.prepare(world.home, world.project, world.model.url)
        if side.events:
            world.fleethook("install", program.name, "--yes", "--events", side.events)
    for turn in range(rounds + 1):  # in the first round agents make their caches
        for side in sides if turn % 2 else reversed(sides):
            world.home = side.home
            times = _session(world, program)
            if turn:
                side.times.append(statistics.median(times))
            sys.stderr.write(
                f"{program.name}, round {turn} of {rounds}, {side.name}: {statistics.median(times):.1f} ms\n"
            )
    bare, *others = sides
    made = []
    for side in others:
        world.home = side.home
        started = _processes(world, program, side)
        # Within a round the machine is about as fast for each side; between rounds it is not (by a half, measured).
        added = statistics.median(with_ - without for with_, without in zip(side.times, bare.times, strict=True))
        made.append(AgentSide(hooks=side.name, added=added, events=started, later=_later(side.home, started)))
    version = program.packages[0].rpartition("@")[2]
    without = statistics.median(bare.times)
    return AgentFigure(agent=program.name, version=version, bar=BARS[program.name], bare=without, sides=made)


def _session(world: World, program: Program) -> list[float]:
    """One session: the milliseconds of each call."""
    done = _run(world, program)
    times = [seconds * 1000 for seconds in world.model.between[SKIPPED:]]
    if len(times) < CALLS - SKIPPED:
        raise RuntimeError(
            f"{program.name} made too few calls: {done.returncode} {done.stdout[-500:]} {done.stderr[-500:]}"
        )
    return times


def _run(world: World, program: Program) -> subprocess.CompletedProcess[str]:
    """One session of so many calls."""

    def next_command(number: int) -> None:
        world.model.command = _COMMAND.format(number)

    return world.start(program, _COMMAND.format(0), *[partial(next_command, number) for number in range(1, CALLS + 1)])


def _processes(world: World, program: Program, side: Side) -> list[str]:
    """The events of one call that start a hook process each: counted in a session of its own."""
    log = world.folder / f"{program.name}-{side.events}.log"
    log.touch()
    with _counting(side.home, log):
        _run(world, program)
    found = Counter(log.read_text().split())
    return sorted(event for event, count in found.items() for _ in range(round(count / CALLS)) if count >= CALLS - 1)


def _later(home: Path, events: list[str]) -> list[str]:
    """Those of the events whose hooks the agent does not wait for."""
    found = set()
    for path in home.rglob("settings.json"):
        for event, groups in json.loads(path.read_text()).get("hooks", {}).items():
            found |= {event for group in groups for handler in group.get("hooks", []) if handler.get("async")}
    return sorted(found & set(events))


@contextmanager
def _counting(home: Path, log: Path) -> Iterator[None]:
    """Let every hook command in an agent's settings write its event into a file first."""
    before: dict[Path, bytes] = {}
    for path in [*home.rglob("*.json"), *home.rglob("plugins/fleethook.js")]:
        text = path.read_text(errors="replace")
        if "launcher.py" in text:
            before[path] = path.read_bytes()
            path.write_text(_plugin(text, log) if path.suffix == ".js" else _settings(text, log))
    try:
        yield
    finally:
        for path, raw in before.items():
            path.write_bytes(raw)


def _settings(text: str, log: Path) -> str:
    value = json.loads(text)
    for event, groups in value["hooks"].items():
        for group in groups if isinstance(groups, list) else ():
            for handler in group.get("hooks", [group]):
                if "# fleethook" in handler.get("command", ""):
                    handler["command"] = f"echo {event} >> {log}; {handler['command']}"
    return json.dumps(value)


def _plugin(text: str, log: Path) -> str:
    """The plugin starts a script, which notes the event (the first word after the agent's name) and goes on as the program."""
    script = log.with_suffix(".sh")
    found = re.search(r'"command": \[\s*"([^"]+)"', text)
    if found is None:
        raise RuntimeError("the plugin names no command")
    script.write_text(
        f'#!/bin/sh\nfor last do [ "$before" = opencode ] && echo "$last" >> {log}; before=$last; done\nexec {found[1]} "$@"\n'
    )
    script.chmod(0o755)
    return text.replace(found[0], f'"command": ["{script}"', 1)


def main(arguments: list[str]) -> int:
    """Measure the named agents, else all, and print the figures."""
    parser = argparse.ArgumentParser(prog="make bench-agents", description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=", ".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", action="store_true", help="write the figures into docs/costs.json and its page")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.agents if name not in PROGRAMS]
    if unknown:
        parser.error(f"no agent is called {unknown[0]!r}; there are {', '.join(PROGRAMS)}")
    record = AgentRecord()
    folder = Path(tempfile.mkdtemp(prefix="fh-agents-"))
    loads = [os.getloadavg()[0]]
    try:
        with playing() as model:
            world = World(folder, model)
            for one in (world.home, world.project, folder / "fh"):
                one.mkdir(parents=True)
            with up(world.environment, world.project, folder / "up.log"):
                for name in chosen.agents or PROGRAMS:
                    try:
                        record.figures.append(measure(world, PROGRAMS[name], chosen.rounds))
                    except Missing as error:
                        record.missing[name] = str(error)
                    loads.append(os.getloadavg()[0])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    record.machine = (
        f"Measured on {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, {platform.machine()}, {platform.system()}; "
        f"medians of {chosen.rounds} sessions of {CALLS} calls; load {min(loads):.1f} to {max(loads):.1f}."
    )
    sys.stdout.write(
        msgspec.json.format(msgspec.json.encode(record)).decode() + "\n" if chosen.json else _table(record)
    )
    if chosen.record:
        save(record)
    return 0


def save(record: AgentRecord) -> None:
    """Put these figures in the place of earlier ones of the same agents, and write the page."""
    costs = load_costs()
    now = {figure.agent for figure in record.figures} | record.missing.keys()
    kept = [figure for figure in costs.agents.figures if figure.agent not in now]
    record.figures = sorted([*kept, *record.figures], key=lambda figure: [*PROGRAMS].index(figure.agent))
    costs.agents = record
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n")
    (DOCS / "costs.md").write_text(pages()["costs.md"], encoding="utf-8")


def _table(record: AgentRecord) -> str:
    lines = [f"{'AGENT':<18}{'HOOKS':<16}{'WITHOUT':>9}{'ADDED':>9}{'BAR':>8}{'':>9}  PROCESSES PER CALL"]
    for figure in record.figures:
        for side in figure.sides:
            is_first = side is figure.sides[0]
            met = ("met" if side.added <= figure.bar else "NOT MET") if is_first else ""
            later = f", not waited for: {', '.join(side.later)}" if side.later else ""
            lines.append(
                f"{f'{figure.agent} {figure.version}':<18}{side.hooks:<16}{figure.bare:>6.1f} ms{side.added:>6.1f} ms"
                f"{f'{figure.bar:g} ms' if is_first else '':>8}{met:>9}  {len(side.events)} {', '.join(side.events)}{later}"
            )
    lines += [f"{name}: NOT MEASURED, it could not be had: {why}" for name, why in record.missing.items()]
    return "\n".join([*lines, record.machine, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
