"""The memory of answers: bounded, and not for long."""

from __future__ import annotations

import msgspec
import pytest

from bus.config.model_entry import ModelEntry
from bus.judge.answers import Judgement
from bus.judge.cache import AnswerCache, question_key

pytestmark = pytest.mark.req("I-12")
SERVER = ModelEntry(url="https://api.example/v1", name="small", cache=100, cache_entries=3)
NO = Judgement(ok=False, reason="no")


def test_an_answer_expires() -> None:
    now = 0.0
    cache = AnswerCache(lambda: now)
    cache.keep(b"a", NO, SERVER)
    now = 99.0
    assert cache.find(b"a") == NO
    now = 100.0
    assert cache.find(b"a") is None
    assert len(cache) == 0


def test_the_oldest_answers_make_room() -> None:
    cache = AnswerCache(lambda: 0.0)
    for key in (b"a", b"b", b"c", b"a", b"d"):
        cache.keep(key, NO, SERVER)
    assert [cache.find(key) is not None for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    cache.keep(b"e", NO, msgspec.structs.replace(SERVER, cache=0))
    assert cache.find(b"e") is None


def test_a_key_is_of_everything_that_may_change_the_answer() -> None:
    event = {"tool": "bash", "input": {"command": "ls"}}
    keys = {
        question_key(SERVER, "small", "ok?", event),
        question_key(SERVER, "large", "ok?", event),
        question_key(SERVER, "small", "ok!", event),
        question_key(SERVER, "small", "ok?", {**event, "input": {}}),
        question_key(msgspec.structs.replace(SERVER, url="https://other.example"), "small", "ok?", event),
    }
    assert len(keys) == 5
    assert question_key(SERVER, "small", "ok?", dict(reversed(event.items()))) in keys
