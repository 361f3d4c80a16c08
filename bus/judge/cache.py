"""Remembers a judge's answers by prompt and event, for a while, in the process that asked."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from bus.config.model_entry import ModelEntry
from bus.judge.answers import Judgement


class AnswerCache:
    """The answers of one process, the oldest first. Only what a model answered is remembered, and never a failure."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: OrderedDict[bytes, tuple[float, Judgement]] = OrderedDict()

    def find(self, key: bytes) -> Judgement | None:
        """The answer to the same question, unless it has expired."""
        known = self._answers.get(key)
        if known is None:
            return None
        if known[0] <= self._clock():
            del self._answers[key]
            return None
        return known[1]

    def keep(self, key: bytes, answer: Judgement, server: ModelEntry) -> None:
        """Remember an answer for `server.cache` seconds; the oldest ones make room for it."""
        if server.cache <= 0:
            return
        self._answers.pop(key, None)
        self._answers[key] = (self._clock() + server.cache, answer)
        while len(self._answers) > server.cache_entries:
            self._answers.popitem(last=False)

    def __len__(self) -> int:
        return len(self._answers)


def question_key(server: ModelEntry, model: str, text: str, event: Any) -> bytes:
    """The key of a question: the endpoint, what may change its answer, the prompt, and the event as it would be sent."""
    parts = [server.url, model, server.answers, server.temperature, text, event]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode("ascii")).digest()
