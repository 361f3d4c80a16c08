"""Commands of fleethook.yaml: the event as JSON on stdin, the answer in the exit code and on stdout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from bus.config.hook_file_value import HookFile
from bus.errors import ConfigError, DecodeError
from bus.events import Event, EventType
from bus.hookfiles.command_results import failure, hook_name, output, plain
from bus.hookfiles.json_replies import read_reply
from bus.hooks import NATIVE, Hook, Layer
from bus.outcomes import Outcome
from bus.system.processes import Finished
from bus.wire.codec import write_json

_CONTEXT_EVENTS: Final = frozenset({EventType.SESSION_START.value, EventType.USER_PROMPT_SUBMIT.value})
"""The events at which plain text on stdout is context for the model."""


class _Native:
    """Exit 0 answers on stdout, exit 2 denies with stderr as its reason; anything else is a failure."""

    name = NATIVE
    policy = None
    one_stream = False

    def read(self, path: Path, layer: Layer) -> HookFile:  # noqa: ARG002 - the protocol's arguments
        """Always raises: `hooksets/hookfile.py` reads fleethook.yaml."""
        raise ConfigError("a fleethook.yaml is not read by a hook dialect", file=str(path))

    def applies(self, hook: Hook, event: Event) -> bool:  # noqa: ARG002 - the protocol's arguments
        """Always true: `on`, `tool` and `when` have all conditions."""
        return True

    def variables(self, hook: Hook, event: Event) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's arguments
        """Only FLEETHOOK_*, which every command gets."""
        return {}

    def stdin(self, hook: Hook, event: Event) -> bytes:  # noqa: ARG002 - the protocol's arguments
        """Every field of the event, set or not, as one line of JSON."""
        return write_json({name: getattr(event, name) for name in event.__struct_fields__}) + b"\n"

    def outcome(self, hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:
        """The answer in the exit code and on stdout."""
        shown, code = output(done), done.exit_code
        stdout = plain(done.stdout).strip()
        if code == 2 and not done.timed_out:
            reason = plain(done.stderr).strip() or stdout or f"hook {hook.id!r} denies it (exit 2) and gives no reason"
            return Outcome(decision="deny", reason=reason, exit_code=code, output=shown)
        wrong = failure(hook, done, seconds)
        if wrong:
            return Outcome(failure=wrong, exit_code=code, output=shown)
        if not stdout.startswith("{"):
            contexts = (stdout,) if stdout and event.type in _CONTEXT_EVENTS else ()
            return Outcome(contexts=contexts, exit_code=code, output=shown)
        unusable = f"{hook_name(hook)} printed an answer that cannot be used:"
        if done.stdout_cut:
            size = len(done.stdout) + done.stdout_cut
            wrong = f"{unusable} it is {size} bytes long; {len(done.stdout)} are read"
            return Outcome(failure=wrong, exit_code=code, output=shown)
        try:
            reply = read_reply(done.stdout, hook.id)
        except DecodeError as error:
            return Outcome(failure=f"{unusable} {error}", exit_code=code, output=shown)
        return msgspec.structs.replace(reply, exit_code=code, output=shown)


HOOKS: Final = {NATIVE: _Native()}
