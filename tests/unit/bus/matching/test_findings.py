"""Checks that may take long: refused when they are loaded, asked of a process, and what counts without an answer."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from bus.errors import ConditionError, OverBudget, PatternError
from bus.events import Event
from bus.matching.checker_messages import ItemAnswer, MatchQuestion, encode_question
from bus.matching.condition_cost import size_of
from bus.matching.conditions import compile_condition
from bus.matching.disk import Disk, light_disk
from bus.matching.findings import Findings, ask, checker, holds, unanswered
from bus.matching.rules import TOO_LARGE, CommandMatch, Rule, judge
from bus.system.child import ChildProcess
from tests.support.rows import rows
from workers.runtime.rule_checks import RuleChecks

RM = Rule(commands=(CommandMatch(program=("rm",)),))
COSTLY = "event.data.l.all(a, event.data.l.all(b, event.data.l.all(c, true)))"


def bash(command: str, **data: object) -> Event:
    return Event(type="tool:pre_execute", tool="bash", cwd="/home/dev/app", input={"command": command}, data=data)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "text",
    [
        "event.l.all(a, " * 7 + "true" + ")" * 7,
        "event.l.all(a, event.l.exists(b, event.l.map(c, event.l.filter(d, true)) == []))",
        "[" + ",".join("1" * 300) + "].all(a, [1].all(b, [2].all(c, true)))",
        "event.l.map(a, a+a)" + ".map(a, a+a)" * 5 + " == []",
    ],
)
def test_a_condition_that_can_be_seen_to_cost_too_much_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        compile_condition(text)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "text",
    [
        "event.input.command.startsWith('rm')",
        "event.input.command.matches('^(a|b)+$') && event.tool == 'bash'",
        "event.data.l.exists(x, x == 'a') || event.data.l.all(x, size(x) < 3)",
        "event.data.l.exists(x, x.startsWith('.all(.all(.all(.all('))",
        "['a', 'b', 'c'].exists(x, event.input.command.contains(x))",
    ],
)
def test_an_ordinary_condition_stays_in_the_process(text: str) -> None:
    condition = compile_condition(text)
    assert not condition.is_costly(size_of(bash("ls -la", l=["a", "b"]).facts()))
    assert condition.is_costly(size_of(bash("ls", l=[["x"] * 3] * 2000).facts()))


@pytest.mark.req("X-09")
def test_what_takes_too_long_costs_nothing_else_its_answer() -> None:
    child = checker(wall_seconds=50.0)  # the processor's time is the subject here
    question = MatchQuestion(
        event=bash("ls; rm x", l=list(range(700))),
        rules={"rm": RM, "text": Rule(command=("ls",)), "dd": Rule(commands=(CommandMatch(program=("dd",)),))},
        conditions=("event.data.l.exists(x, x == 3)", COSTLY, "event.nothing == 1", "event.tool == 'bash'"),
    )
    try:
        findings = ask(child, question, 60)
    finally:
        child.close()
    assert {name: answer.fits for name, answer in findings.rules.items()} == {"rm": True, "text": True, "dd": False}
    assert findings.exceeded == {COSTLY}
    assert findings.holds("event.data.l.exists(x, x == 3)")
    assert findings.holds("event.tool == 'bash'")
    with pytest.raises(ConditionError):
        findings.holds("event.nothing == 1")
    with pytest.raises(OverBudget):
        findings.holds(COSTLY)


@pytest.mark.req("X-09")
def test_a_condition_asked_where_nobody_has_to_wait_is_answered_too() -> None:
    many = bash("ls", l=list(range(700)))
    assert holds(compile_condition("event.data.l.exists(x, x == 3)"), many, {})
    with pytest.raises(OverBudget):
        holds(compile_condition(COSTLY), many, {})


@pytest.mark.req("X-09")
def test_without_an_answer_a_rule_goes_by_the_programs_that_a_line_names() -> None:
    rules = {"rm": RM, "dd": Rule(commands=(CommandMatch(program=("dd",)),)), "text": Rule(command=("l.",))}
    findings = unanswered(MatchQuestion(event=bash("ls; rm x"), rules=rules, conditions=("true",)))
    assert findings.rules["rm"] == ItemAnswer("rule", "rm", True, "rm", TOO_LARGE)
    assert not findings.rules["dd"].fits
    assert findings.rules["text"].fits, "a regular expression needs no reading"
    assert findings.exceeded == {"true"}
    assert findings.notes


@pytest.mark.req("X-09")
def test_operands_are_looked_up_within_the_budget() -> None:
    rule = Rule(commands=(CommandMatch(program=("rm",), touches=("outside_project",)),))
    many = bash("rm " + " ".join(f"d{number}/x" for number in range(240)))
    with pytest.raises(OverBudget):
        judge(rule, many, light_disk())
    match = judge(rule, many, Disk(200, patient=True))
    assert match is not None
    assert match.doubt == TOO_LARGE
    disk = Disk(240, patient=True)
    assert judge(rule, many, disk) is None
    assert judge(rule, many, disk) is None, "each path is looked up once for a request"


@pytest.mark.req("X-09")
def test_a_question_survives_what_cannot_be_encoded() -> None:
    event = bash("rm \ud83d x", n=2**70)
    assert b"rm" in encode_question(MatchQuestion(event=event, rules={"rm": RM}))


ECHO = """
import os, struct, sys, time
def say(data): os.write(1, struct.pack(">I", len(data)) + data)
say(b"ready")
while head := sys.stdin.buffer.read(4):
    data = sys.stdin.buffer.read(struct.unpack(">I", head)[0])
    if data == b"die": os._exit(1)
    if data == b"sleep": time.sleep(600)
    say(data.upper()); say(b"end")
