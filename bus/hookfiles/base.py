"""The interface of hook dialects: they read a system's hook files, and run the hooks as their author meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from bus.events import Event
from bus.hooks import Hook, Layer
from bus.outcomes import Outcome
from bus.verdicts import Policy, Verdict

if TYPE_CHECKING:  # a plugin's process imports this package, and needs no reader of hook files or commands
    from bus.config.hook_file_value import HookFile
    from bus.system.processes import Finished


class HookDialect(Protocol):
    """How the commands of one system run; it has no state."""

    name: str
    policy: Policy | None
    """The failure policy if neither the hook nor its layer has one; None: the bus's policy.

    Source: docs/architecture.md, "Verdicts".
    """

    one_stream: bool
    """Whether a command's stdout and stderr are joined, in the order written, in `Finished.stdout`."""

    def read(self, path: Path, layer: Layer) -> HookFile:
        """The hooks of a file or folder of the system, in order; raises ConfigError only if nothing can be read.

        Each hook has its `dialect`, its `origin` (file:line), and in `own` the fields of the original entry that the
        methods below need. A bad entry is reported in `problems` with its place, and the others load (F-11). Entries
        without an equivalent are reported in `warnings`.
        """
        ...

    def applies(self, hook: Hook, event: Event) -> bool:
        """Whether the dialect's further conditions let the hook run; its patterns and its `when:` already fit the event."""
        ...

    def variables(self, hook: Hook, event: Event) -> Mapping[str, str]:
        """The system's own environment variables, in addition to the safe list, the hook's `env` and FLEETHOOK_*."""
        ...

    def stdin(self, hook: Hook, event: Event) -> bytes:
        """The command's stdin; raises TypeError or ValueError if the event cannot be written."""
        ...

    def outcome(self, hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:
        """The outcome of a finished command: a failure, or the hook's decision, context and changed input."""
        ...


@runtime_checkable
class HttpDialect(Protocol):
    """A hook dialect with its own HTTP bodies and answers; hooks of other dialects use Fleethook's."""

    def http_body(self, event: Event, verdict: Verdict | None, hook: Hook | None = None) -> bytes:
        """The body that is posted to a blocking hook or to a receiver; for a receiver, the caller redacts the event first.

        Raises TypeError or ValueError if the event cannot be written.
        """
        ...

    def http_headers(self, event: Event) -> Mapping[str, str]:
        """The headers that this system sends beside the body; a configured header of the same name replaces one."""
        ...

    def http_answer(self, raw: bytes, hook: Hook, event: Event) -> Outcome:
        """The outcome of a blocking hook's 2xx answer with a body; raises DecodeError with the reason."""
        ...

    def http_refusal(self, raw: bytes, hook: Hook, event: Event) -> Outcome | None:
        """The outcome of a 4xx answer that refuses the event; None where it is a failure like any other."""
        ...


@runtime_checkable
class DirectoryDialect(Protocol):
    """A hook dialect that says in which directory its commands run."""

    def directory(self, hook: Hook, event: Event) -> str:
        """The command's directory. Empty text: the directory that the hook declares, or else the event's."""
        ...
