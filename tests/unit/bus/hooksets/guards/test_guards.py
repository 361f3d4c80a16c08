"""Guard packs: every test that stands beside a rule, and what happens to packs that are wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bus.errors import ConfigError, NotFound
from bus.events import Event
from bus.hooksets.guards import FOLDER, Case, Pack, check_pack, load_pack, packs, read_pack
from bus.hooksets.hookfile import HookFile
from bus.hooksets.in_force import HookSet, Layered
from bus.matching.patterns import parse_tool
from bus.matching.rules import judge, marks
from bus.shell import MAX_LENGTH, Commands
from tests.support.rows import rows

CASES = [case for name in packs() for case in load_pack(name).tests]


@pytest.mark.req("X-07")
@rows("case", CASES, ids=[f"{case.origin}-{case.expected}" for case in CASES])
def test_the_tests_beside_the_rules_come_out(case: Case) -> None:
    pack = load_pack(case.hook.partition("_")[0])
    assert [str(failure) for failure in check_pack(pack._replace(tests=(case,)))] == []


@pytest.mark.req("X-07", "F-05")
@pytest.mark.parametrize("name", packs())
def test_no_rule_that_fits_is_left_out_by_the_marks_of_a_command(name: str) -> None:
    rules = tuple(hook for hook in load_pack(name).rules if hook.on == ("tool:pre_execute",))
    in_force = HookSet([Layered("fleet", "1", HookFile(hooks=rules))])
    asked = judged = 0
    for case in CASES:
        event = case.event
        found = {hook.id for hook in in_force.blocking(event)}
        for hook in rules:
            if hook.rule is not None and parse_tool(hook.tool)([event.tool]):
                asked, judged = asked + 1, judged + (hook.id in found)
                assert hook.id in found or hook.when or judge(hook.rule, event) is None, (hook.id, event.input)
    assert judged < asked / 2, "most are left out"
    long = msgspec.structs.replace(CASES[0].event, input={"command": "echo " + "x" * MAX_LENGTH})
    everything = [hook.id for hook in rules if parse_tool(hook.tool)(["bash"])]
    assert [hook.id for hook in in_force.blocking(long)] == everything, "what was not read may be anything"
    silent = msgspec.structs.replace(long, input={"command": ""})
    some = {hook.id for hook in in_force.blocking(silent)}
    assert some <= {hook.id for hook in rules if parse_tool(hook.tool)(["bash"]) and hook.rule and not marks(hook.rule)}


@pytest.mark.req("X-07")
def test_a_command_that_cannot_be_read_leaves_no_rule_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tuple(hook for hook in load_pack("destructive-commands").rules if hook.on == ("tool:pre_execute",))
    in_force = HookSet([Layered("fleet", "1", HookFile(hooks=rules))])

    def broken(_text: str) -> Commands:
        raise MemoryError

    monkeypatch.setattr("bus.matching.rules.commands", broken)
    bash = in_force.blocking(Event(type="tool:pre_execute", tool="bash", input={"command": "ls"}))
    assert len(bash) == sum(parse_tool(hook.tool)(["bash"]) for hook in in_force.hooks.values())


@pytest.mark.req("F-05")
def test_a_patch_is_not_read_as_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex has its patches in `command`; reading one of 14 KB as shell took 45 ms."""
    in_force = HookSet([Layered("fleet", "1", HookFile(hooks=load_pack("destructive-commands").rules))])
    monkeypatch.setattr("bus.matching.rules.commands", pytest.fail)
    patch = Event(type="tool:pre_execute", tool="edit", input={"command": "*** Begin Patch", "paths": ["a.py"]})
    assert {hook.id.partition("_")[2] for hook in in_force.blocking(patch)} == {
        "login-files-edit",
        "system-files-edit",
        "git-directory-edit",
    }


@pytest.mark.req("X-07")
@pytest.mark.parametrize("name", packs())
def test_every_rule_says_what_to_do_instead_and_is_tested_both_ways(name: str) -> None:
    pack = load_pack(name)
    for hook in pack.rules:
        assert hook.id.startswith(f"{name}_")
        assert hook.rule is not None
        assert hook.rule.reason
        assert hook.rule.instead
        expected: set[str] = {case.expected for case in pack.tests if case.hook == hook.id}
        if hook.rule.commands and all(match.branch for match in hook.rule.commands):
            expected.add(hook.rule.decision)  # it depends on a folder on the disk: test_branches.py
        assert expected == {"allow", hook.rule.decision}, hook.id
    assert pack.description


