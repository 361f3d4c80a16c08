"""Long work in front of a person: a bar on a terminal, and what an interrupted --follow says (issue 11, section 3)."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run
from tests.support.forked import PROGRAM, Fleethook
from tests.support.servers import Server
from tests.support.waiting import PATIENCE
from workers.cli.common import Context
from workers.cli.deliveries.bulk import explain_job_on_interrupt
from workers.delivery.filters import Filter
from workers.records.bulk_jobs import begin

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """A command in a terminal of 80 columns, read as it writes."""

    def __init__(self, *words: str, **variables: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
        environment |= {"TERM": "xterm", "COLUMNS": "80", **variables}
        self._ours, theirs = pty.openpty()
        streams: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        # A copy of a process that has everything imported would be ready before it could say what it waits for.
        start = partial(subprocess.Popen[bytes], [*PROGRAM, *words]) if words[0] == "up" else partial(Fleethook, words)
        self.process = start(**streams, env=environment, start_new_session=True)
        os.close(theirs)
        self.raw = ""

    def until(self, shown: str, seconds: float = 20.0) -> str:
        """Read until a text is on the screen, or until the end for an empty one; returns everything without colours."""
        end = time.monotonic() + seconds
        while not shown or shown not in self.text:
            assert time.monotonic() < end, self.text
            if not select.select([self._ours], [], [], 0.5)[0]:
                continue
            try:
                self.raw += os.read(self._ours, 65_536).decode("utf-8", "replace")
            except OSError:  # Linux: EIO at the end
                assert not shown, self.text
                break
        return self.text

    @property
    def text(self) -> str:
        """What was written, without colours and movements."""
        return _CONTROL.sub("", self.raw)

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextmanager
def on_screen(*words: str, **variables: str) -> Iterator[Screen]:
    """A command in a terminal, ended afterwards."""
    screen = Screen(*words, **variables)
    try:
        yield screen
    finally:
        screen.close()


def progressed(server: Server, keys: Keys, name: str, **fields: str | int) -> None:
    """Write a job's progress, as the worker that has it does."""

    async def work(connections: Connections) -> None:
        with connections.lease() as connection:
            flat = [part for pair in fields.items() for part in pair]
            await connection.exchange([("HSET", keys("job", name), *flat)])

    run(server.url, work)


@pytest.fixture
def job(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job of 400 deliveries that a worker has begun."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    name: str = run(server.url, lambda connections: begin(connections, keys, "redrive", Filter(reason="410"), 400))
    progressed(server, keys, name, state="running", looked=100, done=100)
    return name


def test_a_bar_shows_rate_and_time_left_and_a_job_outlives_its_watcher(server: Server, keys: Keys, job: str) -> None:
    """Ctrl-C says that the job goes on, how to look at it again and how to stop it; exit code 130."""
    with on_screen("jobs", "show", job[:5], "--follow") as screen:
        screen.until("100 of 400 deliveries")
        assert "━" in screen.text
        progressed(server, keys, job, done=150)
        screen.until("150 of 400 deliveries · ")
        assert re.search(r"150 of 400 deliveries · [\d.]+/(s|min) · .*left", screen.text)
        screen.process.send_signal(signal.SIGINT)
        said = screen.until("")
        assert screen.process.wait(PATIENCE) == 130
    assert f"job {job} goes on" in said
    assert f"  `fleethook jobs show {job} --follow` shows its progress" in said
    assert f"  `fleethook jobs stop {job}` stops it" in said
    listed = fleethook("jobs", "list", "--json").json
    assert (listed["state"], listed["done"], listed["total"]) == ("running", 150, 400)
    assert "150 of 400" in fleethook("jobs", "list").out


def test_a_bar_goes_away_when_the_job_is_done(server: Server, keys: Keys, job: str) -> None:
    with on_screen("jobs", "show", job, "--follow") as screen:
        screen.until("100 of 400 deliveries")
        progressed(server, keys, job, done=400, state="done")
        said = screen.until("")
        assert screen.process.wait(PATIENCE) == 0
    assert f"job {job}: redrive, done, 400 deliveries" in said
    assert screen.raw.rindex("\x1b[2K") < screen.raw.rindex("redrive, done"), "the bar's line is cleared"


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_bar_where_colours_are_not_wanted(server: Server, keys: Keys, job: str, variables: dict[str, str]) -> None:
    with on_screen("jobs", "show", job, "--follow", **variables) as screen:
        screen.until(f"job {job}: 100 of 400 deliveries")
        progressed(server, keys, job, done=400, state="done")
        screen.until("")
    assert "━" not in screen.text
    assert "\x1b" not in screen.raw


def test_work_that_this_command_does_waits_for_a_worker(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no chores worker runs, nobody goes on with an interrupted job until one does."""
    with pytest.raises(KeyboardInterrupt), explain_job_on_interrupt(Context(), "a1b2c3d4", here=True):
        raise KeyboardInterrupt
    said = capsys.readouterr().err
    assert "job a1b2c3d4 waits for a chores worker, which `fleethook up` starts" in said
    assert "`fleethook jobs stop a1b2c3d4` stops it" in said


def test_up_says_what_it_waits_for(tmp_path: Path) -> None:
    """The bar is gone when everything runs, and does not come back while it stops."""
    few = ("--evaluators=0", "--carriers=0", "--chores=0")
    with on_screen("up", *few, HOME=str(tmp_path), FLEETHOOK_HOME=str(tmp_path / "home")) as screen:
        said = screen.until("Ready in", 60)
        assert re.search(r"starting .*━.* waits for the server", said)
        assert re.search(r"starting .*━.* 0 of 1 process · waits for dispatcher\.1", said)
        screen.process.send_signal(signal.SIGINT)
        stopped = screen.until("", 30)[len(said) :]
        assert screen.process.wait(PATIENCE) == 0
    assert "Everything has stopped" in stopped
    assert "━" not in stopped
