"""`fleethook up` as a real process with real children: restarts, the order of the end, and that nothing outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bus.config.settings import Settings
from bus.system.directories import Directories, directories
from bus.system.locks import listener, own
from tests.support.forked import Snippet
from tests.support.waiting import PATIENCE, until, wait_until
from workers.runtime.child_processes import Pauses, ProcessSpec, Supervisor
from workers.supervisor import Log, State, detach, down, light, process_specs, running

ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import os, signal, socket, sys
from urllib.parse import urlsplit
from workers.runtime.lifeline import die_with_parent
name = sys.argv[1]
assert die_with_parent(grace=0.2) and "FLEETHOOK_LIFELINE" not in os.environ
def say(text):  # in one write: the fork has the same pipe
    os.write(1, text.encode() + b"\\n")
url = urlsplit(os.environ["FLEETHOOK_REDIS_URL"])
def ping():  # it connects only now, since the server may be away when it starts
    with socket.socket(socket.AF_UNIX) as server:  # a client of the program's own would be imported for too long
        server.connect(url.path)
        answers = server.makefile("rb")
        if url.username:
            server.sendall(f"AUTH {url.username} {url.password}\\r\\n".encode())
            assert answers.readline() == b"+OK\\r\\n"
        server.sendall(b"PING\\r\\n")
        return answers.readline() == b"+PONG\\r\\n"
def stop(number, frame):
    say(f"{name} drained, the server answers {ping()}")
    sys.exit(0)
if name == "forking":  # as RQ does for each job
    if os.fork() == 0:
        say(f"forked {os.getpid()}")
        while True:
            signal.pause()
signal.signal(signal.SIGTERM, signal.SIG_IGN if name == "stubborn" else stop)
say(f"fleethook {name} ready")
while True:
    signal.pause()
"""

UP = """
import asyncio, sys
from bus.config.settings import Settings
from bus.system.directories import directories
from bus.errors import FleethookError
from workers.runtime.child_processes import ProcessSpec
from workers.runtime.lifeline import stop_event
from workers.supervisor import up
child, *names = sys.argv[1:]
specs = [ProcessSpec(name, (sys.executable, child, name), 2 if name == "evaluator" else 1) for name in names]
async def main():
    stop = stop_event()
    def line(name, text): print(f"{name} | {text}", flush=True)
    def ready(name, waiting): print(f"ready {name} {waiting}", flush=True)
    return await up(Settings(), directories(), line, ready, stop, specs=specs, drain=1.0)
try:
    sys.exit(asyncio.run(main()))
except FleethookError as error:
    sys.exit(str(error))
"""


class Up:
    """One `up` in a process of its own, its output in a file."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.output = folder / f"output-{len(list(folder.glob('output-*')))}"
        (folder / "child.py").write_text(CHILD)
        self.arguments = [str(folder / "child.py"), *names]
        self.argv = [sys.executable, "-c", UP, *self.arguments]
        """What starts the same process without a fork."""
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> Up:
        with self.output.open("wb") as output:
            self.popen = Snippet(UP, *self.arguments, stdout=output, stderr=output)
        return self

    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def ready(self) -> None:
        wait_until(lambda: any(line.startswith("ready") and line.endswith(" 0") for line in self.lines()), "all ready")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.popen is not None
        self.popen.send_signal(number)
        return self.popen.wait(PATIENCE)


@pytest.fixture
def places() -> Directories:
    return directories()


@pytest.fixture
def make(tmp_path: Path, places: Directories, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Up]]:
    """A maker of ups, all of which are gone afterwards."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made: list[Up] = []

    def one(*names: str) -> Up:
        made.append(Up(tmp_path, *names))
        return made[-1]

    yield one
    for up in made:
        if up.popen is not None and up.popen.poll() is None:
            up.end(signal.SIGKILL)
    wait_until(lambda: listener(places.socket) is None, "no server is left behind")