@pytest.mark.req("X-07")
def test_hooks_know_the_line_that_they_come_from() -> None:
    for hook in load_pack("destructive-commands").rules:
        name, _, line = hook.origin.partition(":")
        lines = (FOLDER / name).read_text().splitlines()
        assert lines[int(line) - 1].strip() == f"- id: {hook.id.partition('_')[2]}"


@pytest.mark.req("X-07")
def test_rules_work_one_by_one() -> None:
    pack = load_pack("destructive-commands")
    kept = tuple(hook for hook in pack.rules if not hook.id.endswith("_recursive-delete"))
    cases = [case for case in pack.tests if case.hook.endswith("_recursive-delete") and case.expected == "deny"]
    without = Pack(pack.name, pack.description, kept, tuple(cases))
    assert len(check_pack(without)) == len(cases)


def test_a_pack_is_told_by_name() -> None:
    assert "destructive-commands" in packs()
    with pytest.raises(NotFound, match='did you mean "destructive-commands"'):
        load_pack("destructive-command")
    with pytest.raises(NotFound):
        load_pack("../guards/destructive-commands")


GOOD = """\
description: A pack
rules:
  - id: no-make
    description: No make
    decision: ask
    reason: Why
    instead: What else
    commands:
      - program: [make]
    tests:
      ask: [make all]
      allow: [ls]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "own.yaml"
    path.write_text(text)
    return path


def test_a_failing_test_names_its_line_and_what_was_said(tmp_path: Path) -> None:
    pack = read_pack(written(tmp_path, GOOD.replace("ask: [make all]", "ask: [cmake all]\n      deny: [make]")))
    assert [str(failure) for failure in check_pack(pack)] == [
        "own.yaml:12: 'make' should be deny by own_no-make, but own_no-make says ask",
        "own.yaml:11: 'cmake all' should be ask by own_no-make, but no rule fits",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("decision: ask", "decision: maybe", "own.yaml:5"),
        ("program: [make]", "programme: [make]", "own.yaml:9"),
        ("program: [make]", "line: ['(']", "own.yaml:3"),
        ("- program: [make]", "- {}", "is empty"),
        ("program: [make]", "flags_any: [force]", "is not a flag"),
        ("    reason: Why\n", "", "reason"),
        ("    decision: ask\n", "    decision: ask\n    when: event.tool ==\n", "own.yaml:3"),
        ("    decision: ask\n", "    decision: ask\n    on: tool:pre_exec\n", "tool:pre_execute"),
        ("    decision: ask\n", "    decision: ask\n    tool: '('\n", "own.yaml:3"),
        ("rules:", "rules: 3\nother:", "own.yaml"),
    ],
)
def test_a_pack_that_is_wrong_is_refused_at_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as raised:
        read_pack(written(tmp_path, GOOD.replace(old, new)))
    assert "own.yaml:" in str(raised.value)
    assert said in str(raised.value)


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two rules are called"):
        read_pack(written(tmp_path, GOOD + GOOD.partition("rules:\n")[2]))


def test_when_belongs_to_the_test_too(tmp_path: Path) -> None:
    pack = read_pack(
        written(tmp_path, GOOD.replace("    decision: ask\n", "    decision: ask\n    when: event.host == 'prod'\n"))
    )
    assert len(check_pack(pack)) == 1
    assert pack.rules[0].when


@pytest.mark.req("X-07")
def test_a_rule_survives_being_published() -> None:
    for hook in load_pack("destructive-commands").rules:
        rule = hook.rule
        assert rule is not None
        again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(rule)), type(rule))
        assert again == rule
    recursive = load_pack("destructive-commands").rules[0].rule
    assert recursive is not None
    match = judge(recursive, Case(expected="deny", command="ls; sudo rm -rf /srv/x").event)
    assert match is not None
    assert match.what == "rm -rf /srv/x"
