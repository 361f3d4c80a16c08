"""A terminal with a shell in it: what a reader of the pages types, and what comes back."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

_MARK = "\x01done"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_QUESTION = re.compile(r"\[y/N\]:? *$")


class Terminal:
    """A bash on a pseudo-terminal; a question that ends in `[y/N]` is answered with yes, as the reader would."""

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        self._own, theirs = pty.openpty()
        quiet = {"PS1": "", "PS2": "", "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "160", "LINES": "50"}
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
            env={**env, **quiet}, cwd=folder, start_new_session=True, preexec_fn=_controlled,  # noqa: PLW1509  # the one way to a controlling terminal
        )  # fmt: skip
        os.close(theirs)
        self._read = ""
        self.run("stty -echo -onlcr; set +H; bind 'set enable-bracketed-paste off' 2>/dev/null; true", 10)

    def run(self, command: str, seconds: float) -> tuple[int, str]:
        """Type a command and wait for its end: its exit code, and everything that it wrote."""
        # One compound command: the shell has read all of it before a program in it can ask something.
        self._type(f"{{ {command or ':'}\n}}; printf '\\001done %s\\n' $?\n")
        return self._ended(seconds, command)

    def start(self, command: str, shows: str, seconds: float) -> str:
        """Type a command that keeps running, and wait until it has written what `shows` (nothing: do not wait)."""
        self._type(f"{command}\n")
        return self._until(re.compile(re.escape(shows)), seconds, command)

    def interrupt(self, seconds: float) -> tuple[int, str]:
        """Ctrl-C for what runs, and wait for its end."""
        self._type("\x03")
        self._type("printf '\\001done %s\\n' $?\n")
        return self._ended(seconds, "Ctrl-C")

    def close(self) -> None:
        """Hang up."""
        os.close(self._own)
        self._shell.kill()
        self._shell.wait()

    def _ended(self, seconds: float, command: str) -> tuple[int, str]:
        text = self._until(re.compile(rf"{_MARK} (\d+)\r?\n"), seconds, command)
        written, _, code = text.rpartition(_MARK)
        return int(code), written

    def _type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def _until(self, wanted: re.Pattern[str], seconds: float, command: str) -> str:
        end = time.monotonic() + seconds
        answered = 0
        while (found := wanted.search(self._read)) is None:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._own], [], [], left)[0]:
                raise TimeoutError(f"`{command}` did not end within {seconds:g} s; it wrote:\n{self._read}")
            self._read += _CONTROL.sub("", os.read(self._own, 65536).decode(errors="replace"))
            asked = _QUESTION.search(self._read)
            if asked is not None and asked.end() > answered:
                answered = asked.end()
                self._type("y\n")
        text, self._read = self._read[: found.end()], self._read[found.end() :]
        return text.replace("\r", "")


def _controlled() -> None:
    """Make the pseudo-terminal the shell's controlling one, so that Ctrl-C reaches what runs in it."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