@pytest.fixture
def up(make: Callable[..., Up]) -> Up:
    return make("evaluator", "dispatcher").start()


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    try:
        os.kill(pid, 0)
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # no /proc here, or it ended just now
        return sys.platform != "linux"


def state_of(places: Directories) -> State:
    found = running(places)
    assert found is not None
    return found


@pytest.mark.req("B-05")
def test_a_killed_child_and_a_killed_server_are_started_again(up: Up, places: Directories) -> None:
    up.ready()
    before = {child.name: child for child in state_of(places).children}
    assert list(before) == ["evaluator.1", "evaluator.2", "dispatcher.1"]

    os.kill(before["evaluator.2"].pid, signal.SIGKILL)
    os.kill(state_of(places).server, signal.SIGKILL)

    def back() -> bool:
        state = state_of(places)
        after = {child.name: child for child in state.children}
        fresh = after["evaluator.2"].restarts == 1 and after["evaluator.2"].pid != before["evaluator.2"].pid
        return fresh and state.ready and listener(places.socket) == state.server

    wait_until(back, "both run again")
    after = {child.name: child for child in state_of(places).children}
    assert after["evaluator.1"] == before["evaluator.1"], "the others were left alone"
    assert "evaluator.2 | ended by SIGKILL; starting it again at once" in up.lines()
    assert "server | ended by SIGKILL; starting it again at once" in up.lines()
    assert up.end() == 0


@pytest.mark.req("B-05")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_children_end_before_the_server_does(number: signal.Signals, up: Up, places: Directories) -> None:
    up.ready()
    state = state_of(places)
    assert up.end(number) == 0
    drained = sorted(line for line in up.lines() if "drained" in line)
    assert drained == [
        "dispatcher.1 | dispatcher drained, the server answers True",
        "evaluator.1 | evaluator drained, the server answers True",
        "evaluator.2 | evaluator drained, the server answers True",
    ]
    assert not [pid for pid in (state.server, *(child.pid for child in state.children)) if alive(pid)]
    assert running(places) is None
    assert not places.pid_file.exists()
    assert not [line for line in up.lines() if "starting it again" in line]


@pytest.mark.req("B-05")
def test_nothing_outlives_a_supervisor_that_was_killed(make: Callable[..., Up], places: Directories) -> None:
    one = make("evaluator", "stubborn", "forking").start()
    one.ready()
    wait_until(lambda: any("| forked" in line for line in one.lines()), "the fork runs")
    forked = next(int(line.split()[-1]) for line in one.lines() if "| forked" in line)
    state = state_of(places)
    pids = [forked, *(child.pid for child in state.children)]
    assert all(alive(pid) for pid in pids)

    one.end(signal.SIGKILL)
    wait_until(lambda: not any(alive(pid) for pid in pids), "the children are gone")
    if sys.platform == "linux":
        wait_until(lambda: not alive(state.server), "the server is gone")
    assert running(places) is None

    again = make("evaluator").start()
    again.ready()
    assert again.end() == 0


def test_a_second_up_is_refused_in_words(up: Up, make: Callable[..., Up], places: Directories) -> None:
    up.ready()
    before = state_of(places)
    second = make("evaluator").start()
    assert second.popen is not None
    assert second.popen.wait(PATIENCE) == 1
    assert up.popen is not None
    assert second.lines() == [
        f"`fleethook up` belongs to process {up.popen.pid}, which runs; `fleethook down` stops it"
    ]
    assert state_of(places) == before


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(),
    reason="only Linux has /proc with environments",
)
def test_the_url_stands_in_the_environment_and_in_no_command_line(up: Up, places: Directories) -> None:
    up.ready()
    state = state_of(places)
    child = Path(f"/proc/{state.children[0].pid}")
    environment = child.joinpath("environ").read_bytes().split(b"\0")
    (url,) = [one.partition(b"=")[2] for one in environment if one.startswith(b"FLEETHOOK_REDIS_URL=")]
    password = url.partition(b"fleethook-worker:")[2].partition(b"@")[0]
    assert len(password) == 48
    for pid in (state.pid, state.server, *(child.pid for child in state.children)):
        assert password not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert password not in places.pid_file.read_bytes()
    assert places.pid_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.req("B-05")
