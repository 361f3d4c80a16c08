"""Which requirements the tests prove: counted from their `req` marks, reported at the end of a run."""

from __future__ import annotations

from collections import defaultdict

import pytest

NAMED = (
    *(f"B-{n:02d}" for n in range(1, 9)),
    *(f"P-{n:02d}" for n in range(1, 15)),
    *(f"F-{n:02d}" for n in range(1, 19)),
    "G-01",
    *(f"G-{n:02d}" for n in range(6, 11)),
    "G-17",
    "G-20",
    "G-22",
    "G-23",
    *(f"I-{n:02d}" for n in range(1, 10)),
    "I-13",
    "X-01",
    "X-02",
    "X-05",
    "X-06",
    "X-08",
)
"""The requirements that what is built so far has to prove."""


class Requirements:
    """A pytest plugin that lists every requirement id with the tests that passed for it, and those with none."""

    def __init__(self) -> None:
        self._passed: dict[str, int] = defaultdict(int)
        self._failed: dict[str, int] = defaultdict(int)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            names = [str(name) for mark in item.iter_markers("req") for name in mark.args]
            item.user_properties.append(("req", names))  # goes along with the report, from other processes too

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            names = {
                str(name)
                for key, value in report.user_properties
                if key == "req" and isinstance(value, list)
                for name in value
            }
            for name in names:
                (self._passed if report.passed else self._failed)[name] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        proven = sorted(name for name in self._passed if not self._failed[name])
        if not proven:
            return
        terminalreporter.section("requirements")
        terminalreporter.write_line("proven:      " + "  ".join(f"{name} ({self._passed[name]})" for name in proven))
        if config.args != ["tests"]:
            return  # a part of the tests says nothing of what is missing
        missing = [name for name in NAMED if name not in proven]
        terminalreporter.write_line("not proven:  " + ("  ".join(missing) or "none of those named"))
