"""Who can answer a held call: a group of the same file, or members; and what can never be answered is refused (X-03)."""

from __future__ import annotations

import pytest

from bus.hooksets.hookfile import parse_hook_file

pytestmark = pytest.mark.req("X-03")

FILE = """
groups: {{release: [ana, ben, ana], empty: []}}
hooks:
  - id: held
    on: tool:pre_execute
    hold: {hold}
    rule: {{decision: ask}}
"""


def test_a_group_gives_its_members() -> None:
    (hook,) = parse_hook_file(FILE.format(hold="{group: release, persons: 2}"), "fleet").hooks
    assert hook.hold is not None
    assert (hook.hold.members, hook.hold.persons, hook.hold.default, hook.hold.named) == (
        ("ana", "ben"),
        2,
        "deny",
        True,
    )


def test_anybody_can_answer_where_nobody_is_named() -> None:
    (hook,) = parse_hook_file(FILE.format(hold="{timeout: 5}"), "fleet").hooks
    assert hook.hold is not None
    assert (hook.hold.members, hook.hold.named) == ((), False)


@pytest.mark.parametrize(
    ("hold", "words"),
    [
        ("{group: relaese}", "there is no group 'relaese' in this file"),
        ("{group: empty}", "has no member"),
        ("{group: release, members: [carl]}", "either a group or members"),
        ("{group: release, persons: 3}", "3 persons have to approve, and only 2 can"),
        ("{members: [ana], persons: 2}", "2 persons have to approve, and only 1 can"),
        ("{timeout: 0}", "timeout"),
    ],
)
def test_what_can_never_be_answered_is_refused_with_its_place(hold: str, words: str) -> None:
    file = parse_hook_file(FILE.format(hold=hold), "fleet")
    assert file.hooks == ()
    (problem,) = file.problems
    assert words in str(problem)
    assert problem.line == 6


def test_a_pack_is_held_as_a_whole() -> None:
    text = "groups: {g: [ana]}\nguards: {destructive-commands: {decision: ask, hold: {group: g}}}\n"
    settings = parse_hook_file(text, "fleet").guards["destructive-commands"]
    assert settings.hold is not None
    assert settings.hold.members == ("ana",)
