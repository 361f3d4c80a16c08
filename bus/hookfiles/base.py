"""What every hook dialect does: read a system's hook files, and run their hooks as their author meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from bus.config.hook_file_value import HookFile
from bus.events import Event
from bus.hooks import Hook, Layer
from bus.outcomes import Outcome
from bus.system.processes import Finished
from bus.verdicts import Policy, Verdict


class HookDialect(Protocol):
    """How the commands of one system are run; it has no state."""

    name: str
    policy: Policy | None
    """The failure policy where neither the hook nor its layer has one; None leaves it to the bus.

    Source: docs/architecture.md, "Verdicts".
    """

    one_stream: bool
    """A command's stdout and stderr are one text, in the order written; it is in `Finished.stdout`."""

    def read(self, path: Path, layer: Layer) -> HookFile:
        """What a file (or folder) of the system contributes, in order; ConfigError only where nothing can be read.

        Each hook has its `dialect`, `origin` (file:line), and in `own` what the methods below need. A bad entry stands
        among the `problems` with its place, the others load (F-11); what has no equivalent stands in `warnings`.
        """
        ...

    def applies(self, hook: Hook, event: Event) -> bool:
        """Whether the hook runs for an event that its patterns and `when:` fit: what else its author asked for."""
        ...

    def variables(self, hook: Hook, event: Event) -> Mapping[str, str]:
        """The system's own environment variables, beside the safe list, the hook's `env` and FLEETHOOK_*."""
        ...

    def stdin(self, hook: Hook, event: Event) -> bytes:
        """What the command reads on stdin; TypeError or ValueError where the event cannot be written."""
        ...

    def outcome(self, hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:
        """What the command's ending means: a decision, context, a changed input, or a failure (never both)."""
        ...


@runtime_checkable
class HttpDialect(Protocol):
    """A hook dialect that also has its own form for what goes out over HTTP; hooks of any other get ours."""

    def http_body(self, event: Event, verdict: Verdict | None, hook: Hook | None = None) -> bytes:
        """What is posted, for a hook that is asked or for whoever is told; whoever tells redacts the event first.

        TypeError or ValueError where the event cannot be written.
        """
        ...

    def http_answer(self, raw: bytes, hook: Hook, event: Event) -> Outcome:
        """What a receiver's 2xx answer with a body means for a blocking hook; raises DecodeError, which says why."""
        ...


@runtime_checkable
class RootedDialect(Protocol):
    """A hook dialect whose commands run elsewhere than in the event's directory."""

    def directory(self, hook: Hook, event: Event) -> str:
        """Where the command runs; empty for the hook's own directory, else the event's."""
        ...
