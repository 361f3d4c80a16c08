"""An endpoint that can block is asked where somebody waits, told of everything else, and never both (G-06, G-08)."""

from __future__ import annotations

import pytest

from bus.events import Event
from bus.hooksets.hookfile import HookFile, from_document, parse_hook_file, to_document
from bus.hooksets.in_force import HookSet, Layered
from bus.verdicts import Part, Verdict
from bus.wire.keys import Keys
from workers.delivery.deliveries import deliveries_of

KEYS = Keys("t")
FILE = """
on_failure: deny
hooks:
  - {id: first, on: "tool:*", command: "true"}
endpoints:
  - id: policy
    url: https://p.example/ask
    events: "tool:*"
    tool: bash
    when: event.source == "codex"
    headers: {X-Key: "${KEY}"}
    secret: env:NEW
    old_secrets: [{secret: "env:OLD", until: "2026-11-23T08:00:00Z"}]
    timeout: 2.5
    can_block: true
  - {id: lenient, url: "https://l.example", can_block: true, on_failure: allow}
  - {id: told, url: "https://t.example"}
"""
CALL = Event(type="tool:pre_execute", tool="bash", id="e1", source="codex", host="h1")


def in_force(file: HookFile | None = None) -> HookSet:
    """The hooks and endpoints of the file."""
    return HookSet([Layered("fleet", "7", file or parse_hook_file(FILE, "fleet"))])


def targets(verdict: Verdict | None) -> list[str]:
    """Who is owed the event after a verdict."""
    return sorted(one.hook for one in deliveries_of(CALL, verdict, in_force(), KEYS))


@pytest.mark.req("G-06", "G-08")
def test_it_is_asked_as_its_endpoint_says_after_the_files_hooks() -> None:
    first, policy, lenient = in_force().blocking(CALL)
    assert first.id == "first"
    assert policy.http is not None
    endpoint = in_force().endpoints["policy"]
    for name in ("url", "headers", "secret", "old_secrets"):
        assert getattr(policy.http, name) == getattr(endpoint, name) != ""
    assert (policy.id, policy.timeout, policy.on_failure, policy.kind) == ("policy", 2.5, "deny", "http")
    assert (policy.version, policy.origin) == ("7", endpoint.origin)
    assert (lenient.on_failure, endpoint.can_block) == ("allow", True)


@pytest.mark.req("G-08")
def test_its_matcher_says_when_it_is_asked() -> None:
    others = (
        Event(type="tool:pre_execute", tool="read", source="codex"),
        Event(type="tool:pre_execute", tool="bash", source="claude"),
    )
    for other in others:
        assert [hook.id for hook in in_force().blocking(other)] == ["first", "lenient"]


@pytest.mark.req("G-08", "B-06")
def test_who_answered_is_not_told_and_who_was_not_asked_or_did_not_answer_is() -> None:
    assert targets(None) == ["first", "lenient", "policy", "told"], "nobody waited: a delivery, and no question"
    answered = Part(hook="policy", decision="deny")
    failed = Part(hook="lenient", decision="abstain", fallback="no answer within 15 s")
    assert targets(Verdict(decision="deny", parts=(answered,))) == ["lenient", "told"], "lenient was not asked any more"
    assert targets(Verdict(decision="abstain", parts=(failed,))) == ["lenient", "policy", "told"]
    assert targets(Verdict(decision="deny", fallback="no evaluator")) == ["lenient", "policy", "told"]
    assert targets(Verdict(parts=(answered, Part(hook="told", decision="abstain")))) == ["lenient", "told"]


def test_a_published_set_asks_too() -> None:
    published = from_document(to_document(parse_hook_file(FILE, "fleet")))
    assert [hook.id for hook in published.hooks] == ["first"], "the question is made of the endpoint, not published"
    assert [hook.id for hook in in_force(published).blocking(CALL)] == ["first", "policy", "lenient"]
