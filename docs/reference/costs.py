"""docs/costs.md: the ranges that `make costs` measured, from docs/costs.json. Every run counts, the slowest too."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from docs.reference.fields import table

RECORD: Final = Path(__file__).parents[1] / "costs.json"
README: Final = Path(__file__).parents[2] / "README.md"

Range = tuple[float, float]


class DemoFigure(NamedTuple):
    """A figure that the demo prints."""

    name: str
    pattern: re.Pattern[str]
    text: str
    """How the page shows it, with its range as `{}`."""


_NUMBER: Final = r"(\d+(?:\.\d+)?)"
DEMO: Final = tuple(
    DemoFigure(name, re.compile(pattern.replace("#", _NUMBER)), text)
    for name, pattern, text in (
        ("bus time of a request, median of 1,000", r"bus time # ms median there and back", "{} ms"),
        ("the rules alone", r"and # ms in the rules", "{} ms"),
        ("the hook command of Claude Code, from spawn to exit, one blocked call", r"# ms from spawn to exit", "{} ms"),
        ("the agent's wait for a background event", r"the agent waited # ms", "{} ms"),
        ("ready after the start", r"ready in # s", "{} s"),
        ("verdicts of 200 requests while an evaluator and a carrier are killed", r"200 requests: # verdicts", "{}"),
        ("fallbacks among them", r"verdicts, # fallbacks", "{}"),
        ("deliveries of 400 events meanwhile", r"400 events: # delivered", "{}"),
        ("lost", r"delivered, # lost", "{}"),
        ("delivered twice, with the same `webhook-id`", r"lost, # delivered twice", "{}"),
    )
)


class DemoRecord(msgspec.Struct, kw_only=True):
    """The demo's figures over several runs."""

    machine: str = ""
    """Where and when it was measured, as the page says it."""
    runs: int = 0
    ranges: dict[str, Range] = msgspec.field(default_factory=dict)

    def add(self, output: str) -> None:
        """Count one more run of `fleethook demo`, by what it wrote."""
        self.runs += 1
        for figure in DEMO:
            found = figure.pattern.search(output)
            if found is None:
                raise ValueError(f"the demo does not print {figure.pattern.pattern!r}:\n{output}")
            self.ranges[figure.name] = widened(self.ranges.get(figure.name), float(found[1]))


class BenchFigure(msgspec.Struct, kw_only=True):
    """One comparison of `fleethook bench` over several runs."""

    name: str
    baseline: str
    unit: str
    sense: Literal["at most", "at least"]
    ratio: Range
    ours: Range | None = None
    bar: Range | None = None
    runs: int = 1
    met: int = 0
    """In how many runs the bar was met."""


class BenchRecord(msgspec.Struct, kw_only=True):
    """The benchmark's figures over several runs."""

    machine: str = ""
    runs: int = 0
    rounds: int = 0
    figures: list[BenchFigure] = msgspec.field(default_factory=list)

    def add(self, figures: Sequence[Mapping[str, Any]]) -> None:
        """Count one more run of `fleethook bench`, by its JSON."""
        self.runs += 1
        known = {figure.name: figure for figure in self.figures}
        for row in figures:
            old, bar, ratio = known.get(row["name"]), row["bar"], (row["ratio"], row["ratio"])
            if old is None:
                old = BenchFigure(
                    name=row["name"],
                    baseline=row["baseline"],
                    unit=row["unit"],
                    sense=row["sense"],
                    ratio=ratio,
                    runs=0,
                )
                self.figures.append(old)
            old.runs += 1
            old.met += row["met"] is True
            old.ratio = widened(old.ratio, row["ratio"])
            old.ours = widened(old.ours, row["ours"])
            old.bar = None if bar is None else widened(old.bar, bar)


class AgentSide(msgspec.Struct, kw_only=True):
    """What the hooks of one install cost in one agent."""

    hooks: str
    added: float
    """How many milliseconds longer a call takes."""
    events: list[str]
    """The events of one call that each start a hook process."""
    later: list[str] = []
    """Those of them that the agent does not wait for."""


class AgentFigure(msgspec.Struct, kw_only=True):
    """The time of one call in one real agent."""

    agent: str
    version: str
    bar: float
    bare: float
    """Milliseconds of a call without hooks."""
    sides: list[AgentSide]


class AgentRecord(msgspec.Struct, kw_only=True):
    """The figures of `make bench-agents`."""

    machine: str = ""
    figures: list[AgentFigure] = msgspec.field(default_factory=list)
    missing: dict[str, str] = msgspec.field(default_factory=dict)
    """The agents that could not be had, and why."""


