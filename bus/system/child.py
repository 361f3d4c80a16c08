"""A child process that answers one question at a time over pipes, and is killed if it takes too long."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Final

from bus.errors import OverBudget

START_SECONDS: Final = 10.0
"""How many seconds a new process may take until it is ready, on a busy machine."""

_CHUNK: Final = 64 * 1024


class ChildProcess:
    """Starts at the first question, and again after it died. Any thread may ask; questions wait for each other.

    A message on its standard input or output has its length in four bytes before it. A new process sends one message when
    it is ready; it answers each question with messages.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._command, self._env = tuple(command), dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._buffer = bytearray()
        self._lock = threading.Lock()

    def ask(self, question: bytes, seconds: float) -> Generator[bytes]:
        """The messages of its answer, within `seconds` from when it is ready.

        The caller stops iterating at the last message, and closes the iterator. Raises OverBudget if the process or the
        time ends; messages yielded before count.
        """
        with self._lock:
            finished = False
            try:
                process = self._started()
                self._send(process, struct.pack(">I", len(question)) + question, until := time.monotonic() + seconds)
                while True:
                    try:
                        yield self._receive(process, until)
                    except GeneratorExit:
                        finished = True
                        raise
            except (OSError, ValueError) as error:
                raise OverBudget(f"it could not be asked: {type(error).__name__}") from error
            finally:
                if not finished:
                    self._end()

    def kill(self) -> None:
        """End the process; a caller that waits for its answer gets OverBudget."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        self.kill()
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._env,
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
            assert self._process.stdin is not None  # noqa: S101 - it was asked for
            os.set_blocking(self._process.stdin.fileno(), False)
        if not self._ready:
            self._receive(self._process, time.monotonic() + START_SECONDS)
            self._ready = True
        return self._process

    def _end(self) -> None:
        process, self._process, self._ready = self._process, None, False
        self._buffer.clear()
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _send(self, process: subprocess.Popen[bytes], data: bytes, until: float) -> None:
        assert process.stdin is not None  # noqa: S101 - it was asked for
        left = memoryview(data)
        while left:
            _wait(process.stdin.fileno(), select.POLLOUT, until)
            left = left[os.write(process.stdin.fileno(), left[:_CHUNK]) :]

    def _receive(self, process: subprocess.Popen[bytes], until: float) -> bytes:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        while len(self._buffer) < 4 or len(self._buffer) < 4 + (size := struct.unpack_from(">I", self._buffer)[0]):
            _wait(process.stdout.fileno(), select.POLLIN, until)
            data = os.read(process.stdout.fileno(), _CHUNK)
            if not data:
                raise OverBudget("it took more than it may")
            self._buffer += data
        message = bytes(self._buffer[4 : 4 + size])
        del self._buffer[: 4 + size]
        return message


def _wait(descriptor: int, event: int, until: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise OverBudget("it took too long")
