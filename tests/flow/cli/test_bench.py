"""`fleethook bench` in small sizes: every comparison runs on real processes; its figures are those of the README's table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bus.shim import native
from tests.cli_kit import fleethook
from tests.support.forked import Fleethook
from workers.bench.placing import Places
from workers.bench.rounds import alternate, figure
from workers.bench.spawning import NATIVE
from workers.cli.bench import PARTS

ROOT = Path(__file__).parents[3]

OFTEN = (
    ("publish", "gateway", "approvals", "stop", "limits", "workflows"),
    ("command", "guards", "plugins", "backtest"),
    ("request", "dialects", "up"),
)
SELDOM = (("deliveries",), ("isolation", "shim"), ("heavy", "start"))
"""Parts that one program runs: mostly they wait for processes to start, so three programs at once take half the time.

The second ones start the most processes, and run by `make bench-parts`.
"""

COMPARED = {
    "guards, a harmless held-out line at the median": "at most",
    "guards, any held-out line at the median": "at most",
    "guards, any held-out line by all packs at the median": "at most",
    "guards, a harmless held-out line beside splitting it": "at most",
    "guards, any held-out line beside splitting it": "at most",
    "guards, any held-out line by all packs beside splitting it": "at most",
    "request p50": "at most",
    "request, 32 in flight": "at least",
    "request p50, synchronous client": "at most",
    "request p50, 50 other hooks": "at most",
    "command hook minus rule hook": "at most",
    "verdict through the heaviest dialect": "at most",
    "shim, spawn to exit with a verdict": "at most",
    **(dict.fromkeys((name for name, _, _ in NATIVE), "at most") if native.compiler() else {}),
    "shim by the gateway's unix socket, spawn to exit": "at most",
    "held call, from the tap to the end of the hook command, p95": "at most",
    "stop: the last call of 20 hosts that passes, after the command": "at most",
    "hook over HTTP, unix socket, p50": "at most",
    "hook over HTTP, unix socket, p99": "at most",
    "hook over HTTP, TCP with a token, p50": "at most",
    "hook over HTTP, TCP with a token, p99": "at most",
    "publish, pipelined": "at least",
    "deliveries per CPU-second of the carrier": "at least",
    "deliveries per CPU-second of the carrier, simple way": "at least",
    "publish to receiver, p95 promised": "at most",
    "healthy p99, one of each kind": "at most",
    "healthy deliveries in time, one of each kind": "at least",
    "rm -rf / beside 3 agents' slowest lines, p99": "at most",
    "rm -rf / denied beside 3 agents' slowest lines": "at least",
    "a call of a plugin's handler, p50": "at most",
    "a rule's p99 beside a plugin in an endless loop": "at most",
    "backtest by the default guards": "at least",
    "added by a limit that fits": "at most",
    "request p50, limits that do not fit": "at most",
    "up, idle: CPU of all processes": "at most",
    "up, idle: memory": "at most",
    "up, idle: wake-ups": "at most",
    "up, ready after its server's first answer": "at most",
    "up, a killed evaluator is back": "at most",
}
"""What has a bar, and on which side of it the figure has to lie."""

DIFFERENCES = {"command hook minus rule hook", "added by a limit that fits", "added by a condition that reads facts"}
"""What is one median minus another: with a single round on a busy machine it may be less than nothing."""

OF_SELDOM = re.compile(
    "shim, spawn|native hook|the same through redis-py|deliveries per|publish to receiver|healthy |rm -rf / |"
    "fleethook --help|up, from start|up, idle: CPU"
)
"""The figures of the parts in SELDOM."""


@pytest.mark.req("B-01", "B-02", "B-03", "B-06")
@pytest.mark.timeout(900)  # it computes all the time, and the machine may be busy
@pytest.mark.parametrize("together", [OFTEN, pytest.param(SELDOM, marks=pytest.mark.slow)], ids=["often", "seldom"])
def test_every_comparison_runs_and_says_its_ratio(tmp_path: Path, together: Sequence[Sequence[str]]) -> None:
    """Exit code 0 whether or not a bar is met, and nothing is left behind."""
    assert sorted(part for parts in (*OFTEN, *SELDOM) for part in parts) == sorted(PARTS)

    def of_these(name: str) -> bool:
        return bool(OF_SELDOM.match(name)) is (together is SELDOM)

    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    environment |= {"HOME": "/nonexistent", "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    programs = [
        Fleethook(
            ["bench", *parts, "--quick", "--rounds=1", "--json"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for parts in together
    ]
    try:
        said = [program.communicate(timeout=850) for program in programs]
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert [program.returncode for program in programs] == [0] * len(together), [err for _, err in said]
    figures = [one for out, _ in said for one in json.loads(out)]
    by_name = {one["name"]: one for one in figures}
    promised = by_name.get("publish to receiver, p95 promised")
    if promised:
        assert promised["sense"] == "at most"
        assert (promised["bar"] is None) == promised["note"].startswith("0 of 1"), "no bar where the bare loop is slow"
        promised["bar"] = promised["bar"] or 1.0
    assert {one["name"]: one["sense"] for one in figures if one["bar"]} == {
        name: sense for name, sense in COMPARED.items() if of_these(name)
    }
    assert {one["name"] for one in figures if not one["bar"]} == set(
        filter(
            of_these,
            {
                "the same through redis-py",
                "hook over HTTP, 32 clients",
                *(["shim by the gateway's unix socket, beside curl"] if shutil.which("curl") else []),
                "fleethook --help",
                "up, from start to ready",
                "publish to receiver, p50",
                "publish to receiver, p95",
                "publish to receiver, p99",
                "backtest beside reading",
                "request p50, a limit that fits",
                "request p50, a condition that reads facts",
                "added by a condition that reads facts",
                "request p50, a workflow whose step judges it",
                "request p50, a workflow that goes on to a step",
                "guards, a harmless line at the median",
                "guards, the same line: reading alone",
                "guards, a harmless held-out line beside parsing it",
                "guards, any held-out line beside parsing it",
                "guards, any held-out line by all packs beside parsing it",
                *(f"request p50, {way}" for way in Places(os.getpid(), ()).ways),
            },
        )
    )
    idle = by_name.get("up, idle: CPU of all processes")
    assert idle is None or idle["ours"] < 100, (
        "milliseconds of CPU a second: a tenth of one core for everything, while nothing happens"
    )
    for one in figures:
        assert one["rounds"] == 1
        # An idle fleet may need less than a tick, and one round's difference of two requests may be negative.
        assert one["ours"] > 0 or one is idle or one["name"] in DIFFERENCES
        assert one["theirs"] > 0
        assert one["ratio"] == pytest.approx(one["ours"] / one["theirs"])
        met = one["ratio"] <= (one["bar"] or 0) if one["sense"] == "at most" else one["ratio"] >= one["bar"]
        assert one is promised or one["met"] is (met if one["bar"] else None)
    if together is SELDOM:
        shares = by_name["healthy deliveries in time, one of each kind"]
        assert shares["ours"] > 0, "how many are in time is for the bench to say"
    assert list(tmp_path.iterdir()) == []


def test_one_part_for_a_person_to_read() -> None:
    done = fleethook("bench", "publish", "--quick", "--rounds", "1")
    assert done.code == 0, done.err
    head, row = done.out.splitlines()
    assert head.split()[:2] == ["RATIO", "BAR"]
    assert "at least 0.70" in row
    assert row.rstrip().endswith("bare XADD of the same bytes, pipelined")


async def test_sides_take_turns_and_the_first_round_does_not_count() -> None:
    """Whatever is slow for a while is slow for both."""
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    async def ours() -> float:
        return side("ours")

    async def theirs() -> float:
        return side("theirs")

    one, other = await alternate(ours, theirs, 2, slices=2)
    assert order == ["theirs", "ours"] * 2 + ["ours", "theirs"] * 2 + ["theirs", "ours"] * 2
    assert (one, other) == ([6.0, 11.0], [7.0, 10.0])
    shown = figure("x", "y", "ms", one, other, bar=1.0)
    assert (shown.ours, shown.theirs, shown.ratio, shown.met) == (8.5, 8.5, 1.0, True)
