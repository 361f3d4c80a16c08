"""What the default guards cost for one harmless command line, beside parsing the same line and nothing else."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bus.config.file_types import GuardSettings
from bus.config.hook_file_value import HookFile
from bus.events import Event
from bus.hooksets.guards import DEFAULT_PACKS, load_pack
from bus.hooksets.guards.corpus import read_corpus
from bus.hooksets.in_force import HookSet, Layered
from bus.matching.arguments import command_of
from bus.matching.disk import full_disk
from bus.matching.rules import check_rule, judge
from bus.shell import commands
from bus.shell.parsing import syntax_tree
from workers.bench.rounds import Figure, Sizes, figure

_CORPUS: Final = Path(__file__).parents[2] / "tests" / "corpora" / "development"
_BASELINE: Final = "tree-sitter parsing the same lines"


async def guard_figures(_url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """Microseconds a line at the median, each line read for the first time: read, judged by the default packs, and both."""
    hooks = HookSet([Layered("fleet", "1", HookFile(guards={name: GuardSettings() for name in DEFAULT_PACKS}))])
    for hook in hooks.hooks.values():
        if hook.rule is not None:
            check_rule(hook.rule)  # compiled now, as an evaluator has them after its first minute
    events = _harmless_events()
    for _ in range(sizes.warm_ups):
        _round(hooks, events)
    taken = [_round(hooks, events) for _ in range(rounds)]
    parse, read, whole = zip(*taken, strict=True)
    return [
        figure("guards, a harmless line at the median", _BASELINE, "µs", whole, parse),
        figure("guards, the same line: reading alone", _BASELINE, "µs", read, parse),
    ]


def _harmless_events() -> list[Event]:
    """The harmless shell lines of the development corpus; those beside the rules where this is no working copy."""
    files = sorted(_CORPUS.glob("*.jsonl"))
    events = [
        one.event for file in files for one in read_corpus(file.read_bytes(), file.name)[0] if one.expect == "allow"
    ]
    if not events:
        cases = [case for name in DEFAULT_PACKS for case in load_pack(name).tests]
        events = [case.event for case in cases if case.expected == "allow"]
    known = {event.input["command"]: event for event in events if event.tool == "bash" and "command" in event.input}
    return list(known.values())


def _round(hooks: HookSet, events: Sequence[Event]) -> tuple[float, float, float]:
    """The medians in microseconds of one pass over the events, whose lines are far more than the reader remembers."""
    taken = [_costs(hooks, event) for event in events]
    parse, read, whole = (statistics.median(side) * 1e6 for side in zip(*taken, strict=True))
    return parse, read, whole


def _costs(hooks: HookSet, event: Event) -> tuple[float, float, float]:
    """Seconds to parse a line, to read it, and to read and judge it; the engine around the rules does not count."""
    line = command_of(event) or ""
    source = line.encode()
    begin = time.perf_counter()
    syntax_tree(source)
    parsed = time.perf_counter()
    commands(line)
    read = time.perf_counter()
    disk = full_disk()
    for hook in hooks.blocking(event, None, disk):
        if hook.rule is not None:
            judge(hook.rule, event, disk)
    return parsed - begin, read - parsed, time.perf_counter() - parsed
