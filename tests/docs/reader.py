"""A reader of the pages: a fresh home, a terminal, and a running fleet, as the README's first lines start it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from bus import Bus, Event
from bus.config.settings import Settings
from bus.hooksets.files_in_force import file_in_force
from bus.hooksets.published import current_version
from bus.system.directories import directories
from bus.wire.connections import Connections
from bus.wire.embedded_server import bus_url
from bus.wire.keys import Keys
from tests.docs.blocks import ROOT, Block, Command, commands
from tests.docs.terminal import Terminal
from tests.support.forked import Snippet
from tests.support.quick_program import quick_program
from tests.support.waiting import until, wait_until

UP = "fleethook up"
GUARDED = ("README.md", "docs/guards.md", "docs/python.md")
"""Pages whose reader has the guards that the first `up` switches on; on the others each command is a second faster."""

_SECONDS = 30.0
_PUBLISHES = re.compile(r"fleethook (hooks (apply|rollback)|guards publish)")
_EDITS = re.compile(r"fleethook plugins (add|remove|enable|disable)\b")
_USER_FILE = ".config/fleethook/fleethook.yaml"


class Reader:
    """Somebody who does what the pages say, page after page, beside one fleet that runs all the time."""

    def __init__(self, home: Path, quick: Path) -> None:
        """`quick`: the folder of a program `fleethook` that starts at once (tests/support/quick_program.py)."""
        self.home, self._quick = home, quick
        scripts = Path(sys.executable).parent
        self.env = {"HOME": str(home), "PATH": f"{scripts}:{os.environ['PATH']}", "LANG": "C.UTF-8",
                    "FLEETHOOK_TEST_CONFIRMS": "1"}  # fmt: skip
        few = {"FLEETHOOK_EVALUATORS": "1", "FLEETHOOK_CARRIERS": "1"}  # one reader needs no more
        self._up = Terminal({**self.env, **few}, home)
        try:
            self._up.start(UP, "Ready in ", 3 * _SECONDS)
            with mock.patch.dict(os.environ, self.env):  # the folders of this home
                self._url = bus_url(Settings(), "admin", directories(create=False))
            self._user_file = (home / _USER_FILE).read_text(encoding="utf-8")
        except BaseException:
            self._up.close()
            raise

    def read(self, page: str, blocks: list[Block]) -> None:
        """Do what a page says, from its first block to its last, in a new folder that has the repository's examples."""
        folder = self._fresh(page)
        path = self.env["PATH"] if page == "README.md" else f"{self._quick}:{self.env['PATH']}"
        terminal = Terminal({**self.env, "PATH": path}, folder)
        others: dict[str, Terminal] = {}
        try:
            for block in blocks:
                if block.file:
                    self._save(block, folder)
                if block.language == "python" and not (block.file or block.not_run):
                    self._python(block, folder)
                if block.language == "console" and not block.not_run:
                    *typed, last = commands(block)
                    for command in typed:
                        self._run(terminal, block, command, 0)
                    if not block.keeps_running:
                        self._run(terminal, block, last, block.exit_code)
                    elif last.line != UP:
                        others[block.place] = Terminal(self.env, folder)
                        others[block.place].start(last.line, "".join(last.shown[:1]).partition("…")[0], _SECONDS)
            if any("hooks apply" in block.text or "guards publish" in block.text for block in blocks):
                # The reader of the next page has published nothing.
                (folder / "empty.yaml").write_text("version: 1\n", encoding="utf-8")
                terminal.run("fleethook hooks apply empty.yaml", _SECONDS)
            for place, other in others.items():
                _, out = other.interrupt(_SECONDS)
                assert "Traceback" not in out, f"{place}:\n{out}"
        finally:
            for one in (terminal, *others.values()):
                one.close()

    def end(self) -> None:
        """Ctrl-C in the first terminal: everything that `fleethook up` started ends."""
        try:
            code, out = self._up.interrupt(_SECONDS)
            assert code == 0, out
        finally:
            self._up.close()

    def _fresh(self, page: str) -> Path:
        """Take away what the page before left, but for what the running fleet has of its own."""
        for path in self.home.iterdir():
            if path.name not in {".config", ".local"}:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        text = self._user_file if page in GUARDED else "version: 1\n"
        (self.home / _USER_FILE).write_text(text, encoding="utf-8")
        folder = self.home / Path(page).stem.lower()
        folder.mkdir()
        for name in ("examples", "docker"):  # copies: what a page imports from them belongs to this folder's project
            shutil.copytree(ROOT / name, folder / name)
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        self._wait_until_in_force()
        return folder

    def _run(self, terminal: Terminal, block: Block, command: Command, exit_code: int) -> None:
        code, out = terminal.run(command.line, _SECONDS)
        _compare(block, command, out)
        assert code == exit_code, f"{block.place}: `{command.line}` ended with {code}:\n{out}"
        if _PUBLISHES.search(command.line):
            self._wait_until_in_force()
        if _EDITS.search(command.line):  # the version covers the plugins' own files, too
            _, listed = terminal.run("fleethook hooks list", _SECONDS)
            asyncio.run(_in_force(self._url, *re.findall(r"\buser@\w+", listed)))

    def _save(self, block: Block, folder: Path) -> None:
        path = self.home / block.file[2:] if block.file.startswith("~/") else folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        if block.text.startswith("#!"):
            path.chmod(0o755)
        if path == self.home / _USER_FILE:
            self._wait_until_in_force()

    def _wait_until_in_force(self) -> None:
        """Return when the evaluators have the reader's own file and the published set as they are now."""
        own = file_in_force(self.home / _USER_FILE, "user", None).version
        asyncio.run(_in_force(self._url, f"user@{own}"))

    def _python(self, block: Block, folder: Path) -> None:
        with Snippet(
            block.text,
            cwd=folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as program:
            said, _ = program.communicate(timeout=_SECONDS)
        assert program.returncode == block.exit_code, f"{block.place}:\n{said.decode()}"


async def _in_force(url: str, *wanted: str) -> None:
    """Return when three verdicts in a row name these versions and the newest published one: a person types no faster.

    It asks from this process: each command of its own would take half a second.
    """
    connections, keys, bus = Connections(url), Keys(Settings().namespace), Bus(url)
    published = await current_version(connections, keys)
    names = {*wanted, *([f"fleet@{published}"] if published else [])}

    async def is_in_force() -> bool:
        event = Event(type="notification", source="generic", host=socket.gethostname())
        verdicts = [await bus.request(event) for _ in range(3)]
        return all(names <= set(verdict.version.split()) for verdict in verdicts)

    try:
        await until(is_in_force, f"every evaluator has {' '.join(sorted(names))}")
    finally:
        await bus.close()
        await connections.close()


def _compare(block: Block, command: Command, out: str) -> None:
    """See that the lines that the page shows came, in their order; `…` stands for anything."""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    at = 0
    for shown in command.shown:
        wanted = re.compile(".*".join(re.escape(part) for part in " ".join(shown.split()).split("…")))
        while at < len(lines) and not wanted.fullmatch(lines[at]):
            at += 1
        assert at < len(lines), f"{block.place}: `{command.line}` does not write {shown!r}, but:\n{out}"
        at += 1


@contextmanager
def reader() -> Iterator[Reader]:
    """A reader with a fleet; both are gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="fleethook-docs-"))
    try:
        with quick_program() as quick:
            one = Reader(home, quick)
            yield one
            one.end()
        wait_until(lambda: not list(home.glob(".local/state/fleethook/*.pid")), "the fleet has ended")
    finally:
        shutil.rmtree(home, ignore_errors=True)
