"""The text that replaces a secret, and how many secrets this process replaced, for the metrics."""

from __future__ import annotations

from collections import Counter

from bus.lazy.regex import lazy_regex

REDACTED = "[redacted]"

replaced = Counter[str]()
"""The secrets that were replaced, by kind: a token's kind, or `value` for one that was known by the text beside it."""

_VALUE = "value"
_REPLACEMENT = lazy_regex(r"\[redacted(?::([a-z-]{1,40}))?\]")


def hide() -> str:
    """What to show instead of a value."""
    replaced[_VALUE] += 1
    return REDACTED


def count_replacements(text: str, given: str) -> None:
    """Count what was replaced in a given text, which may quote replacements of before."""
    if text is not given and text != given:
        now, before = (Counter(_REPLACEMENT.findall(each)) for each in (text, given))
        replaced.update({kind or _VALUE: number for kind, number in (now - before).items()})
