"""The native hook command beside the Python one, on mutated answer files, replies and flags: the same answer, bytes and files.

The native one is built with the sanitizers of addresses and of undefined behaviour, which end it at the first fault.
"""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from bus.shim import native
from bus.shim.answer import HookAnswer, pack_answer
from bus.shim.answer_file import (
    AnswerFile,
    EventLine,
    RedisServer,
    compile_shim,
    format_answers,
    hook_command,
)
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.live, pytest.mark.req("X-14", "X-06")]

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
FAULT = 99
"""The exit code of a program that a sanitizer has ended."""

CASES = [pytest.param(range(8), id="some"), pytest.param(range(200), id="many", marks=pytest.mark.slow)]

ANSWER = HookAnswer(3, b"the answer's stdout", b"and its stderr\n")
FALLBACK = HookAnswer(2, b"fallback out", b"fallback err\n")
PAYLOAD = b'{"tool_name":"Bash","tool_input":{"command":"ls"}}'
FLAG = b"fleethook-stop 1\nevent\tPreToolUse\t0\t7374\t6f70\nevent\tStop\t2\t\t6f70\t\n"

REDIS = b":1\r\n$15\r\n1700000000000-0\r\n$%d\r\n%b\r\n" % (len(pack_answer(ANSWER)), pack_answer(ANSWER))
STOPPED = b":1\r\n$15\r\n1700000000000-0\r\n$%d\r\n%b\r\n" % (len(raw := pack_answer(ANSWER, FLAG)), raw)
GATEWAY = b"HTTP/1.1 200 OK\r\nContent-Type: x\r\nContent-Length: %d\r\n\r\n%b" % (
    len(pack_answer(ANSWER)),
    pack_answer(ANSWER),
)
REFUSED = b'HTTP/1.1 400 Bad Request\r\ncontent-length: 34\r\n\r\n{"code":"token-invalid","hint":""}\n'

PIECES = (
    *(
        b"$-1\r\n",
        b"*2\r\n",
        b"*-1\r\n",
        b"$99999999999\r\n",
        b"$1_0\r\n",
        b"$ 3 \r\n",
        b"$-5\r\n",
        b":\r\n",
        b":1x\r\n",
        b"\r\n",
        b"+",
    ),
    *(
        b"-OOM command not allowed\r\n",
        b"-ERR it has exhausted all\r\n",
        b"-LOADING \xc3\xa4\r\n",
        b"-NOPERM\r\n",
        b"$0\r\n\r\n",
    ),
    *(b"FH1 ", b"FH2 ", b" 256", b" -1", b" +1", b"\n", b"\t", b"\x00", b"\xff", b" ", b"0", b"9" * 20),
    *(
        b'"code":"busy"',
        b'"code":"no-evaluator"',
        b"HTTP/1.1 503 X\r\n\r\n",
        b"content-length: 3\r\n",
        b"event",
        b"*",
        b"skip",
    ),
)


def mutated(base: bytes, chance: random.Random) -> bytes:
    """The bytes with some faults: cut, doubled, turned, taken away, put in."""
    raw = bytearray(base)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at, to = sorted((chance.randrange(len(raw) + 1), chance.randrange(len(raw) + 1)))
        match chance.randrange(6):
            case 0:
                raw[at:to] = b""
            case 1:
                raw[at:at] = raw[at:to]
            case 2 if at < len(raw):
                raw[at] = chance.randrange(256)
            case 3:
                del raw[at:]
            case _:
                raw[at:at] = chance.choice(PIECES)
    return bytes(raw)


class Seen(NamedTuple):
    """What one hook call left behind."""

    answer: HookAnswer
    sent: bytes
    """The bytes of its first connection, without what differs between any two calls."""
    files: dict[str, bytes]


def normal(raw: bytes) -> bytes:
    """Bytes of a call without ids, keys, times and numbers of processes, which differ between any two calls."""
    raw = re.sub(rb"e[0-9a-f]{32}", b"ID", raw)
    raw = re.sub(rb"reply:[0-9a-f]{32}", b"reply:KEY", raw)
    raw = re.sub(rb"(budget|patience)\r\n\$\d+\r\n\d+", rb"\1", raw)
    raw = re.sub(rb"Content-Length: \d+", b"Content-Length", raw)
    return re.sub(rb"\$\d+\r\n\d+\.\d{3}\r\n", b"SECONDS", raw)


