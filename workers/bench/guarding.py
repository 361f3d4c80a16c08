"""The time of the guards for one command line, beside parsing or splitting the same line, and beside a bar in microseconds.

A bar in microseconds says nothing on a machine of another speed, so each has its ratio too: to `shlex.split` of the same lines.

No line of the held-out corpus (`tests/corpora/README.md`) is shown, only the medians.
"""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bus.config.file_types import GuardSettings
from bus.config.hook_file_value import HookFile
from bus.events import Event
from bus.hooksets.guards import DEFAULT_PACKS, load_pack, packs
from bus.hooksets.guards.corpus import CorpusLine, read_corpus
from bus.hooksets.in_force import HookSet, Layered
from bus.matching.disk import full_disk
from bus.matching.rules import check_rule, judge
from bus.shell import commands
from bus.shell.parsing import new_parser, syntax_tree
from bus.tool_arguments import command_of
from workers.bench.rounds import Figure, Sizes, figure
from workers.runtime.process import collect_garbage_seldom

_T = TypeVar("_T")
_CORPORA: Final = Path(__file__).parents[2] / "tests" / "corpora"
_PARSING: Final = "tree-sitter parsing the same lines"
"""As guards parse a line: made readable for the grammar, by a parser of its own (`bus.shell.parsing`)."""
_BARE_PARSING: Final = "one parser of tree-sitter, the same lines"
"""Nothing but the library: the same lines as bytes, and one parser for all of them."""
_SPLITTING: Final = "shlex.split of the same lines"
"""A baseline in Python: how fast the machine runs Python at that moment changes both sides alike."""
_BAR: Final = 50.0
"""The most microseconds that reading and judging a line may take at the median (X-09)."""
_BAR_NAME: Final = "the bar of 50 µs"
_ALL_BAR: Final = 100.0
"""The most microseconds that all packs together may take at the median."""
_ALL_BAR_NAME: Final = "the bar of 100 µs"
_SPLIT: Final = 12.0
"""Microseconds in which `shlex.split` split a harmless held-out line, in the recorded runs that met the bar of 50
(docs/costs.json, 2026-11-23: 11.9 and 12.1 µs)."""
_SPLIT_ANY: Final = 13.0
"""The same for any held-out line: 12.8 and 13.3 µs."""