"""


@pytest.mark.req("X-09")
def test_a_child_is_killed_when_it_takes_too_long_and_starts_again() -> None:
    child = ChildProcess((sys.executable, "-c", ECHO), {})

    def say(text: bytes, seconds: float = 60) -> list[bytes]:
        messages = child.ask(text, seconds)
        found = [next(messages), next(messages)]
        messages.close()
        return found

    try:
        assert say(b"a") == [b"A", b"end"]
        first = child._process
        assert say(b"b" * 300_000)[0] == b"B" * 300_000
        assert child._process is first
        for bad, seconds in ((b"die", 60.0), (b"sleep", 0.01)):
            with pytest.raises(OverBudget):
                say(bad, seconds)
            assert say(b"c") == [b"C", b"end"]
        assert child._process is not first
    finally:
        child.close()


@pytest.mark.req("X-09")
async def test_agents_take_turns_however_much_one_of_them_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    go = threading.Event()

    def take(_child: ChildProcess, question: MatchQuestion, _seconds: float) -> Findings:
        assert go.wait(30)
        order.append(question.event.session)
        return Findings()

    def asked(agent: str) -> MatchQuestion:
        return MatchQuestion(event=Event(type="x", session=agent), rules={"rm": RM})

    monkeypatch.setattr("workers.runtime.rule_checks.ask", take)
    async with RuleChecks(processes=1) as checks:
        many = [asyncio.create_task(checks.find(asked("many"), "many", 60)) for _ in range(20)]
        await asyncio.sleep(0)
        one = asyncio.create_task(checks.find(asked("one"), "one", 60))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*many, one)
    assert order == ["many", "many", "one", "many", "many", "many"], "four may wait, the rest is too much at once"


@pytest.mark.req("X-09")
@rows(
    ("text", "elements"),
    [
        ("event.input.list.map(a, event).size() > 0", 100),
        ("event.input.list.filter(a, a != '').filter(a, a != '').size() > 0", 400),
        ("event.input.text.matches('(' + event.input.text + '{1,99}){1,99}')", 1),
        ("event.input.text.matches('(a{1,100}){1,100}b')", 1),
        ("event.input.list.exists(a, event.input.list.exists(b, a + b + event.input.text == ''))", 40),
    ],
    ids=range(5),
)
def test_a_condition_that_takes_milliseconds_is_not_checked_on_the_event_loop(text: str, elements: int) -> None:
    """Each took from 3 to 90 ms for an estimate of 0.1 to 2 ms, and no other request was answered meanwhile."""
    event = Event(type="tool:pre_execute", tool="bash", input={"text": "a" * 2000, "list": ["a"] * elements})
    assert compile_condition(text).is_costly(size_of(event.facts()))
    small = Event(type="tool:pre_execute", tool="edit", input={"path": "a", "edits": [{"old": "a", "new": "b"}] * 5})
    usual = "event.input.edits.exists(e, e.old.contains('x') || e.new.matches('[0-9]+')) && event.tool == 'edit'"
    assert not compile_condition(usual).is_costly(size_of(small.facts()))
