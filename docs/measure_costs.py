"""`make costs`: run the demo and the benchmark several times, and write their ranges into docs/costs.md and the README.

The record is docs/costs.json, which is written after each run: one that is interrupted is not lost. `--more` adds runs to the
record instead of beginning a new one; do that only on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time

import msgspec

from bus.wire.embedded_server import find_binary
from docs.reference.costs import README, RECORD, BenchRecord, Costs, DemoRecord, load_costs, readme_sentence
from docs.reference.pages import DOCS, pages


def main() -> None:
    """Measure, and write after each run."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--demo", type=int, default=10, help="runs of the demo, half a minute each")
    options.add_argument("--bench", type=int, default=3, help="runs of the benchmark, a quarter of an hour each")
    options.add_argument("--rounds", type=int, default=5, help="rounds of each run of the benchmark")
    options.add_argument("--more", action="store_true", help="add to the record")
    given = options.parse_args()
    costs = load_costs()
    if not given.more:
        # What is not measured now stays as it was.
        costs.demo = DemoRecord() if given.demo else costs.demo
        costs.bench = BenchRecord() if given.bench else costs.bench
    costs.bench.rounds = given.rounds if given.bench else costs.bench.rounds
    loads: list[float] = []
    for number in range(given.demo):
        loads.append(os.getloadavg()[0])
        costs.demo.add(fleethook("demo"))
        costs.demo.machine = machine(loads)
        save(costs, f"demo {number + 1} of {given.demo}")
    loads = []
    for number in range(given.bench):
        loads.append(os.getloadavg()[0])
        costs.bench.add(json.loads(fleethook("bench", "--json", "--rounds", str(given.rounds))))
        costs.bench.machine = machine(loads)
        save(costs, f"bench {number + 1} of {given.bench}")


def fleethook(*words: str) -> str:
    """What a command writes; progress and errors go to this terminal."""
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", *words], env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def machine(loads: list[float]) -> str:
    """The machine in words; `loads` has its load before each run."""
    server = find_binary()
    return (
        f"Measured on {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, {platform.machine()}, {platform.system()}, "
        f"Python {platform.python_version()}, {server.brand} {server.version}, append-only file every second. "
        f"Load before each run: {min(loads):.1f} to {max(loads):.1f}."
    )


def save(costs: Costs, done: str) -> None:
    """Write the record, the page and the README's sentence."""
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n")
    (DOCS / "costs.md").write_text(pages()["costs.md"], encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    text = re.sub(r"A verdict takes [\d.]+ to [\d.]+ ms of bus time", readme_sentence(costs), text)
    README.write_text(text, encoding="utf-8")
    print(f"{done}: written to docs/costs.md", flush=True)


if __name__ == "__main__":
    main()
