"""Every error that Fleethook raises on purpose, as one tree.

    FleethookError
    ├── ConfigError            a file that does not validate: file, line, column, a suggestion
    │   ├── NotAccepted        an import whose content is no longer the one that the user accepted
    │   └── PatternError       an event pattern, tool matcher or `when:` that cannot be compiled
    ├── ConditionError         a condition that compiled, but is neither true nor false for this event
    │   └── NotBoolean         its result is another value, such as a text
    ├── OverBudget             a check that would take too long in this process
    ├── DecodeError            bytes from outside that are not what they claim to be
    ├── Unreachable            Redis (or a gateway) is away, full, read-only or refuses our credentials
    │   ├── NoEvaluator        Redis answers, but no evaluator is alive
    │   └── NoFleet            Redis answers, but has nothing of the fleet
    ├── RequestTimeout         the budget is used up and no verdict came
    ├── Unanswered             no verdict came for a call that waits for a person
    ├── ServerError            the embedded server cannot run: no program, a foreign data directory, another user's server
    ├── TargetRefused          the address policy refuses to connect there
    ├── SignatureError         a webhook whose id, time or signature is not valid
    ├── NotFound               an id, a version, a hook or an endpoint that does not exist
    ├── AmbiguousId            the beginning of more than one id
    └── Denied                 what a hook blocked (raised by the scopes of Python agents)

Attributes hold the data. The text is for people: what is wrong, where, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `fleethook --help` imports the errors, and should not import verdicts
    from bus.verdicts import Verdict


class FleethookError(Exception):
    """The root of the tree: catch this to catch everything that Fleethook raises on purpose."""


class ConfigError(FleethookError):
    """A configuration that does not validate; nothing of it is put in force.

    `file`, `line` and `column` (from 1) say where, if the place is known; `hint` suggests what to write.
    """

    def __init__(
        self, message: str, *, file: str = "", line: int = 0, column: int = 0, path: str = "", hint: str = ""
    ) -> None:
        self.message, self.file, self.line, self.column = message, file, line, column
        self.path, self.hint = path, hint
        self.source = file
        """The faulty file if it is not `file`: an import's error may have the place of the import entry."""
        self.unread = False
        """Whether nothing of the faulty file can be read."""
        super().__init__(str(self))

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text}; {self.hint}" if self.hint else text


class PatternError(ConfigError):
    """An event pattern, a tool matcher or a `when:` expression that cannot be compiled."""


class NotAccepted(ConfigError):
    """An import is pinned by its content, and the content is now another one or is gone."""


class ConditionError(FleethookError):
    """A condition is neither true nor false for this event: a missing key, a wrong type, or a part that cannot be read."""


class NotBoolean(ConditionError):
    """The result of a condition is a value other than true and false, such as a text."""


class OverBudget(FleethookError):
    """A check would take too long: it has to run in a separate process, or cannot be answered."""


class DecodeError(FleethookError):
    """Bytes from outside that are not a valid message; `reason` is safe to show (it never quotes the bytes)."""


class Unreachable(FleethookError):
    """Redis did not answer, is full or read-only, or refused the credentials."""


class NoEvaluator(Unreachable):
    """Redis answered, but no evaluator has a heartbeat, so a request would get no answer."""


class NoFleet(Unreachable):
    """Redis answered and has no streams of the fleet: it lost its data and the workers are not back yet, or none ever came."""


class RequestTimeout(FleethookError):
    """The budget of a request is used up and no verdict came."""


class Unanswered(FleethookError):
    """No verdict came for a call that waits for a person; `answer` is the one that an evaluator left for this case."""

    def __init__(self, reason: str, answer: bytes) -> None:
        self.answer = answer
        super().__init__(f"{reason}; the call waits for a person")


class ServerError(FleethookError):
    """The embedded server cannot be started or used; the text says what can be done."""


class TargetRefused(FleethookError):
    """The address policy refuses this target; `reason` names the rule, for the operator and not for the caller."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ProxyFailed(FleethookError):
    """The configured proxy cannot be reached or used, or refuses; the text never contains its password."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class AnswerTooLong(FleethookError):
    """A receiver sent more bytes than any normal answer has, and the answer was still not complete."""


class SignatureError(FleethookError):
    """A webhook's id, time or signature is not valid; the text never quotes a secret or an expected signature."""


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
