"""Strictness, and what a failure policy amounts to."""

from __future__ import annotations

import itertools

import pytest

from bus.events import GATES, STOPS, EventType
from bus.verdicts import DECISIONS, POLICIES, Verdict, bus_policy, failed, fallback_decision, strictest


@pytest.mark.req("B-02")
def test_strictness_is_an_order() -> None:
    assert sorted(DECISIONS, key=lambda one: sum(strictest(one, other) == one for other in DECISIONS)) == [
        "abstain",
        "allow",
        "ask",
        "deny",
    ]
    for one, other in itertools.product(DECISIONS, repeat=2):
        assert strictest(one, other) == strictest(other, one)


@pytest.mark.req("G-20")
def test_a_fallback_is_loud_and_never_an_explicit_allow() -> None:
    for policy in POLICIES:
        verdict = failed(policy, "redis away", event="e1", version="fleet@1")
        assert (verdict.fallback, verdict.event, verdict.version) == ("redis away", "e1", "fleet@1")
        assert verdict.decision == fallback_decision(policy) != "allow"
        assert verdict.blocks is (policy == "deny")
        assert bool(verdict.reason) is (policy != "allow")
        assert policy == "allow" or "redis away" in verdict.reason
    assert Verdict().decision == "abstain"


def test_the_bus_closes_at_gates_only() -> None:
    """`--fail-closed` denies before a tool, at a prompt, at a question; a stop that it denied would never end."""
    for kind in (*(one.value for one in EventType), "acme:deploy", ""):
        assert bus_policy("deny", kind) == ("deny" if kind in GATES else "allow")
    assert not GATES & STOPS
