"""Names that nobody can guess or repeat."""

from __future__ import annotations

import re

import pytest

from bus import shim
from bus.ids import consumer_name, delivery_id, event_id, host_name, reply_token, webhook_id

EVENT = re.compile(r"e[0-9a-f]{32}")


def test_event_ids_sort_by_time_and_never_repeat() -> None:
    assert event_id(1) < event_id(2) < event_id(2**40) < event_id()
    made = {event_id(5) for _ in range(1000)}
    assert len(made) == 1000
    assert all(EVENT.fullmatch(one) for one in made)


def test_the_shim_makes_ids_of_the_same_form() -> None:
    """It imports nothing of bus, so the form stands twice."""
    assert EVENT.fullmatch(shim.new_id().decode())


def test_reply_tokens_are_128_random_bits() -> None:
    made = {reply_token() for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{32}", one) for one in made)


def test_a_delivery_has_one_id_and_one_webhook_id() -> None:
    name = delivery_id("e1", "hook_a")
    assert (name, delivery_id("e1", "hook_a")) == ("e1.hook_a", name)
    assert webhook_id(name) == "e1_hook_a"


def test_a_restarted_process_is_a_new_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert consumer_name("evaluator") != consumer_name("evaluator")
    assert consumer_name("evaluator").startswith("evaluator-test-host-")
    monkeypatch.setenv("FLEETHOOK_HOST", "")
    assert host_name()