async def guard_figures(_url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """Median microseconds to read a line for the first time, to judge it by the default packs, and for both together.

    Then for both together by all packs.
    """
    hooks = _compiled(DEFAULT_PACKS)
    collect_garbage_seldom()  # as an evaluator does
    harmless = _harmless(_pack_tests() if _is_installed() else _corpus("development"))
    parse, read, whole = _rounds(hooks, harmless[: sizes.lines], rounds, sizes)
    figures = [
        figure("guards, a harmless line at the median", _PARSING, "µs", whole, parse),
        figure("guards, the same line: reading alone", _PARSING, "µs", read, parse),
    ]
    if not _is_installed():
        lines = _corpus("held-out")
        harmless, shell_lines = _harmless(lines)[: sizes.lines], _shell_lines(lines)[: sizes.lines]
        figures += _beside_bar("a harmless held-out line", hooks, harmless, rounds, sizes, _BAR, _SPLIT)
        figures += _beside_bar("any held-out line", hooks, shell_lines, rounds, sizes, _BAR, _SPLIT_ANY)
        every = _compiled(packs())
        figures += _beside_bar(
            "any held-out line by all packs", every, shell_lines, rounds, sizes, _ALL_BAR, _SPLIT_ANY
        )
    return figures


def _compiled(names: Iterable[str]) -> HookSet:
    """The rules of these packs, compiled, as an evaluator has them after its first minute."""
    hooks = HookSet([Layered("fleet", "1", HookFile(guards={name: GuardSettings() for name in names}))])
    for hook in hooks.hooks.values():
        if hook.rule is not None:
            check_rule(hook.rule)
    return hooks


def _is_installed() -> bool:
    """Whether Fleethook is installed as a package, without the corpora of a working copy."""
    return not _CORPORA.is_dir()


def _corpus(part: str) -> list[CorpusLine]:
    files = sorted((_CORPORA / part).glob("*.jsonl"))
    return [line for file in files for line in read_corpus(file.read_bytes(), file.name)[0]]


def _pack_tests() -> list[CorpusLine]:
    """The tests beside the rules, as lines of a corpus."""
    cases = [case for name in DEFAULT_PACKS for case in load_pack(name).tests]
    return [CorpusLine(case.event, case.expected, "", case.origin) for case in cases]


def _harmless(lines: Iterable[CorpusLine]) -> list[Event]:
    return _shell_lines(line for line in lines if line.expect == "allow")


def _shell_lines(lines: Iterable[CorpusLine]) -> list[Event]:
    """The shell lines, each once."""
    events = [line.event for line in lines]
    return list(
        {
            event.input["command"]: event for event in events if event.tool == "bash" and "command" in event.input
        }.values()
    )


def _beside_bar(
    name: str, hooks: HookSet, events: Sequence[Event], rounds: int, sizes: Sizes, bar: float, split: float
) -> list[Figure]:
    """Reading and judging a line beside a bar in microseconds, and beside splitting and parsing the same lines.

    The ratio to splitting has the same bar, for a machine of any speed: `split` is what splitting these lines took where the
    bar in microseconds was met.
    """
    lines = [event.input["command"] for event in events]
    sources = [line.encode() for line in lines]
    parse = new_parser().parse
    sides: list[Callable[[], float]] = [
        lambda: _median_of(partial(_judge, hooks), events),
        lambda: _median_of(_split, lines),
        lambda: _median_of(parse, sources),
    ]
    for _ in range(sizes.warm_ups):
        sides[0]()
    ours, splitting, parsing = zip(*[[side() for side in sides] for _ in range(rounds)], strict=True)
    bar_name = _BAR_NAME if bar == _BAR else _ALL_BAR_NAME
    return [
        figure(f"guards, {name} at the median", bar_name, "µs", ours, [bar] * rounds, bar=1.0),
        figure(f"guards, {name} beside splitting it", _SPLITTING, "µs", ours, splitting, bar=round(bar / split, 1)),
        figure(f"guards, {name} beside parsing it", _BARE_PARSING, "µs", ours, parsing),
    ]


def _median_of(work: Callable[[_T], object], items: Iterable[_T]) -> float:
    """The median microseconds of the work for an item, with no other work between the items."""
    taken = []
    for item in items:  # far more lines than the reader and the rules remember
        begin = time.perf_counter()
        work(item)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e6


def _split(line: str) -> None:
    with suppress(ValueError):  # a quote is not closed
        shlex.split(line)


def _rounds(
    hooks: HookSet, events: Sequence[Event], rounds: int, sizes: Sizes
) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    """The medians of `_round` for each round, after warm-up rounds that do not count."""
    for _ in range(sizes.warm_ups):
        _round(hooks, events)
    parse, read, whole = zip(*[_round(hooks, events) for _ in range(rounds)], strict=True)
    return parse, read, whole


def _round(hooks: HookSet, events: Sequence[Event]) -> tuple[float, float, float]:
    """The medians in microseconds of one pass over the events, which have far more lines than anything remembers."""
    taken = [_costs(hooks, event) for event in events]
    parse, read, whole = (statistics.median(side) * 1e6 for side in zip(*taken, strict=True))
    return parse, read, whole


def _costs(hooks: HookSet, event: Event) -> tuple[float, float, float]:
    """Seconds to parse a line, to read it, and to read and judge it, without the engine around the rules."""
    line = command_of(event) or ""
    source = line.encode()
    begin = time.perf_counter()
    syntax_tree(source)
    parsed = time.perf_counter()
    commands(line)
    read = time.perf_counter()
    _judge(hooks, event)
    return parsed - begin, read - parsed, time.perf_counter() - parsed


def _judge(hooks: HookSet, event: Event) -> None:
    disk = full_disk()
    for hook in hooks.blocking(event, None, disk):
        if hook.rule is not None and judge(hook.rule, event, disk) is not None and hook.rule.decision == "deny":
            break  # as in the engine, where the first deny ends the chain