class Costs(msgspec.Struct, kw_only=True):
    """The content of docs/costs.json."""

    demo: DemoRecord = msgspec.field(default_factory=DemoRecord)
    bench: BenchRecord = msgspec.field(default_factory=BenchRecord)
    agents: AgentRecord = msgspec.field(default_factory=AgentRecord)


def widened(known: Range | None, value: float) -> Range:
    """The range with one more value."""
    return (value, value) if known is None else (min(known[0], value), max(known[1], value))


def load_costs() -> Costs:
    """What was measured."""
    return msgspec.json.decode(RECORD.read_bytes(), type=Costs)


def readme_sentence(costs: Costs) -> str:
    """The README's sentence about bus time. Rounded outwards, so that no run was slower than it says."""
    low, high = costs.demo.ranges[DEMO[0].name]
    return f"A verdict takes {math.floor(low * 10) / 10:g} to {math.ceil(high * 10) / 10:g} ms of bus time"


def costs_page() -> str:
    """The page of costs."""
    costs = load_costs()
    return f"""\
# What it costs

`make costs` runs the demo and the benchmark several times on one machine and writes this page. Each figure is the range from
the smallest to the largest value over all runs; no run is left out.

## The demo

`make demo`, {_runs(costs.demo.runs)}. {costs.demo.machine}

{table(("figure", "range"), _demo_rows(costs.demo))}
## The benchmark

`make bench` compares with bare libraries in the same run on the same machine; a run gives the medians of alternating rounds, at
least {costs.bench.rounds}. The ratio is ours divided by the baseline's.

{_runs(costs.bench.runs).capitalize()}. {costs.bench.machine}

{table(("what", "against", "ratio", "bar", "bar met", "ours"), map(_bench_row, costs.bench.figures))}
Single rounds vary by a third with the load of the machine's other guests. The ratio of a request also depends on which of its
three processes share a core, and the scheduler moves them every second. So the benchmark has a ratio for each placement too.
The bars of guards in µs are for this machine; [guards](guards.md) has them as ratios, for any machine.\
{_agents(costs.agents)}"""


def _agents(record: AgentRecord) -> str:
    if not record.machine:
        return ""
    missing = "".join(f"\n{name} could not be had: {why}.\n" for name, why in record.missing.items())
    return f"""

## In real agents

`make bench-agents` (`A=claude` for one) runs the agent programs of `make test-agents` with a scripted model, and prints how
much longer one tool call takes with Fleethook's hooks than without. A call's time is from the moment at which the model has
asked for the command to the moment at which the agent comes back with its result, so the model's own time is not in it.
Sessions without hooks, with the default events and with all events take turns, one of each in a round; a figure is the median
of the differences within the rounds. The bars are for a machine with nothing else to do: on another one, give the bench
priority (`chrt -f 5 make bench-agents`).

An agent that waits for a hook is delayed by more than the hook's own 2 ms: it starts the process, often in a shell of its own,
and reads the answer when its event loop comes to it. So count the processes that it waits for. OpenCode's plugin starts no
process while a server or gateway with a unix socket runs on its machine.

{record.machine}

{table(("agent", "hooks", "one call without", "added", "bar", "processes per call"), _agent_rows(record))}{missing}"""


def _agent_rows(record: AgentRecord) -> Iterable[tuple[str, ...]]:
    for figure in record.figures:
        for number, side in enumerate(figure.sides):
            later = f"; not waited for: {', '.join(side.later)}" if side.later else ""
            yield (
                f"{figure.agent} {figure.version}",
                side.hooks,
                f"{figure.bare:.1f} ms",
                f"{side.added:.1f} ms",
                "-" if number else f"{figure.bar:g} ms, {'met' if side.added <= figure.bar else 'not met'}",
                f"{len(side.events)} ({', '.join(side.events)}{later})" if side.events else "0",
            )


def _demo_rows(demo: DemoRecord) -> Iterable[tuple[str, str]]:
    for figure in DEMO:
        if figure.name in demo.ranges:
            yield figure.name, figure.text.format(_range(demo.ranges[figure.name]))


def _bench_row(figure: BenchFigure) -> tuple[str, ...]:
    return (
        figure.name,
        figure.baseline,
        _range(figure.ratio),
        "-" if figure.bar is None else f"{figure.sense} {_range(figure.bar)}",
        "-" if figure.bar is None else f"{figure.met} of {figure.runs}",
        "-" if figure.ours is None else f"{_range(figure.ours)} {figure.unit}",
    )


def _runs(count: int) -> str:
    return "one run, so these figures are no ranges yet" if count == 1 else f"{count} runs"


def _range(values: Range) -> str:
    low, high = (_number(value) for value in values)
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    """Three digits that count, whole numbers as they are."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
