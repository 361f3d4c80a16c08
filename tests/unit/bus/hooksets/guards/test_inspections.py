"""The pack against destructive commands stops no inspection of what it stops, and nothing that it advises."""

from __future__ import annotations

import pytest

from bus.events import Event
from bus.hooksets.guards import TEST_DIRECTORY, load_pack
from bus.hooksets.hookfile import HookFile
from bus.hooksets.in_force import HookSet, Layered
from bus.matching.rules import judge
from tests.support.rows import rows

PACK = load_pack("destructive-commands")
IN_FORCE = HookSet([Layered("fleet", "1", HookFile(hooks=PACK.rules))])

INSPECTIONS = (
    "echo {quoted}",
    "printf '%s\\n' {quoted}",
    "grep -rn -- {quoted} .",
    "rg {quoted} docs",
    "git commit -m {quoted}",
    "git log --grep={quoted}",
    "gh pr create --title x --body {quoted}",
    "gh issue comment 3 -b {quoted}",
    "fleethook hooks test --set command={quoted}",
    "fleethook guards test {quoted}",
    "cat > notes.md <<'END_OF_NOTES'\n{text}\nEND_OF_NOTES",
    "tee -a notes.md <<'END_OF_NOTES' > /dev/null\n{text}\nEND_OF_NOTES",
    "NOTE={quoted}",
    "# {line}",
)


def said(command: str, cwd: str = TEST_DIRECTORY, tool: str = "bash") -> dict[str, str]:
    """What each rule that objects says, by its id."""
    event = Event(type="tool:pre_execute", tool=tool, cwd=cwd, input={"command": command})
    return {
        hook.id: hook.rule.decision
        for hook in IN_FORCE.blocking(event)
        if hook.rule is not None and judge(hook.rule, event) is not None
    }


@pytest.mark.req("X-09")
def test_what_a_rule_advises_is_not_stopped() -> None:
    for hook in PACK.rules:
        assert hook.rule is not None
        assert said(hook.rule.instead) == {}, hook.id


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.req("X-09")
@rows("inspection", INSPECTIONS)
def test_no_inspection_of_a_command_is_stopped(inspection: str) -> None:
    texts = dict.fromkeys(case.command for case in PACK.tests if case.expected != "allow" and case.command)
    stopped = {
        command: found
        for text in texts
        if "END_OF_NOTES" not in text
        for command in [inspection.format(quoted=quoted(text), text=text, line=text.replace("\n", " "))]
        if (found := said(command))
    }
    assert stopped == {}


@pytest.mark.req("X-09")
def test_every_rule_names_the_incident_that_it_prevents() -> None:
    assert [hook.id for hook in PACK.rules if hook.rule is not None and not hook.rule.incident] == []
