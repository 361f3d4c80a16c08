"""Guard packs judge the lines of corpora, in one process and by the same engine as an evaluator's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bus.chain import evaluate
from bus.config.contents import HookFile
from bus.config.format import GuardSettings
from bus.guards.corpus import Judged, Line
from bus.inforce import HookSet, Layered
from bus.matching.rules import check_rule
from bus.runners.rule import RuleRunner

_BUDGET_SECONDS = 10.0
"""As an agent's request has by default."""


def judge_lines(lines: Sequence[Line], packs: Sequence[str]) -> list[Judged]:
    """What the rules of these packs say to each line, all of them switched on as if they were published."""
    guards = {name: GuardSettings() for name in packs}
    hooks = HookSet([Layered("fleet", "1", HookFile(guards=guards))])
    for hook in hooks.hooks.values():
        if hook.rule is not None:
            check_rule(hook.rule)  # compiled now, as an evaluator has them after its first minute
    return asyncio.run(_judge(lines, hooks))


async def _judge(lines: Sequence[Line], hooks: HookSet) -> list[Judged]:
    run = RuleRunner().run
    judged = []
    for line in lines:
        begin = time.perf_counter()
        fitting = hooks.blocking(line.event)
        verdict = await evaluate(line.event, fitting, run, seconds=_BUDGET_SECONDS)
        seconds = time.perf_counter() - begin
        rules = tuple(part.hook for part in verdict.parts if part.decision in ("deny", "ask"))
        judged.append(Judged(line, verdict.decision, rules, seconds))
    return judged
