"""Runs the tests of a hook file without a server: all its hooks run for each event, commands and HTTP requests too."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from bus.chain import changed_event
from bus.hooksets.hook_tests import HookTest
from bus.hooksets.hookfile import HookFile
from bus.memory.replayed import ReplayedMemory
from bus.verdicts import Part, Policy, Verdict
from workers.admin.dry_run import hooks_of, open_judge


class HookTestResult(NamedTuple):
    """The result of one test; `failures` is empty if it passed."""

    test: HookTest
    verdict: Verdict
    failures: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every expectation was met."""
        return not self.failures

    @property
    def came(self) -> str:
        """The verdict in words."""
        return said_by(self.verdict)


async def run_tests(
    file: HookFile, tests: Sequence[HookTest], *, seconds: float, policy: Policy
) -> AsyncIterator[HookTestResult]:
    """The results of the tests in order, each as soon as it is known.

    `seconds` is the budget of one event; `policy` is the failure policy for hooks without one.
    """
    async with open_judge(hooks_of(file), effects=True, seconds=seconds, policy=policy) as judge:
        for test in tests:
            begin = time.perf_counter()
            memory = ReplayedMemory()
            for event in test.before:
                _, earlier = await judge(event, memory)
                memory.note(event, denied=earlier.decision == "deny")
            _, verdict = await judge(test.event, memory if test.before else None)
            yield HookTestResult(test, verdict, tuple(_failures(test, verdict)), time.perf_counter() - begin)


def said_by(verdict: Verdict) -> str:
    """A verdict in words: the decision, the hooks that made it, and the reason."""
    word = "allow" if verdict.decision == "abstain" else verdict.decision
    hooks = [part.hook for part in verdict.parts if part.decision == verdict.decision != "abstain"]
    by = f" by {', '.join(hooks)}" if hooks else " (no hook objects)" if word == "allow" else ""
    return f"{word}{by}" + (f": {verdict.reason}" if verdict.reason else "")


def _failures(test: HookTest, verdict: Verdict) -> Iterator[str]:
    """One sentence for each expectation that is not met."""
    expected = test.expected
    if not _meets(verdict.decision, expected.expect):
        yield f"expected {expected.expect}, but the hooks say {said_by(verdict)}"
    elif expected.hook:
        yield from _hook_failures(expected.hook, expected.expect, verdict)
    failed = [part for part in verdict.parts if part.fallback]
    if failed and not expected.fails:
        yield from map(_failure_text, failed)
    if expected.fails and not failed:
        yield "expected that a hook fails, but none did"
    if expected.reason and not any(expected.reason in text for text in _reasons(verdict, expected.hook)):
        yield f"expected a reason with {expected.reason!r}, but it is {verdict.reason!r}"
    if expected.context and not any(expected.context in text for text in verdict.contexts):
        yield f"expected context with {expected.context!r}, but it is {list(verdict.contexts)!r}"
    if expected.input:
        changed_input = changed_event(test.event, verdict.updated_input or {}).input
        for name, value in expected.input.items():
            if name not in changed_input or changed_input[name] != value:
                yield f"expected the input {name}: {value!r}, but it is {changed_input.get(name)!r}"
    if expected.output and expected.output not in _text(verdict.updated_output):
        came_text = "not rewritten" if verdict.updated_output is None else repr(_text(verdict.updated_output))
        yield f"expected output with {expected.output!r}, but it is {came_text}"


def _failure_text(part: Part) -> str:
    """Why a hook failed, with what it printed."""
    printed = part.output.strip()
    more = f"; it printed: {printed}" if printed and printed not in part.fallback else ""
    return f"{part.fallback}{more} (write `fails: true` where the test is about that)"


def _meets(decision: str, expected: str) -> bool:
    """Whether a decision is the expected one."""
    stops = decision in ("deny", "ask")
    return not stops if expected == "allow" else stops if expected == "stop" else decision == expected


def _hook_failures(hook: str, expected: str, verdict: Verdict) -> Iterator[str]:
    """What is wrong with the part of the hook that has to decide."""
    parts = [part for part in verdict.parts if part.hook == hook]
    silent = any(hook in rules for rules in verdict.silent.values())
    if not parts and not silent:
        yield f"expected {expected} by {hook}, but that hook did not run; {said_by(verdict)}"
    elif expected != "allow" and not any(_meets(part.decision, expected) for part in parts):
        yield f"expected {expected} by {hook}, but it says {_words(parts)}; {said_by(verdict)}"


def _words(parts: Sequence[Part]) -> str:
    return ", ".join(part.decision for part in parts) or "nothing"


def _reasons(verdict: Verdict, hook: str) -> list[str]:
    """The reason of the hook that has to decide, else that of the verdict."""
    reasons = [part.reason for part in verdict.parts if part.hook == hook]
    return reasons if hook else [verdict.reason]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