class Place:
    """A folder with an answer file and a server beside it, which says the same to each connection and then closes it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.door = folder, folder / "s"
        self.script, self.pieces = REDIS, 1
        self.heard: list[bytes] = []
        self.ended: list[socket.socket] = []

    def answers(self, *, gateway: str = "", away: bool = False, deadline_ms: int = 2_000) -> bytes:
        """The answer file's bytes."""
        server = RedisServer(
            kind="unix",
            address=str(self.door) + ("-away" if away else ""),
            gateway=gateway,
            password="p" if gateway else "",
        )
        events = (
            EventLine(name="PreToolUse", deadline_ms=deadline_ms, fallback=FALLBACK, policy="deny"),
            EventLine(name="*", mode="publish", deadline_ms=deadline_ms),
        )
        spool = str(self.folder / "spool" / "waiting")
        return format_answers(
            AnswerFile(agent="claude", server=server, prefix="fh:x:{0}:", host="h", spool=spool, events=events)
        )

    def call(
        self, hook: str, answers: bytes, *, flag: bytes = b"", event: str = "PreToolUse", closed: bool = False
    ) -> Seen:
        """One hook call, with everything before it removed."""
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path != self.door:
                path.rmdir() if path.is_dir() else path.unlink()
        file = self.folder / "answers"
        file.write_bytes(answers)
        if flag:
            file.with_name("answers.stop").write_bytes(flag)
            os.utime(file.with_name("answers.stop"), (1, 1))
        lock = self.folder / "spool" / "waiting.drain.lock"  # of a drain that has failed, so that no drainer starts
        lock.parent.mkdir()
        lock.touch()
        os.utime(lock, (2**32, 2**32))
        self.heard.clear()
        words = hook_command(sys.executable, "claude", event, file, closed=closed, native=hook)
        environment = {
            "PATH": os.defpath,
            "ASAN_OPTIONS": f"detect_leaks=0:exitcode={FAULT}",
            "UBSAN_OPTIONS": "halt_on_error=1",
        }
        done = subprocess.run(
            words, input=PAYLOAD, capture_output=True, timeout=PATIENCE, check=False, env=environment, cwd=self.folder
        )
        assert done.returncode != FAULT, done.stderr.decode("utf-8", "replace")
        assert b"runtime error" not in done.stderr, done.stderr.decode("utf-8", "replace")
        with socket.socket(socket.AF_UNIX) as last:  # the server has one connection after the other
            last.connect(str(self.door))
            last.sendall(b"the end")
            wait_until(lambda: b"the end" in self.heard, "every connection was served")
        while self.ended:
            self.ended.pop().close()
        left = {
            str(path.relative_to(self.folder)): normal(path.read_bytes())
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.name not in {"answers", lock.name}
        }
        sent = normal(self.heard[0]) if self.heard[0] != b"the end" else b""
        return Seen(HookAnswer(done.returncode, done.stdout, done.stderr), sent, left)

    @contextmanager
    def server(self) -> Iterator[None]:
        """Answers the first request of each connection with the script, in pieces, and nothing after it."""
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(self.door))
            door.listen(64)
            thread = threading.Thread(target=self._serve, args=(door,))
            thread.start()
            try:
                yield
            finally:
                door.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _serve(self, door: socket.socket) -> None:
        while True:
            try:
                client, _ = door.accept()
            except OSError:
                return
            self.ended.append(client)
            with suppress(OSError):
                client.settimeout(PATIENCE)
                self.heard.append(client.recv(1 << 18))  # all of it: it was sent in one write
                size = max(1, len(self.script) // self.pieces)
                for at in range(0, len(self.script), size):
                    client.sendall(self.script[at : at + size])
                # It takes what a repeated call sends after the script: else the moment decides which error the call gets.
                client.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The native hook command with sanitizers."""
    if not native.compiler():
        pytest.skip("there is no C compiler")
    compile_shim()
    target = tmp_path_factory.mktemp("native") / native.NAME
    native.build(target, *SANITIZERS)
    return str(target)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "p"
    folder.mkdir()
    one = Place(folder)
    with one.server():
        yield one


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("door", ["redis", "stopped", "gateway", "refused"])
def test_mutated_replies(place: Place, checked: str, door: str, cases: range) -> None:
    """Whatever a server says, also in pieces and cut off."""
    base = {"redis": REDIS, "stopped": STOPPED, "gateway": GATEWAY, "refused": REFUSED}[door]
    answers = place.answers(gateway="h" if door in {"gateway", "refused"} else "", deadline_ms=2_000)
    for number in cases:
        chance = random.Random(f"{door} {number}")
        place.script, place.pieces = base if number == 0 else mutated(base, chance), chance.choice((1, 1, 3, 20))
        flag = FLAG if number % 5 == 4 else b""
        one, other = (place.call(hook, answers, flag=flag) for hook in ("", checked))
        assert one == other, (number, place.script)
        assert number or one.answer == (FALLBACK if door == "refused" else ANSWER)


@pytest.mark.parametrize("cases", CASES)
def test_mutated_answer_files(place: Place, checked: str, cases: range) -> None:
    """A file that is not certainly right is read by Python, so that its faults have one reader."""
    for number in cases:
        chance = random.Random(f"file {number}")
        base = place.answers(gateway=chance.choice(("", "", "h")))
        place.script = GATEWAY if b"gateway" in base else REDIS
        content = base if number == 0 else mutated(base, chance)
        event, closed = chance.choice(("PreToolUse", "PreToolUse", "Other")), chance.random() < 0.5
        one, other = (place.call(hook, content, event=event, closed=closed) for hook in ("", checked))
        assert one == other, (number, content)


@pytest.mark.parametrize("cases", CASES)
def test_mutated_flags_of_a_stop(place: Place, checked: str, cases: range) -> None:
    """The flag that denies while nobody can be asked; one that is damaged denies nothing."""
    answers = place.answers(away=True, deadline_ms=2_000)
    for number in cases:
        chance = random.Random(f"flag {number}")
        flag = FLAG if number == 0 else mutated(FLAG, chance)
        one, other = (place.call(hook, answers, flag=flag or b" ") for hook in ("", checked))
        assert one == other, (number, flag)
        assert number or one.answer == HookAnswer(0, b"st", b"op")
