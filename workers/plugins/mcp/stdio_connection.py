"""One process of a plugin's MCP server, spoken to by lines of JSON over its standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from bus.secrets.redaction import redact_text
from workers.plugins.mcp.messages import MOST_LINE, Answer, ServerDown, clean, decoded, outcome_of
from workers.runtime.child_processes import ending_text

GRACE_SECONDS: Final = 5.0
"""How long a server has to answer a ping after a call took too long; a server that does not is killed."""
_STOP_SECONDS: Final = 2.0
_MOST_STRAY: Final = 1000
"""The most lines in a row that answer nothing: a server that writes more is killed."""
_MOST_UNWRITTEN: Final = 8 * 1024 * 1024
_UNTIL_WE_END: Final = '(read x < /dev/fd/$0; kill -9 0) > /dev/null 2>&1 & exec "$@"'
"""Runs a program, and a watcher beside it: when this process ends, also by a kill, the pipe ends and the group is killed."""
_ERROR_BYTES: Final = 16 * 1024
_ERROR_PAUSE: Final = 0.25


class StdioConnection:
    """A running server. It is used once: a new one takes its place after it ended."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], folder: str, on_line: Callable[[str], None]
    ) -> None:
        self._command, self._env, self._folder, self._on_line = tuple(command), dict(env), folder, on_line
        self._popen: subprocess.Popen[bytes] | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._pipes: list[asyncio.BaseTransport] = []
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._number, self._stray, self._killed = 0, 0, False
        self._tasks: list[asyncio.Task[None]] = []
        self._lifeline = -1
        self.ending = ""
        """Why it ended; empty while it runs."""
        self.tools_changed = False

    @property
    def pid(self) -> int:
        """Its process id; 0 before it is started."""
        return 0 if self._popen is None else self._popen.pid

    async def start(self) -> None:
        """Start the process; raises ServerDown."""
        popen = self._spawn(self._program())
        self._popen, loop = popen, asyncio.get_running_loop()
        readers = []
        for pipe in (popen.stdout, popen.stderr):
            reader = asyncio.StreamReader(limit=MOST_LINE)
            transport, _ = await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), pipe)
            self._pipes.append(transport)
            readers.append(reader)
        self._stdin = (await loop.connect_write_pipe(asyncio.BaseProtocol, popen.stdin))[0]
        self._tasks = [asyncio.create_task(self._read(readers[0])), asyncio.create_task(self._read_errors(readers[1]))]

    def _spawn(self, program: str) -> subprocess.Popen[bytes]:
        """Not by the loop: uvloop's processes inherit copies of their pipes, and the watcher would hold them open."""
        theirs, self._lifeline = os.pipe()
        try:
            return subprocess.Popen(
                ["/bin/sh", "-c", _UNTIL_WE_END, str(theirs), program, *self._command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=self._env,
                cwd=self._folder,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._end(f"it cannot be started: {getattr(error, 'strerror', None) or error}")
            raise ServerDown(self.ending) from error
        finally:
            os.close(theirs)

    def _program(self) -> str:
        """The path of the program: on the server's PATH, or from the folder that it starts in; raises ServerDown."""
        name = self._command[0]
        place = os.path.join(self._folder, name) if "/" in name else name
        found = shutil.which(place, path=self._env.get("PATH")) if name and "\0" not in name else None
        if found is None:
            self.ending = f"it cannot be started: there is no program {clean(name, 200)!r}"
            raise ServerDown(self.ending)
        return found

    async def request(self, method: str, params: Answer, seconds: float) -> Answer:
        """The result of a request; raises ServerDown if it ends or takes too long, and ServerRefuses for an error."""
        if self.ending or self._stdin is None:
            raise ServerDown(self.ending or "it is not started")
        self._number = number = self._number + 1
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return outcome_of(await asyncio.wait_for(future, seconds))
        except TimeoutError:
            self._given_up(number, method)
            raise ServerDown(f"it did not answer within {seconds:g} s") from None
        finally:
            self._waiting.pop(number, None)

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method})

    async def close(self, why: str = "it was stopped") -> None:
        """Let it end by itself when its input ends; after a moment it is killed with everything that it started."""
        if self._stdin is not None and self._popen is not None and not self.ending:
            self.ending = why
            self._stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._popen.wait, _STOP_SECONDS)
        self._end(why)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._popen is not None:
            await asyncio.to_thread(self._popen.wait)

    def _given_up(self, number: int, method: str) -> None:
        self._write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        if method != "ping" and not self.ending:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks.append(asyncio.create_task(self._check_alive()))

    async def _check_alive(self) -> None:
        try:
            await self.request("ping", {}, GRACE_SECONDS)
        except ServerDown:
            self._end("it was killed, because it did not answer")
        except Exception:  # noqa: BLE001  (a refused ping is an answer)
            return

    def _write(self, message: Answer) -> None:
        if self._stdin is None or self.ending:
            return
        if self._stdin.get_write_buffer_size() > _MOST_UNWRITTEN:
            self._end("it was killed, because it does not read what it is sent")
            return
        self._stdin.write(msgspec.json.encode(message) + b"\n")

    async def _read(self, lines: asyncio.StreamReader) -> None:
        while not self.ending:
            try:
                line = await lines.readline()
            except ValueError:
                self._end(f"it was killed, because it wrote a line of more than {MOST_LINE // 2**20} MiB")
                return
            if not line:
                self._end(await self._how_it_ended())
                return
            self._take(line)

    async def _how_it_ended(self) -> str:
        """Why there is no more output: it has ended, or it closed its output, which is no use either."""
        assert self._popen is not None  # noqa: S101 - it was started
        try:
            return ending_text(await asyncio.to_thread(self._popen.wait, _STOP_SECONDS))
        except subprocess.TimeoutExpired:
            return "it was killed, because it closed its output"

    def _take(self, line: bytes) -> None:
        message = decoded(line)
        number = message.get("id") if message is not None else None
        if message is not None and isinstance(number, int) and "method" not in message and number in self._waiting:
            self._stray = 0
            future = self._waiting[number]
            if not future.done():
                future.set_result(message)
            return
        self._stray += 1
        if self._stray > _MOST_STRAY:
            self._end(f"it was killed, because it wrote {_MOST_STRAY} lines that nobody asked for")
        elif message is not None and isinstance(method := message.get("method"), str):
            self._asked(method, message.get("id"))

    def _asked(self, method: str, number: object) -> None:
        """A request or a notification of the server: it may ping, and say that its tools changed."""
        if method == "notifications/tools/list_changed":
            self.tools_changed = True
        if number is None:
            return
        answers: dict[str, dict[str, Any]] = {"ping": {}, "roots/list": {"roots": []}}
        if method in answers:
            self._write({"jsonrpc": "2.0", "id": number, "result": answers[method]})
        else:
            error = {"code": -32601, "message": "this client has tools only"}
            self._write({"jsonrpc": "2.0", "id": number, "error": error})

    async def _read_errors(self, lines: asyncio.StreamReader) -> None:
        """Pass on what it logs, as much as fits; a server that logs more waits, and only it."""
        while data := await lines.read(_ERROR_BYTES):
            for line in data.decode("utf-8", "replace").splitlines():
                if line.strip():
                    self._on_line(redact_text(clean(line, 2000)))
            await asyncio.sleep(_ERROR_PAUSE if len(data) >= _ERROR_BYTES else 0.01)

    def _end(self, why: str) -> None:
        """Kill its group, and fail everything that waits for it."""
        self.ending = self.ending or why
        if self._popen is not None and not self._killed:
            self._killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        for pipe in (*self._pipes, *filter(None, [self._stdin])):
            pipe.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ServerDown(self.ending))
