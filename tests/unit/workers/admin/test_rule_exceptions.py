"""Exceptions in hook files: the text around them stays, and a file that cannot be edited says what to do by hand (X-03)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.errors import ConfigError
from bus.hooksets.hookfile import parse_hook_file
from bus.matching.exact_calls import ExactCall
from workers.admin.rule_exceptions import file_with_exceptions, set_with_exceptions

pytestmark = pytest.mark.req("X-03")

CALL = ExactCall(tool="bash", input={"command": "make deploy", "n": 1}, cwd="/srv", source="claude", host="h")
OTHER = ExactCall(tool="bash", input={"command": "true"}, cwd="/", source="claude", host="h")
TEXT = """\
# top
guards: {destructive-commands: true}
hooks:
  # the first
  - {id: one, on: tool:pre_execute, rule: {decision: ask, command: [x]}}
  - id: two  # beside it
    on: tool:pre_execute
    rule: {decision: ask, command: [y]}
# the end
"""
EXCEPTION = 'unless: [{tool: bash, input: {command: "make deploy", n: 1}, cwd: /srv, source: claude}]'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fleethook.yaml"
    path.write_text(TEXT)
    return path


def lines(file: Path, *rules: str, calls: tuple[ExactCall, ...] = (CALL,)) -> list[str]:
    """The lines that the edit adds."""
    edited = file_with_exceptions(file, "user", rules, calls)
    kept = edited.before.splitlines()
    return [line for line in edited.after.splitlines() if line not in kept]


def test_a_hook_in_a_block_gets_one_line(file: Path) -> None:
    assert lines(file, "two") == [f"    {EXCEPTION}"]
    assert lines(file, "two-user2") == [f"    {EXCEPTION}"], "its name in force beside a hook of a higher layer"


def test_a_hook_on_one_line_and_a_rule_of_a_pack(file: Path) -> None:
    (line,) = lines(file, "one")
    assert line.endswith("source: claude}]}")
    (line,) = lines(file, "destructive-commands_force-push")
    assert line.startswith("guards: {destructive-commands: {unless: [{rule: force-push, tool: bash,")


def test_a_second_exception_joins_the_first_and_the_same_is_not_added(file: Path) -> None:
    file.write_text(file_with_exceptions(file, "user", ["two"], [CALL]).after)
    assert lines(file, "two") == []
    file.write_text(file_with_exceptions(file, "user", ["two"], [OTHER]).after)
    hooks = parse_hook_file(file.read_text(), "user").hooks
    assert [call.input["command"] for call in hooks[1].unless] == ["make deploy", "true"]
    assert not hooks[0].unless


def test_json_is_edited_too(file: Path) -> None:
    path = file.with_name("fleethook.json")
    path.write_text('{\n  "hooks": [{"id": "j", "on": "tool:pre_execute", "rule": {"decision": "ask"}}]\n}\n')
    after = file_with_exceptions(path, "user", ["j"], [CALL]).after
    (hook,) = parse_hook_file(after, "user", file=str(path)).hooks
    assert hook.unless[0].input == CALL.input


@pytest.mark.parametrize("rule", ["three", "fleethook-itself_own-verbs"])
def test_a_rule_that_is_gone_is_refused(file: Path, rule: str) -> None:
    with pytest.raises(ConfigError, match="any more; nothing was changed"):
        file_with_exceptions(file, "user", [rule], [CALL])


def test_a_rule_of_an_imported_file_is_for_the_hand(file: Path) -> None:
    more = file.with_name("more.yaml")
    more.write_text("hooks:\n  - {id: far, on: tool:pre_execute, rule: {decision: ask}}\n")
    file.write_text(f"{TEXT}import: [{more}]\n")
    with pytest.raises(ConfigError, match="not written in this file") as caught:
        file_with_exceptions(file, "user", ["far"], [CALL])
    assert "by hand: unless:" in caught.value.hint


def test_the_published_set_names_the_machine_too() -> None:
    before = parse_hook_file(TEXT, "fleet")
    after = set_with_exceptions(before, ["two", "destructive-commands_force-push"], [CALL])
    assert after.hooks[1].unless == (CALL,)
    assert (after.guards["destructive-commands"].unless[0].rule, after.digest != before.digest) == ("force-push", True)
    assert set_with_exceptions(after, ["two"], [CALL]).hooks == after.hooks