def test_detached_and_down(make: Callable[..., Up], tmp_path: Path, places: Directories) -> None:
    assert down(places) is False
    pid = detach(make("evaluator", "stubborn").argv, tmp_path / "log")
    try:
        wait_until(lambda: (state := running(places)) and state.ready, "all ready")
        state = state_of(places)
        assert state.pid == pid
        assert os.getsid(pid) != os.getsid(0)
        assert down(places) is True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not [pid for pid in (state.server, *(child.pid for child in state.children)) if alive(pid)]
    said = (tmp_path / "log").read_text()
    assert "stubborn.1 | did not end within 1 s: killed" in said
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


async def supervised(argv: tuple[str, ...], until: str) -> list[str]:
    """The lines of one process up to the one with `until` in it, and what came of stopping it then."""
    lines: list[str] = []
    stop = asyncio.Event()

    def line(name: str, text: str) -> None:
        lines.append(text)
        if until in text:
            stop.set()

    await asyncio.wait_for(Supervisor([ProcessSpec("it", argv)], on_line=line, drain=0.2).run(stop), PATIENCE)
    return lines


async def test_lines_are_whole_readable_and_without_secrets() -> None:
    program = (
        "import os;"
        "os.write(1, b'one\\ntw'); os.write(2, b'o\\n\\xff\\n'); os.write(1, b'x' * 100_000 + b'\\n');"
        "os.write(1, b'redis://me:hunter2hunter2@host:1 no newline at the end')"
    )
    lines = await supervised((sys.executable, "-c", program), "starting it again")
    assert lines[:3] == ["one", "two", "\N{REPLACEMENT CHARACTER}"]
    assert all(len(line) <= 8192 for line in lines)
    assert lines[-2].endswith("no newline at the end")
    assert "hunter2" not in lines[-2]
    assert lines[-1] == "ended with exit code 0; starting it again at once"


async def test_a_program_that_does_not_exist_is_said_and_tried_again() -> None:
    lines = await supervised(("/nowhere/program",), "in 0.1 s")
    assert len(lines) == 2
    assert "could not be started" in lines[0]
    assert "/nowhere/program" in lines[0]


@pytest.mark.req("X-14")
async def test_a_process_on_demand_starts_when_a_line_needs_it_and_rests_after_it_had_no_work(tmp_path: Path) -> None:
    """Nobody waits for it at the start. A kill is no rest: it is started again at once."""
    said: list[tuple[str, str]] = []
    ask, stop = tmp_path / "ask", asyncio.Event()
    asker = f"import os, time\nwhile not os.path.exists({str(ask)!r}): time.sleep(0.01)\n"
    asker += "print('fleethook dispatcher ready')\nprint('fleethook needs carrier')\n" * 2 + "time.sleep(600)"
    work = f"import os, signal\nn = len(os.listdir({str(tmp_path)!r}))\nopen({str(tmp_path)!r} + f'/run{{n}}', 'w')\n"
    work += "print('fleethook carrier ready', flush=True)\nif n == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
    specs = [
        ProcessSpec("dispatcher", (sys.executable, "-uc", asker)),
        ProcessSpec("carrier", (sys.executable, "-uc", work), 1, on_demand=True),
    ]
    supervisor = Supervisor(specs, on_line=lambda *line: said.append(line))
    running = asyncio.create_task(supervisor.run(stop))

    async def rests() -> bool:
        return ("carrier.1", "ended, as there was no work; it is started when there is some") in said

    assert [(one.name, one.pid, one.ready) for one in supervisor.children if one.name == "carrier.1"] == [
        ("carrier.1", 0, True)
    ]
    ask.touch()
    await until(rests, "it had no work")
    assert ("carrier.1", "ended by SIGKILL; starting it again at once") in said
    assert not [line for line in said if "needs" in line[1]]
    assert supervisor.waiting == 0
    stop.set()
    await running


