"""Commands: the event on stdin and in the environment, the answer in the exit code and on stdout (native dialect).

Event data reaches a command as stdin and environment only; the command's text is what its author wrote.
"""

from __future__ import annotations

import os
import signal
from typing import Final

import msgspec

from bus.codec import write_json
from bus.environment import base_env, fit_env
from bus.errors import DecodeError
from bus.events import Event, EventType
from bus.hooks import Hook
from bus.processes import Finished, run_process
from bus.redaction import redact_text
from bus.runners import Outcome
from bus.runners.replies import read_reply

GRACE: Final = 0.25
"""Seconds from SIGTERM to SIGKILL where somebody waits for the verdict; in the background it is `run_process`'s own."""

SHOWN: Final = 4096
"""Characters of the end of the output that a trace keeps."""

_TALKS: Final = frozenset({EventType.SESSION_START.value, EventType.USER_PROMPT_SUBMIT.value})
"""Where plain text on stdout is context for the model."""


class CommandRunner:
    """Runs blocking hooks of kind `command`."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """Exit 0 answers on stdout, exit 2 denies with stderr as its reason; anything else is a failure."""
        try:
            done = await run_command(hook, event, seconds, grace=GRACE)
        except (TypeError, ValueError) as error:  # a value that JSON does not have, from a publisher's own event
            return Outcome(failure=f"{_name(hook)} was not started: the event cannot be written as JSON ({error})")
        return _outcome(hook, event, done, seconds)


async def run_command(hook: Hook, event: Event, seconds: float, *, grace: float = 2.0) -> Finished:
    """Run the command of `hook` for `event`, blocking or in the background."""
    return await run_process(
        hook.command, stdin=event_json(event), env=command_env(hook, event), cwd=_directory(hook, event),
        seconds=seconds, grace=grace,
    )  # fmt: skip


def event_json(event: Event) -> bytes:
    """What a command reads on stdin: every field of the event, set or not, as one line of JSON."""
    return write_json({name: getattr(event, name) for name in event.__struct_fields__}) + b"\n"


def command_env(hook: Hook, event: Event) -> dict[str, str]:
    """The environment of a command: the safe list, `env_pass`, the hook's own, and the event's FLEETHOOK_ variables.

    Values too large for the OS are cut and marked, and their names stand in FLEETHOOK_CUT.
    """
    env, cut = fit_env({
        **base_env(hook.env_pass), **hook.env,
        "FLEETHOOK_EVENT": event.type, "FLEETHOOK_EVENT_ID": event.id, "FLEETHOOK_PARENT": event.id,
        "FLEETHOOK_TOOL": event.tool, "FLEETHOOK_SESSION": event.session, "FLEETHOOK_CWD": event.cwd,
        "FLEETHOOK_SOURCE": event.source, "FLEETHOOK_HOOK": hook.id,
    })  # fmt: skip
    if cut:
        env["FLEETHOOK_CUT"] = ",".join(cut)
    return env


def failure(hook: Hook, done: Finished, seconds: float) -> str:
    """Why a run was no success (any exit but 0), for the trace, the verdict and the attempt log; empty for exit 0."""
    what = ""
    if done.timed_out:
        what = f"timed out after {seconds:.1f} s"
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
    last = redact_text(_text(done.stderr)).strip().rsplit("\n", 1)[-1][:300]
    return f"{_name(hook)} {what}" + (f" ({last})" if last else "")


def output(done: Finished) -> str:
    """The end of what a command printed, stdout before stderr, redacted."""
    tails = (_text(stream[-2 * SHOWN :]).strip() for stream in (done.stdout, done.stderr) if stream)
    return redact_text("\n".join(tails))[-SHOWN:]


def _outcome(hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:
    shown, code = output(done), done.exit_code
    stdout = _text(done.stdout).strip()
    if code == 2 and not done.timed_out:
        reason = _text(done.stderr).strip() or stdout or f"hook {hook.id!r} denies it (exit 2) and gives no reason"
        return Outcome(decision="deny", reason=reason, exit_code=code, output=shown)
    wrong = failure(hook, done, seconds)
    if wrong:
        return Outcome(failure=wrong, exit_code=code, output=shown)
    if not stdout.startswith("{"):
        contexts = (stdout,) if stdout and event.type in _TALKS else ()
        return Outcome(contexts=contexts, exit_code=code, output=shown)
    unusable = f"{_name(hook)} printed an answer that cannot be used:"
    if done.stdout_cut:
        size = len(done.stdout) + done.stdout_cut
        wrong = f"{unusable} it is {size} bytes long; {len(done.stdout)} are read"
        return Outcome(failure=wrong, exit_code=code, output=shown)
    try:
        reply = read_reply(done.stdout, hook.id)
    except DecodeError as error:
        return Outcome(failure=f"{unusable} {error}", exit_code=code, output=shown)
    return msgspec.structs.replace(reply, exit_code=code, output=shown)


def _directory(hook: Hook, event: Event) -> str:
    """The hook's own directory (relative to the event's), else the event's if it is there, else home."""
    home = os.path.expanduser("~")
    base = event.cwd if os.path.isabs(event.cwd) and os.path.isdir(event.cwd) else home
    return os.path.join(base, os.path.expanduser(hook.working_dir)) if hook.working_dir else base


def _name(hook: Hook) -> str:
    return f"hook {hook.id!r} ({hook.origin})" if hook.origin else f"hook {hook.id!r}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
