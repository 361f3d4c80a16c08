"""Reads a judge's answer strictly: one JSON object `{"ok": bool, "reason": text}` and nothing beside it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from bus.errors import DecodeError

MOST_REASON: Final = 4_000
"""Characters of a reason that are passed on."""

_MOST: Final = 32_768
_FENCE: Final = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_THOUGHTS: Final = re.compile(r"<think>.*?</think>", re.DOTALL)
_KEYS: Final = frozenset({"ok", "reason", "impossible"})

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["ok", "reason"],
    "additionalProperties": False,
}
"""What servers that support it are asked to enforce."""


class Judgement(msgspec.Struct, frozen=True):
    """A judge's answer."""

    ok: bool
    reason: str = ""
    impossible: bool = False
    """At a stop: the condition cannot be met, so the agent need not try any longer (Claude Code's field)."""


def read_judgement(text: str) -> Judgement:
    """The answer in a model's text; DecodeError says what is wrong, without quoting it.

    The whole text has to be the object. Only a code fence around all of it, or a model's thoughts before it, are removed. A
    key that occurs twice is an error: which of the two counts would depend on the reader.
    """
    if len(text) > _MOST:
        raise DecodeError(f"the answer has {len(text)} characters; {_MOST} is the most")
    text = text.strip()
    if text.startswith("<think>"):
        text = _THOUGHTS.sub("", text, count=1).strip()
    fenced = _FENCE.fullmatch(text)
    if fenced is not None:
        text = fenced[1].strip()
    if not text:
        raise DecodeError("the answer is empty")
    try:
        value = json.loads(text, object_pairs_hook=_without_twins, parse_constant=_refuse)
    except RecursionError:
        raise DecodeError("the answer is nested too deeply") from None
    except ValueError:
        raise DecodeError('the answer is not one JSON object {"ok": …, "reason": …}') from None
    if not isinstance(value, dict):
        raise DecodeError(f"the answer is a JSON {type(value).__name__}, not an object")
    return _judgement(value)


def _judgement(value: dict[str, Any]) -> Judgement:
    unknown = sorted(value.keys() - _KEYS)
    if unknown:
        raise DecodeError(f"the answer has a key that was not asked for: {unknown[0][:40]!r}")
    ok, reason, impossible = value.get("ok"), value.get("reason"), value.get("impossible")
    if not isinstance(ok, bool):
        raise DecodeError("the answer's `ok` is not true or false" if "ok" in value else "the answer has no `ok`")
    if reason is not None and not isinstance(reason, str):
        raise DecodeError("the answer's `reason` is not a text")
    if impossible is not None and not isinstance(impossible, bool):
        raise DecodeError("the answer's `impossible` is not true or false")
    plain = "".join(char for char in reason or "" if char.isprintable() or char == "\n")
    return Judgement(ok, plain.strip()[:MOST_REASON], bool(impossible))


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DecodeError("the answer has a key twice")
    return found


def _refuse(name: str) -> Any:
    raise DecodeError(f"the answer holds {name}, which JSON does not have")