async def test_what_holds_the_pipe_after_the_process_does_not_keep_us() -> None:
    lines = await supervised(("/bin/sh", "-c", "sleep 60 & echo $!"), "ended with exit code 0")
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(lines[0]), signal.SIGKILL)


async def test_a_cancelled_supervisor_leaves_nobody() -> None:
    started = asyncio.Event()
    pids: list[int] = []

    def line(name: str, text: str) -> None:
        pids.append(int(text))
        started.set()

    argv = (sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    task = asyncio.create_task(Supervisor([ProcessSpec("it", argv, 2)], on_line=line).run(asyncio.Event()))
    await asyncio.wait_for(started.wait(), PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not [pid for pid in pids if alive(pid)]


@pytest.mark.req("B-05")
def test_the_record_of_a_killed_up_is_not_taken_for_that_of_the_next_one(tmp_path: Path) -> None:
    """Otherwise `up --detach` would say that the next one is ready before it is."""
    places = directories({"FLEETHOOK_HOME": str(tmp_path)})
    places.pid_file.parent.mkdir(parents=True, exist_ok=True)
    left = State(os.getpid() + 1, 1.0, 7, ready=True, children=())
    places.pid_file.write_bytes(msgspec.json.encode(left))
    held = own(places.pid_file.with_suffix(".lock"), "`fleethook up`")
    try:
        assert running(places) == State(os.getpid(), 0.0, 0, ready=False, children=())
    finally:
        held.release()


def test_pauses_double_up_to_ten_seconds_and_begin_anew_after_a_steady_run() -> None:
    pauses = Pauses()
    assert [round(pauses.after(0.5), 1) for _ in range(10)] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert pauses.after(31) == 0.0
    assert pauses.after(0.5) == 0.1


def test_the_processes_are_the_procfiles_in_the_numbers_that_are_set() -> None:
    specs = process_specs(Settings(evaluators=3, carriers=0, chores=1))
    assert [(spec.name, spec.count) for spec in specs] == [
        ("evaluator", 3),
        ("dispatcher", 1),
        ("host", 1),
        ("chores", 1),
        ("gateway", 1),
    ]
    assert specs[0].argv == (sys.executable, "-P", "-m", "workers.cli", "worker", "evaluator")


def test_a_light_up_has_one_evaluator_at_first_and_the_rest_in_the_dispatchers_process() -> None:
    settings = Settings(evaluators=3, carriers=2)
    specs = light(process_specs(settings), settings)
    shown = [(spec.name, spec.first, spec.count, spec.on_demand, spec.argv[5:]) for spec in specs]
    assert shown == [
        ("evaluator", 1, 1, False, ("evaluator",)),
        ("evaluator", 2, 2, True, ("evaluator", "--most-idle", "120")),
        ("dispatcher", 1, 1, False, ("dispatcher", "--also", "host", "--also", "gateway")),
        ("carrier", 1, 2, True, ("carrier",)),
        ("chores", 1, 1, True, ("chores",)),
    ]
    for_others = Settings(gateway_host="10.0.0.7")
    specs = light(process_specs(for_others), for_others)
    assert [spec.argv[5:] for spec in specs if spec.name in {"dispatcher", "gateway"}] == [
        ("dispatcher", "--also", "host"),
        ("gateway",),
    ]


def test_a_log_is_cut_into_two_files_at_most(tmp_path: Path) -> None:
    log = Log(tmp_path / "up.log", limit=1000)
    for number in range(100):
        log("evaluator.1", f"line {number}")
    log.close()
    old, new = (tmp_path / "up.log.1").read_text(), (tmp_path / "up.log").read_text()
    assert 1000 < len(old) < 1100
    last = (old + new).splitlines()[-1]
    assert last.endswith(" evaluator.1 | line 99")
    assert sorted(path.name for path in tmp_path.glob("up.log*")) == ["up.log", "up.log.1"]
