"""The figures of README and docs/costs.md: ranges over several runs, none left out (issue 11, section 2)."""

from __future__ import annotations

import json

import msgspec

from docs.reference.costs import DEMO, README, BenchRecord, DemoRecord, load_costs, readme_sentence

OUTPUT = """\
  processes  2 evaluator, 1 dispatcher, 1 host, 2 carrier, 1 chores; ready in {ready} s
   blocked before it ran, 94 ms from spawn to exit of the hook; the folder is still there
   let through; bus time {bus} ms median there and back, and 0.01 ms in the rules
   the agent waited 6.5 ms, the hook had run 27 ms later
   200 requests: 200 verdicts, 0 fallbacks
   400 events: 400 delivered, 0 lost, {twice} delivered twice (same webhook-id)
"""


def test_the_range_of_the_demo_has_its_slowest_run() -> None:
    record = DemoRecord()
    for ready, bus, twice in ((5.3, 0.54, 2), (4.1, 1.45, 0), (15.3, 0.6, 10)):
        record.add(OUTPUT.format(ready=ready, bus=bus, twice=twice))
    names = (DEMO[0].name, "ready after the start", "delivered twice, with the same `webhook-id`")
    assert [record.ranges[name] for name in names] == [(0.54, 1.45), (4.1, 15.3), (0, 10)]
    assert [figure.name for figure in DEMO] == list(record.ranges)


def test_the_range_of_a_comparison_has_every_run_and_says_in_how_many_the_bar_was_met() -> None:
    record = BenchRecord()
    for ratio, met in ((0.81, True), (1.5, False)):
        row = {"name": "request p50", "baseline": "bare", "unit": "us", "sense": "at most", "bar": 1.4}
        record.add([{**row, "ours": 500 * ratio, "theirs": 500, "ratio": ratio, "met": met}])
    (figure,) = record.figures
    assert (figure.ratio, figure.ours, figure.bar) == ((0.81, 1.5), (405, 750), (1.4, 1.4))
    assert (figure.runs, figure.met) == (2, 1)
    assert msgspec.json.decode(msgspec.json.encode(record), type=BenchRecord) == record


def test_the_readme_says_what_was_measured() -> None:
    costs = load_costs()
    assert readme_sentence(costs) in " ".join(README.read_text(encoding="utf-8").split())
    costs.demo.ranges[DEMO[0].name] = (0.54, 1.45)
    assert readme_sentence(costs) == "A verdict takes 0.5 to 1.5 ms of bus time", "rounded outwards"
    assert json.loads((README.parent / "docs/costs.json").read_text(encoding="utf-8"))["demo"]["machine"]
