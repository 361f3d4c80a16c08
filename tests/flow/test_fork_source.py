"""Workers of `fleethook up` as copies of its supervisor, which has everything imported."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.system.directories import Directories, directories
from tests.support.waiting import PATIENCE, wait_until
from workers.supervision.watchdog import SECONDS
from workers.supervisor import State, running

ROOT = Path(__file__).resolve().parents[2]
FLEETHOOK = (sys.executable, "-P", "-m", "workers")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers start as programs")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fork")


@pytest.fixture(scope="module")
def places(home: Path) -> Directories:
    return directories({"FLEETHOOK_HOME": str(home)})


@pytest.fixture(scope="module")
def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    own = {"FLEETHOOK_HOME": str(home), "PYTHONPATH": str(ROOT), "FLEETHOOK_TEST_CONFIRMS": "1"}
    return {**kept, **own, "FLEETHOOK_EVALUATORS": "2", "FLEETHOOK_CARRIERS": "1", "FLEETHOOK_GATEWAY_PORT": "0"}


@pytest.fixture(scope="module")
def up(home: Path, places: Directories, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (home / "output").open("wb") as output:
        process = subprocess.Popen([*FLEETHOOK, "up", "--no-echo"], env=environment, stdout=output, stderr=output)
    wait_until(lambda: state(places).ready, "everything is ready")
    yield process
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert not (home / "output").read_bytes()


def state(places: Directories) -> State:
    return running(places) or State(0, 0.0, 0, ready=False, children=())


def pid_of(places: Directories, kind: str, number: int = 1) -> int:
    return next(child.pid for child in state(places).children if child.name == f"{kind}.{number}")


def end_second(places: Directories) -> None:
    """End the second evaluator, should it run, as it ends by itself after a while without requests."""
    if pid := pid_of(places, "evaluator", 2):
        wait_until(lambda: catches_term(pid), "it has started")
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: pid_of(places, "evaluator", 2) == 0, "it has ended")


def catches_term(pid: int) -> bool:
    """Whether a process ends in order at SIGTERM; one that has only just started is killed by it."""
    (caught,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")]
    return bool(int(caught.split()[1], 16) >> signal.SIGTERM - 1 & 1)


def decision(environment: dict[str, str], command: str) -> str:
    """The verdict on a shell command."""
    event = {"type": "tool:pre_execute", "tool": "bash", "input": {"command": command}}
    asked = subprocess.run(
        [*FLEETHOOK, "request", "-"],
        input=json.dumps(event),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(asked.stdout)["decision"])


def stat(pid: int) -> tuple[str, int, int]:
    """The name, the parent and the session of a process."""
    name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    fields = rest.split()
    return name, int(fields[1]), int(fields[3])


def open_files(pid: int) -> set[str]:
    """What the descriptors of a process stand for; those of the kernel's own kinds all have the same names."""
    folder = Path(f"/proc/{pid}/fd")
    names = {os.readlink(folder / number) for number in os.listdir(folder)}
    return {name for name in names if name != "/dev/null" and not name.startswith("anon_inode:")}


@pytest.mark.req("X-14")
def test_workers_are_copies_with_a_session_an_output_and_an_environment_of_their_own(
    up: subprocess.Popen[bytes], places: Directories
) -> None:
    running = [child for child in state(places).children if child.pid]
    assert [child.name for child in running] == ["evaluator.1", "dispatcher.1"], "the others start on demand"
    for child in running:
        kind = child.name.partition(".")[0]
        assert stat(child.pid) == (f"fh-{kind}", up.pid, child.pid)
        assert b"worker\0" not in Path(f"/proc/{child.pid}/cmdline").read_bytes()
        files = [os.readlink(f"/proc/{child.pid}/fd/{number}") for number in (0, 1, 2)]
        assert files[0] == "/dev/null"
        assert files[1] == files[2]
        assert files[1].startswith("pipe:")
    outputs = [os.readlink(f"/proc/{child.pid}/fd/1") for child in running]
    assert len(set(outputs)) == len(outputs)
    for child in running:
        common = open_files(up.pid) & open_files(child.pid) - set(outputs)
        assert [name.partition(":")[0] for name in common] == ["pipe"], "of the supervisor's files only the lifeline"


