"""The result of a finished command in words: why it failed, and the end of its output."""

from __future__ import annotations

import logging
import signal
from typing import Final

from bus.events import Event
from bus.hooks import Hook
from bus.secrets.redaction import redact_text
from bus.system.processes import Finished

log = logging.getLogger("fleethook.hooks")

LOGGED: Final = 2048
"""How many characters of the end of stderr are logged."""

_UNPRINTABLE: Final = dict.fromkeys([*range(32), *range(127, 160)])

SHOWN: Final = 4096
"""How many characters of the end of the output a trace keeps."""


def failure(hook: Hook, done: Finished, seconds: float) -> str:
    """Why a run failed (any exit but 0), for the trace, the verdict and the attempt log; empty for exit 0."""
    what = ""
    if done.timed_out:
        took = min(seconds, done.ms / 1000) if done.ms else seconds  # in the background it may have named less
        what = f"timed out after {took:.1f} s"
    elif done.spawn_error:
        what = f"did not run: {done.spawn_error}"
    elif done.signal is not None:
        what = f"was killed by {_signal(done.signal)}"
    elif done.exit_code == 127:
        what = "failed, command not found: exit 127"
    elif done.exit_code == 126:
        what = "failed, command not executable: exit 126"
    elif done.exit_code:
        what = f"failed: exit {done.exit_code}"
    if not what:
        return ""
    last = redact_text(plain(done.stdout if done.one_stream else done.stderr)).strip().rsplit("\n", 1)[-1][:300]
    return f"{hook_name(hook)} {what}" + (f" ({last})" if last else "")


def log_ending(hook: Hook, event: Event, done: Finished, seconds: float) -> None:
    """Log a run that failed or wrote to stderr: hook, event, result and the end of its stderr."""
    if done.exit_code == 0 and not done.timed_out and not done.stderr:
        return  # most runs
    wrong = failure(hook, done, seconds)
    stderr_end = redact_text(plain(done.stdout if done.one_stream and wrong else done.stderr))[-LOGGED:]
    if not wrong and not stderr_end.strip():
        return
    text = " | ".join(
        line for line in (part.translate(_UNPRINTABLE).strip() for part in stderr_end.splitlines()) if line
    )
    what = wrong or f"{hook_name(hook)} ended well"
    level = logging.ERROR if done.timed_out else logging.WARNING  # F-11
    log.log(level, "%s at event %s%s", what, event.id or event.type, f"; stderr: {text}" if text else "")


def log_failure(event: Event, why: str) -> None:
    """Log a failure of a hook that is not the result of a command."""
    log.warning("%s at event %s", redact_text(why).translate(_UNPRINTABLE)[:LOGGED], event.id or event.type)


def output(done: Finished) -> str:
    """The end of what a command printed, stdout before stderr, redacted."""
    tails = (plain(stream[-2 * SHOWN :]).strip() for stream in (done.stdout, done.stderr) if stream)
    return redact_text("\n".join(tails))[-SHOWN:]


def hook_name(hook: Hook) -> str:
    """The hook's name in messages, with its place."""
    return f"hook {hook.id!r}" + (f" ({hook.origin})" if hook.origin else "")


def plain(raw: bytes) -> str:
    """A command's output as text, for any bytes."""
    return raw.decode("utf-8", "replace")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
