"""A lower layer can add strictness and never take it away: over random stacks of layers.

Source: docs/architecture.md, "Hooks and layers".
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.events import Event
from bus.hooks import LAYERS, Hook, Layer
from bus.outcomes import Outcome
from bus.verdicts import DECISIONS, POLICIES, Policy, Verdict
from tests.support.examples import examples
from tests.unit.bus.test_chain import EVENT, Said, hook, judge

PREVENTS = {"allow": 0, "abstain": 1, "ask": 2, "deny": 3}
"""How much of the call is prevented: an explicit allow even switches the agent's own prompt off."""

_changes = st.dictionaries(st.sampled_from(["command", "cwd", "path"]), st.sampled_from(["x", "y"]), max_size=2)
_outcomes = st.one_of(
    st.builds(
        Outcome,
        decision=st.sampled_from(DECISIONS),
        reason=st.just("why"),
        updated_input=st.none() | _changes,
        contexts=st.lists(st.sampled_from(["c", "d"]), max_size=1).map(tuple),
    ),
    st.builds(Outcome, failure=st.just("crash")),
)


class Member(NamedTuple):
    """One hook of a stack."""

    layer: Layer
    said: Outcome
    again: Outcome
    """What it says to a changed input."""
    on_failure: Policy | None
    dialect: str
    kind: str
    observe: bool
    stops: bool


_members = st.builds(
    Member,
    layer=st.sampled_from(LAYERS),
    said=_outcomes,
    again=_outcomes,
    on_failure=st.sampled_from([None, *POLICIES]),
    dialect=st.sampled_from(["fleethook", "claude", "gobby"]),
    kind=st.sampled_from(["command", "rule"]),
    observe=st.booleans(),
    stops=st.booleans(),
)
_stacks = st.lists(_members, max_size=7).map(lambda found: sorted(found, key=lambda one: LAYERS.index(one.layer)))


class Says(Said):
    """Says one thing to the event as it was, and maybe another to a changed one, as real hooks do."""

    def __init__(self, stack: list[Member]) -> None:
        super().__init__()
        self.stack = stack

    async def __call__(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        member = self.stack[hook.position]
        return member.said if event.input == EVENT.input else member.again


def made(stack: list[Member]) -> list[Hook]:
    """The stack's hooks."""
    return [
        hook(
            f"h{n}",
            one.layer,
            kind=one.kind,
            on_failure=one.on_failure,
            dialect=one.dialect,
            observe=one.observe,
            stop_on_failure=one.stops,
            position=n,
        )
        for n, one in enumerate(stack)
    ]


def verdicts(stack: list[Member], cut: Layer) -> tuple[Verdict, Verdict]:
    """What the layers from the highest down to `cut` say alone, and what all say."""
    hooks, run = made(stack), Says(stack)
    upper = [one for one in hooks if LAYERS.index(one.layer) <= LAYERS.index(cut)]
    return judge(upper, run), judge(hooks, run)


@pytest.mark.req("F-13")
@given(_stacks, st.sampled_from(LAYERS[:-1]))
@settings(max_examples=examples(120))
def test_what_a_higher_layer_prevents_stays_prevented(stack: list[Member], cut: Layer) -> None:
    """Whatever the lower ones say, change, observe, fail at or stop: a deny stays one, and an ask at least an ask."""
    upper, whole = verdicts(stack, cut)
    if PREVENTS[upper.decision] >= PREVENTS["ask"]:
        assert PREVENTS[whole.decision] >= PREVENTS[upper.decision]
    if upper.decision == "deny" and not any(one.said.updated_input for one in stack):
        assert (whole.reason, whole.instead) == (upper.reason, upper.instead), "and it is theirs"


@given(_stacks, st.sampled_from(("user", "project")))
@settings(max_examples=examples(120))
def test_a_project_or_session_never_switches_a_prompt_off(stack: list[Member], cut: Layer) -> None:
    """An allow comes from the fleet or the user alone, and for the input that they allowed."""
    upper, whole = verdicts(stack, cut)
    assert PREVENTS[whole.decision] >= PREVENTS[upper.decision]
    if whole.decision == "allow":
        assert upper.decision == "allow"
        changed = (whole.updated_input or {}) != (upper.updated_input or {})
        knew = {one.again.decision for one in stack if one.layer in {"fleet", "user"} and not one.again.failure}
        assert not changed or "allow" in knew, "an allow counts for the input that it was given for"


@pytest.mark.req("F-13")
@given(_stacks, st.sampled_from(LAYERS[:-1]))
@settings(max_examples=examples(120))
def test_what_a_higher_layer_changed_stays_changed(stack: list[Member], cut: Layer) -> None:
    upper, whole = verdicts(stack, cut)
    if whole.decision == "deny":
        assert whole.updated_input is None
        return
    for key, value in (upper.updated_input or {}).items():
        assert (whole.updated_input or {}).get(key) == value
    assert whole.contexts[: len(upper.contexts)] == upper.contexts


@given(_stacks)
@settings(max_examples=examples(80))
def test_who_only_observes_changes_nothing(stack: list[Member]) -> None:
    # Not of Claude's format: there one more neighbour changes which of them start together.
    stack = [one._replace(dialect="fleethook", stops=False) for one in stack]
    kept = [one for one in stack if not one.observe]
    whole, without = judge(made(stack), Says(stack)), judge(made(kept), Says(kept))
    assert (whole.decision, whole.updated_input, whole.contexts) == (
        without.decision,
        without.updated_input,
        without.contexts,
    )