@pytest.mark.req("X-14")
def test_workers_share_most_of_their_memory(up: subprocess.Popen[bytes], places: Directories) -> None:
    evaluator = pid_of(places, "evaluator")
    sizes = dict(line.split(":") for line in Path(f"/proc/{evaluator}/smaps_rollup").read_text().splitlines()[1:])
    rss, pss = (int(sizes[name].split()[0]) for name in ("Rss", "Pss"))
    assert pss < rss / 2


@pytest.mark.req("B-05", "X-14")
def test_a_killed_worker_gives_verdicts_again(
    up: subprocess.Popen[bytes], places: Directories, environment: dict[str, str]
) -> None:
    before = pid_of(places, "evaluator")
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: pid_of(places, "evaluator") not in {0, before} and state(places).ready, "it is back")
    assert stat(pid_of(places, "evaluator"))[:2] == ("fh-evaluator", up.pid)
    assert "evaluator.1 | ended by SIGKILL; starting it again at once" in log(places)
    assert decision(environment, "rm -rf /") == "deny"


@pytest.mark.req("B-05", "X-14")
def test_where_the_only_evaluator_hangs_another_one_answers_in_time(
    up: subprocess.Popen[bytes], places: Directories, environment: dict[str, str]
) -> None:
    """It starts without a request too, before hook commands give up on evaluators; a request gets its right verdict."""
    hangs = pid_of(places, "evaluator")
    end_second(places)  # a busy machine may have needed it
    os.kill(hangs, signal.SIGSTOP)
    try:
        assert decision(environment, "rm -rf /") == "deny"
        assert stat(pid_of(places, "evaluator", 2))[:2] == ("fh-evaluator", up.pid)
    finally:
        os.kill(hangs, signal.SIGCONT)
    assert decision(environment, "rm -rf /") == "deny"
    end_second(places)
    ended = "evaluator.2 | ended, as there was no work; it is started when there is some"
    wait_until(lambda: ended in log(places), "the log says so")  # it is written after the state
    assert state(places).ready
    os.kill(hangs, signal.SIGSTOP)
    try:
        wait_until(lambda: pid_of(places, "evaluator", 2) != 0, "another one has started before any request came")
    finally:
        os.kill(hangs, signal.SIGCONT)


@pytest.mark.req("B-05", "X-14")
def test_where_the_dispatcher_hangs_too_the_supervisor_starts_another_evaluator_by_itself(
    up: subprocess.Popen[bytes], places: Directories, environment: dict[str, str]
) -> None:
    """Nobody is left who could say that one is needed. The supervisor is told by the kernel, and never looks by itself."""
    end_second(places)
    hang = [pid_of(places, "dispatcher"), pid_of(places, "evaluator")]
    for pid in hang:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: pid_of(places, "evaluator", 2) != 0, "another one has started before any request came")
        assert decision(environment, "rm -rf /") == "deny"
        assert f"evaluator.1 | has not responded for {SECONDS:g} s" in log(places)
    finally:
        for pid in hang:
            os.kill(pid, signal.SIGCONT)

    def respond() -> bool:
        return all(f"{name} | responds again" in log(places) for name in ("evaluator.1", "dispatcher.1"))

    wait_until(respond, "the log says so")


