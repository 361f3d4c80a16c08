"""Judges the lines of corpora by guard packs, in one process and with the engine that evaluators use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bus.chain import Evaluation, evaluate
from bus.config.file_types import GuardSettings
from bus.config.hook_file_value import HookFile
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.guards.corpus import CorpusLine, Judged
from bus.hooksets.in_force import HookSet, Layered
from bus.matching.checker_messages import answer_rule
from bus.matching.disk import full_disk
from bus.outcomes import Outcome
from bus.runners.rule import rule_outcome

_BUDGET_SECONDS = 10.0
"""The default budget of an agent's request."""


def judge_lines(lines: Sequence[CorpusLine], packs: Sequence[str]) -> list[Judged]:
    """The judgement of each line by all rules of these packs, as if they were published."""
    guards = {name: GuardSettings() for name in packs}
    hooks = HookSet([Layered("fleet", "1", HookFile(guards=guards))]).prepare()  # as an evaluator has it
    return asyncio.run(_judge(lines, hooks))


async def _judge(lines: Sequence[CorpusLine], hooks: HookSet) -> list[Judged]:
    judged = []
    for line in lines:
        judging = _Judging()
        begin = time.perf_counter()
        fitting = hooks.blocking(line.event, None, judging.disk)
        judging.seconds = time.perf_counter() - begin
        verdict = await evaluate(Evaluation(event=line.event, hooks=fitting, run=judging.run, seconds=_BUDGET_SECONDS))
        seconds = time.perf_counter() - begin
        rules = tuple(part.hook for part in verdict.parts if part.decision in ("deny", "ask"))
        judged.append(Judged(line, verdict.decision, rules, seconds, judging.seconds))
    return judged


class _Judging:
    """Runs the rules for one line, and measures how long they take."""

    def __init__(self) -> None:
        self.disk = full_disk()
        self.seconds = 0.0
        """The time that finding and judging the rules has taken."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:  # noqa: ARG002  (it never waits)
        """The outcome of one rule."""
        if hook.rule is None:
            return Outcome(failure=f"hook {hook.id!r} has no rule")
        begin = time.perf_counter()
        answer = answer_rule(hook.id, hook.rule, event, self.disk)
        self.seconds += time.perf_counter() - begin
        return rule_outcome(hook, event, answer)
