"""`tests:` in a hook file: every form of an event, and each mistake with its place (issue 11, "For authors")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bus.config.documents import loads
from bus.hooksets.hook_tests import HookTest, event_of_type, read_hook_tests
from bus.hooksets.hookfile import parse_hook_file, read_hook_document, to_document
from tests.support.rows import rows

pytestmark = pytest.mark.req("F-11", "X-07")

HOOKS = "hooks: [{id: no-force, on: tool:pre_execute, rule: {decision: deny, command: [git push]}}]\n"


def read(entry: str) -> tuple[list[HookTest], list[str]]:
    """The tests of a file with one more entry in the second line, and the problems as text."""
    document = loads(f"{HOOKS}tests: [{entry}]\n", file="f.yaml")
    file = read_hook_document(document, "user")
    assert file.problems == (), "what is wrong with a test is no matter of workers"
    tests, problems = read_hook_tests(document, file, Path("/srv/shop"))
    return tests, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("command: git push", ("tool:pre_execute", "generic", "bash", {"command": "git push"})),
        ("tool: Bash, command: ls", ("tool:pre_execute", "claude", "bash", {"command": "ls"})),
        ("tool: write, path: a", ("tool:pre_execute", "generic", "write", {"path": "a"})),
        ("event: PreToolUse, tool: Write, path: a", ("tool:pre_execute", "claude", "write", {"path": "a"})),
        (
            "event: tool:pre_execute:write, path: a",
            ("tool:pre_execute", "generic", "write", {"path": "a"}),
        ),
        ("native: BeforeTool, source: gemini, command: ls", ("tool:pre_execute", "gemini", "bash", {"command": "ls"})),
        ("event: session:start", ("session:start", "generic", "", {})),
        (
            "event: {tool: WebFetch, input: {url: u}}",
            ("tool:pre_execute", "claude", "web_fetch", {"url": "u"}),
        ),
    ],
)
def test_an_event_in_every_form(given: str, expected: tuple[Any, ...]) -> None:
    (test,), problems = read(f"{{name: a, expect: deny, {given}}}")
    event = test.event
    assert problems == []
    assert (event.type, event.source, event.tool) == expected[:3]
    assert event.input.items() >= expected[3].items()
    assert (event.cwd, test.line) == ("/srv/shop", 2)


def test_a_prompt_and_a_directory() -> None:
    tests, _ = read("{name: a, expect: allow, prompt: hello, cwd: src}, {name: b, expect: allow, prompt: x, cwd: /tmp}")
    assert [(test.event.type, test.event.data, test.event.cwd) for test in tests] == [
        ("user:prompt_submit", {"prompt": "hello"}, "/srv/shop/src"),
        ("user:prompt_submit", {"prompt": "x"}, "/tmp"),
    ]


@rows(
    ("entry", "says"),
    [
        ("{name: a, comand: x, expect: deny}", 'f.yaml:2:19: unknown key "comand"; did you mean "command"?'),
        ("{name: a, command: x, expected: deny}", 'f.yaml:2:31: unknown key "expected"; did you mean "expect"?'),
        ("{name: a, command: x}", 'f.yaml:2:9: "expect" is missing'),
        ("{command: x, expect: deny}", 'f.yaml:2:9: "name" is missing'),
        ("{name: a, command: x, expect: deni}", "not 'deni'; did you mean \"deny\"?"),
        ("{name: a, expect: deny}", "f.yaml:2:9: a test needs an event; write e.g. command: git push --force"),
        ("{name: a, command: x, expect: deny, hook: no-forc}", 'no hook "no-forc"; did you mean "no-force"?'),
        ("{name: a, prompt: x, command: y, expect: ask}", "f.yaml:2:19: a prompt is about no tool"),
        ("{name: a, event: {type: session:start}, cwd: /, expect: ask}", "f.yaml:2:49: write cwd inside `event`"),
        ("{name: a, event: tool:pre_exec, expect: ask}", "f.yaml:2:26: no event type is called 'tool:pre_exec'; did"),
        ("{name: a, event: {type: 'tool:*'}, expect: ask}", "f.yaml:2:33: 'tool:*' names more than one event type"),
        ("{name: a, native: PreToolUs, source: claude, expect: ask}", 'claude has no event "PreToolUs"; did you mean'),
        ("{name: a, event: {type: x, agent: claude}, expect: ask}", 'unknown key "agent"; did you mean "source"?'),
        ("3", "f.yaml:2:9: this has to be a mapping"),
    ],
)
def test_each_mistake_has_its_place_and_what_was_meant(entry: str, says: str) -> None:
    tests, problems = read(f"{entry}, {{name: good, command: ls, expect: allow}}")
    assert [test.name for test in tests] == ["good"], "the others stay"
    assert says in problems[0]


def test_a_name_is_taken_once() -> None:
    one = "{name: a, command: x, expect: deny}"
    assert read(f"{one}, {one}")[1] == ["f.yaml:2:53: the name is taken (line 2)"]


def test_workers_and_published_sets_do_not_know_tests() -> None:
    plain, tested = parse_hook_file(HOOKS, "fleet"), parse_hook_file(f"{HOOKS}tests: [{{nonsense: 1}}]\n", "fleet")
    assert plain.digest == tested.digest
    assert to_document(plain).keys() == to_document(tested).keys()
    assert "tests has to be a list" in str(parse_hook_file("tests: {}", "fleet").problems[0])


@pytest.mark.req("G-17")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("before-tool", "tool:pre_execute"),
        ("before_tool", "tool:pre_execute"),
        ("session-start", "session:start"),
        ("user-prompt-submit", "user:prompt_submit"),
        ("tool:pre_execute:bash", "tool:pre_execute"),
    ],
)
def test_gobbys_names_of_events_are_known_in_any_spelling(name: str, kind: str) -> None:
    made = event_of_type(name, source="generic")
    assert (made.type, made.native) == (kind, name if ":" in name else kind)