@pytest.mark.req("B-05", "X-14")
def test_what_was_in_a_killed_process_counts_as_dead_when_another_one_is_ready(
    up: subprocess.Popen[bytes], places: Directories, environment: dict[str, str]
) -> None:
    """The dispatcher's process has the host worker and the gateway in it; their heartbeats would last for two seconds."""
    before = pid_of(places, "dispatcher")
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: pid_of(places, "dispatcher") not in {0, before} and state(places).ready, "it is back")
    status = subprocess.run([*FLEETHOOK, "status", "--json"], env=environment, capture_output=True, check=True)
    roles = {role["role"]: role["who"] for role in json.loads(status.stdout)["roles"]}
    for kind in ("dispatcher", "host", "gateway"):
        (name,) = roles[kind]
        assert name.split("-")[-2] == str(pid_of(places, "dispatcher"))


@pytest.mark.req("B-03", "B-05", "X-14")
def test_a_carrier_starts_when_there_is_work_and_again_after_a_kill(
    up: subprocess.Popen[bytes], home: Path, places: Directories, environment: dict[str, str]
) -> None:
    """What a killed one had begun is begun again; status, doctor and the probe of a container say that none has to run."""
    out = home / "out"
    assert pid_of(places, "carrier") == 0

    def fleethook(*words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [*FLEETHOOK, *words], input=stdin, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert "starts one when there is work" in fleethook("worker", "--health", "carrier")
    roles = {role["role"]: role["health"] for role in json.loads(fleethook("status", "--json"))["roles"]}
    assert (roles["carrier"], roles["chores"], roles["evaluator"]) == ("idle", "idle", "ok")
    with (places.config / "fleethook.yaml").open("a") as file:
        command = f"echo begun >> {out}; until [ -e {out}.go ]; do sleep 0.05; done; echo done >> {out}"
        file.write(f"\nhooks:\n  - {{id: slow, on: 'turn:end', blocking: false, timeout: 60, command: '{command}'}}\n")
    fleethook("publish", stdin=json.dumps({"type": "turn:end"}))
    wait_until(lambda: out.exists() and out.read_text() == "begun\n", "a carrier has started for it")
    first = pid_of(places, "carrier")
    assert stat(first)[:2] == ("fh-carrier", up.pid)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: out.read_text().count("begun") == 2, "another carries it on")
    assert pid_of(places, "carrier") not in {0, first}
    Path(f"{out}.go").touch()
    wait_until(lambda: "done" in out.read_text(), "it is delivered")


def log(places: Directories) -> str:
    return (places.log_dir / "fleethook.log").read_text("utf-8")


def get(places: Directories, path: str) -> int:
    """The status of a call of the gateway through its unix socket."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(PATIENCE)
        caller.connect(str(places.gateway_socket))
        caller.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return int(caller.makefile("rb").readline().split()[1])


@pytest.mark.req("X-14")
def test_the_gateway_is_imported_for_its_first_caller(
    up: subprocess.Popen[bytes], places: Directories, environment: dict[str, str]
) -> None:
    """It takes over the sockets, the lock and the heartbeat, and gives them back when the process ends."""
    pid = pid_of(places, "dispatcher")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(places, "dispatcher") not in (0, pid), "another dispatcher runs")
    wait_until(lambda: places.gateway_file.exists() and gateways(environment) == 1, "its gateway listens")
    pid = pid_of(places, "dispatcher")
    library = "/httptools/"  # only the gateway uses it
    assert library not in Path(f"/proc/{pid}/maps").read_text()
    assert [get(places, path) for path in ("/readyz", "/livez")] == [200, 200]
    assert library in Path(f"/proc/{pid}/maps").read_text()
    assert gateways(environment) == 1
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: pid_of(places, "dispatcher") not in (0, pid), "another dispatcher runs")
    wait_until(lambda: places.gateway_file.exists() and get(places, "/readyz") == 200, "its gateway answers")
    assert up.poll() is None


def gateways(environment: dict[str, str]) -> int:
    """How many gateways are alive by `status`."""
    command = [*FLEETHOOK, "status", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    roles = json.loads(done.stdout).get("roles", [])
    return sum(role["alive"] for role in roles if role["role"] == "gateway")
