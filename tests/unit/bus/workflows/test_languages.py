"""The conditions and texts of workflows: what they can say, and what no value can make of them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bus.errors import ConditionError, ConfigError, PatternError
from bus.events import Event
from bus.workflow_steps.scope import event_names
from bus.workflows.expressions import compile_expression, is_true
from bus.workflows.python_expressions import compile_python
from bus.workflows.python_values import NamedFields
from bus.workflows.templates import check_template, command_line, render, render_value
from tests.support.rows import rows

pytestmark = pytest.mark.req("G-16")

STOP = event_names(Event(type="agent:stop"))["event_type"]
NAMES = {
    "event": NamedFields({"data": {"reason": "clear", "n": 3}, "source": "claude"}, "x"),
    "tool_name": "Bash",
    "tool_args": {"command": "pytest -q"},
    "variables": {"plan": None, "list": [1, 2]},
    "len": len,
    "true_one": lambda: True,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("event.data.get('reason') == 'clear'", True),
        ("event.data['n'] >= 3 and not variables.plan", True),
        ("tool_name in ('Edit', 'Write') or tool_args.command.startswith('pytest')", True),
        ("len(variables.list) == 2 and variables['list'][0] + 1 == 2", True),
        ("true and not false and null is None", True),
        ("1 < 2 < 3", True),
        ("'x' if tool_name == 'Edit' else ''", False),
        ("tool_name.lower() == 'bash' and true_one()", True),
        ("tool_name.endswith(('x', 'sh')) and tool_name.value == 'Bash' and tool_name.name == 'BASH'", True),
    ],
)
def test_python_expressions_read_what_gobby_reads(text: str, expected: bool) -> None:
    assert compile_python(text)(NAMES) is expected


@rows(
    "text",
    [
        "__import__('os')",
        "().__class__",
        "event.__class__",
        "'{0.__class__}'.format(event)",
        "[x.__class__ for x in tool_args]",
        "lambda: 1",
        "2 ** 9999",
        "getattr(event, '__class__')",
        "open('/etc/passwd')",
        "x = 1",
        "event.data.get('a') && b",
        "[" * 60 + "1" + "]" * 60,
        "f'{tool_name.__class__}'",
        "tool_name.__len__()",
    ],
)
def test_python_expressions_run_no_code(text: str) -> None:
    with pytest.raises((PatternError, ConditionError)):
        compile_python(text)(NAMES)


@pytest.mark.parametrize(
    "text", ["missing", "event.nothing", "tool_name * 9999", "'a' % 1", "variables.plan.x", "1 < 'a'"]
)
def test_what_cannot_be_evaluated_is_an_error_of_the_condition(text: str) -> None:
    with pytest.raises(ConditionError):
        compile_python(text)(NAMES)


@pytest.mark.parametrize("language", ["cel", "python"])
def test_conditions_of_plugins_are_asked_once_for_each_argument(language: Any) -> None:
    asked: list[tuple[str, tuple[Any, ...]]] = []

    async def ask(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        asked.append((name, tuple(args)))
        return name.endswith("lint") or args == ("a",)

    either = "||" if language == "cel" else "or"
    both = "&&" if language == "cel" else "and"
    text = f'plugin:code-guardian:passes_lint {both} (plugin_x_is("b") {either} plugin_x_is("a"))'
    names: dict[str, Any] = {"event": {}, "vars": {}}
    assert asyncio.run(is_true(text, language, names, ask)) is True
    assert asked == [("plugin_code_guardian_passes_lint", ()), ("plugin_x_is", ("b",)), ("plugin_x_is", ("a",))]
    asked.clear()
    assert asyncio.run(is_true(f"true {either} plugin_never_asked()", language, names, ask)) is True
    assert asked == []


def test_cel_of_workflows_has_their_names() -> None:
    compile_expression('vars.x > 1 && workflow.step == "a" && shared.y && config.z == event.output', "cel")
    with pytest.raises(PatternError, match="config, shared, vars, workflow"):
        compile_expression("variables.x > 1", "cel")


def test_texts_are_templates_in_a_sandbox() -> None:
    names = {"variables": {"x": 7}, "session_id": "s", "items": ["a", "b"]}
    assert render("{% for i in items %}{{ loop.index }}{{ i }} {% endfor %}{{ gone.at.all }}", names) == "1a 2b "
    assert render("${x} ${session_id} ${secrets.KEY} ${PATH}", names) == "7 s ${secrets.KEY} ${PATH}"
    assert render("{{ 'v1.2' | regex_search('v([0-9.]+)') }}", names) == "1.2"
    assert (render_value("{{ variables.x }}", names), render_value("{{ 1 == 1 }}", names)) == (7, True)
    with pytest.raises(ConfigError):
        render("{{ ''.__class__.__mro__[1].__subclasses__() }}", names)
    with pytest.raises(PatternError):
        check_template("{% if x %}")


@rows("value", ["a b", "$(touch /tmp/x) `id` \"'", "'; exit 7; '", "-n", "a\nb", "*"])
@rows(
    "line",
    ["printf %s {{ v }}", 'printf %s "{{ v }}"', "printf %s '{{ v }}'", "printf %s \"[\"'{{ v }}'\"]\" | tr -d '[]'"],
)
def test_no_value_becomes_a_part_of_a_command_line(value: str, line: str) -> None:
    text, variables = command_line(line, {"v": value})
    env = {"PATH": "/usr/bin:/bin", **variables}
    done = subprocess.run(["/bin/sh", "-c", text], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("prompt.replace('-', '_') == 'a_b' and prompt.find('b') == 2", True),
        ("[t.id for t in tasks if t.done] == [2]", True),
        ("any(t.done for t in tasks) and not all(t.done for t in tasks)", True),
        ("f'{prompt}!' == 'a-b!' and '/'.join([prompt, 'c']) == 'a-b/c'", True),
        ("max(len(prompt), 2) > 2 and sum([1, 2]) == 3 and sorted([2, 1])[0] == 1", True),
        ("'x' if prompt.isdigit() else ''", False),
    ],
)
def test_what_an_older_gobby_evaluated_is_evaluated(text: str, value: bool) -> None:
    functions = {function.__name__: function for function in (any, all, max, sum, len, sorted)}
    names = {"prompt": "a-b", "tasks": [{"id": 1, "done": False}, {"id": 2, "done": True}], **functions}
    assert compile_python(text)(names) is value


@pytest.mark.parametrize(
    "text",
    [
        "[[[[a for a in b] for b in c] for c in d] for d in e]",
        "re.search('(?=x)y', a)",
        "re.search('(', a)",
        "os.path.basename(a)",
        "(lambda: 1)()",
        "a.__class__",
        "x | length",
    ],
)
def test_what_could_take_long_or_reach_out_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        compile_python(text)


@rows(
    "text",
    [
        "isinstance(files, list) and not isinstance(prompt, (int, dict)) and type(prompt).__name__ == 'str'",
        "re.search(r'a-(\\w)', prompt).group(1) == 'b' and re.match('b', prompt) is None",
        "re.search('A-B', prompt, re.IGNORECASE) and re.findall('[ab]', prompt) == ['a', 'b']",
        "(m := re.fullmatch('(?P<x>.)-b', prompt)) and m['x'] == 'a' and re.sub('(a)', r'<\\1>', prompt) == '<a>-b'",
        "2 ** 10 == 1024 and 1 << 3 | 1 == 9 and 7 // 2 % 2 == 1",
        "set(files) & {'a.py'} and {'a.py'} <= set(files) and not set(files) - {'a.py', 'b.ts'}",
        "set(files).issuperset(['a.py']) and prompt in {prompt} and kind in {'after_agent'} and kind not in {'x'}",
        "any(name.endswith('.py') for name in files) and sum(1 for _ in files) == 2",
        "{k: len(v) for k, v in tool_args.items()} == {'command': 3} and [i for i, _ in enumerate(files)] == [0, 1]",
        "[x + y for x in 'ab' for y in 'c' if x != 'b'] == ['ac'] and [[n for n in files] for _ in range(2)]",
        "sorted(files, key=lambda name: name[-1])[0] == 'b.ts' or sorted(files, key=lambda n: -len(n))[0] == 'a.py'",
        "f'{len(files):>3}|{prompt!r}' == \"  2|'a-b'\" and '{}-{x}'.format(1, x=2) == '1-2' and '%s %d' % ('a', 1) == 'a 1'",
        "files[::-1][0] == 'b.ts' and [*files, 'c'][-1] == 'c' and {**tool_args, 'n': 1}['n'] == max(*[1, 0])",
        "getattr(event, 'nothing', 3) == 3 and hasattr(event, 'source') and 'ab' * 2 == 'abab'",
        "any(n > 1 for n in [1, 2, 3]) and not all(x for x in [0]) and dict(zip('ab', [1, 2]))['b'] == 2",
    ],
)
def test_what_people_write_in_python_is_evaluated(text: str) -> None:
    names = {**NAMES, "prompt": "a-b", "files": ["a.py", "b.ts"], "tool_args": {"command": "abc"}, "kind": STOP}
    assert compile_python(text)(names)


@rows(
    "text",
    [
        "sum(x * y * z for x in range(99) for y in range(99) for z in range(99))",
        "[[1 for a in range(9999)] for b in range(9999)]",
        "10 ** 10 ** 10",
        "'x'.ljust(10 ** 9)",
        "'%999999999d' % 1",
        "f'{1:>999999999}'",
        "('x' * 9999).replace('', 'y' * 9999)",
        "round(1, -10 ** 9)",
        "list(range(10 ** 9))",
        "'{0:>99999999}'.format(1)",
        "sorted([3, 1], key=lambda x: [[y for y in range(9999)] for z in range(99)])",
    ],
)
def test_no_condition_takes_long_or_much_memory(text: str) -> None:
    with pytest.raises(ConditionError, match=r"most|large|steps|allowed"):
        compile_python(text)(NAMES)


@pytest.mark.parametrize("text", ["('x' * 2).replace('', s)", "s.join(many)", "[1 for a in many]"])
def test_a_value_has_a_bound(text: str) -> None:
    names = {"s": "x" * 999_999, "many": ["x"] * 20_000}
    with pytest.raises(ConditionError):
        compile_python(text)(names)
