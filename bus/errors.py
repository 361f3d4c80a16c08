"""Every error that Fleethook raises on purpose, as one tree.

    FleethookError
    ├── ConfigError            a file that does not validate: file, line, column, what was meant
    │   ├── NotAccepted        an import that is pinned by its content, and has another one by now
    │   └── PatternError       an event pattern, tool matcher or `when:` that cannot be compiled
    ├── ConditionError         a condition that compiled, but gave no true or false for this event
    │   └── NotBoolean         its result is something else: it compares nothing
    ├── OverBudget             a check that is too heavy for the process that was to make it
    ├── DecodeError            bytes from outside that are not what they claim to be
    ├── Unreachable            Redis (or a gateway) is away, full, read-only or refuses our credentials
    │   └── NoEvaluator        Redis answers, but no evaluator is alive
    ├── RequestTimeout         the budget is used up and no verdict came
    ├── ServerError            the embedded server: none to be had, a foreign data directory, owned by another
    ├── TargetRefused          the address policy refuses to connect there
    ├── SignatureError         a webhook whose id, time or signature does not hold
    ├── NotFound               an id, a version, a hook or an endpoint that does not exist
    ├── AmbiguousId            the beginning of more than one id
    └── Denied                 what a hook blocked (raised by the scopes of Python agents)

Attributes hold the data. The text is for people: what is wrong, where, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `fleethook --help` needs the errors and none of what they speak of
    from bus.verdicts import Verdict


class FleethookError(Exception):
    """The root of the tree: catch this to catch everything that Fleethook raises on purpose."""


class ConfigError(FleethookError):
    """A configuration that does not validate; nothing of it is put in force.

    `file`, `line` and `column` (from 1) say where, when the place is known; `hint` says what was meant.
    """

    def __init__(
        self, message: str, *, file: str = "", line: int = 0, column: int = 0, path: str = "", hint: str = ""
    ) -> None:
        self.message, self.file, self.line, self.column = message, file, line, column
        self.path, self.hint = path, hint
        self.source = file
        """The file that is at fault, where that is another than the one that `file` points into (an import)."""
        self.unread = False
        """Whether nothing of that file can be read."""
        super().__init__(str(self))

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text}; {self.hint}" if self.hint else text


class PatternError(ConfigError):
    """An event pattern, a tool matcher or a `when:` expression that cannot be compiled."""


class NotAccepted(ConfigError):
    """An import that is pinned by its content, and has another one by now, or none."""


class ConditionError(FleethookError):
    """A condition that gave neither true nor false for this event: a missing key, a wrong type, a part out of sight."""


class NotBoolean(ConditionError):
    """A condition whose result is neither true nor false."""


class OverBudget(FleethookError):
    """A check that takes more than it may: it belongs into a process of its own, or has no answer at all."""


class DecodeError(FleethookError):
    """Bytes from outside that are not a valid message; `reason` is safe to show (it never quotes the bytes)."""


class Unreachable(FleethookError):
    """Redis did not answer, is full or read-only, or refused the credentials."""


class NoEvaluator(Unreachable):
    """Redis answered, but no evaluator has a heartbeat, so a request would get no answer."""


class RequestTimeout(FleethookError):
    """The budget of a request is used up and no verdict came."""


class ServerError(FleethookError):
    """The embedded server cannot be started or used; the text names the ways out."""


class TargetRefused(FleethookError):
    """The address policy refuses this target; `reason` names the rule, for the operator and not for the caller."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ProxyFailed(FleethookError):
    """The proxy that is configured cannot be reached or used, or refuses; the text holds nothing of its password."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class AnswerTooLong(FleethookError):
    """More came from a receiver than any honest answer has around the part of its body that is read."""


class SignatureError(FleethookError):
    """A webhook whose id, time or signature does not hold; the text never quotes a secret or an expected signature."""


class NotFound(FleethookError):
    """An id, a version, a hook or an endpoint that does not exist."""


class AmbiguousId(FleethookError):
    """The beginning of more than one id; the text names some of them."""


class Denied(FleethookError):
    """Hooks blocked a tool call, a prompt or a model call; `reason` is the text for the model.

    `verdict` is the whole verdict: its hooks, how long they took, and whether it is a fallback.
    """

    def __init__(self, reason: str, verdict: Verdict | None = None) -> None:
        self.reason, self.verdict = reason, verdict
        super().__init__(reason)
