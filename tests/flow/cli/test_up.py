"""`up`, `down`, `status`, `logs`, `install`, `doctor` with real processes, each in a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bus.system.locks import listener, owner
from tests.cli_kit import fleethook_in
from tests.support.waiting import PATIENCE, wait_until
from workers.admin.person import TEST_VARIABLE

REPOSITORY = Path(__file__).parents[3]
SETTINGS = """{
    "model": "opus",  "permissions": {"allow": ["Bash(ls:*)"]},
  "hooks": {"PreToolUse": [ {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]} ]},
    "temperature": 1e0 }
"""


@dataclass
class Done:
    """One command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What stood on stdout."""
        return json.loads(self.out)


@dataclass
class Place:
    """A home directory with a project in it, and everything of Fleethook in `<root>/fh`."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def settings(self) -> Path:
        return self.root / ".claude/settings.json"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        mine = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
        mine[TEST_VARIABLE] = "1"
        return {
            **mine,
            "HOME": str(self.root),
            "FLEETHOOK_HOME": str(self.root / "fh"),
            "PYTHONPATH": str(REPOSITORY),
            **(more or {}),
        }

    def popen(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "workers", *args],
            cwd=self.project,
            env=self.environment(),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *args: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Done:
        """One command; those that run no process of their own for long are called here, which saves their starts."""
        if args[0] != "up":
            return Done(*fleethook_in(self.environment(env), self.project, *args, stdin=stdin))
        done = subprocess.run(
            [sys.executable, "-P", "-m", "workers", *args],
            cwd=self.project,
            env=self.environment(env),
            text=True,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def runs(self) -> bool:
        """Whether an `up` holds this place."""
        return owner(self.root / "fh/run/up.lock") is not None

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if ".claude" in path.parts)


def a_place() -> Place:
    # Unix socket paths end at about 100 bytes, and pytest's own folders are longer.
    place = Place(Path(tempfile.mkdtemp(prefix="fh-")))
    place.project.mkdir()
    return place


@contextlib.contextmanager
def started_place() -> Iterator[tuple[Place, Done]]:
    """A place after `up --detach`, and what that printed; `down` at the end."""
    place = a_place()
    try:
        yield place, place.run("up", "--detach", "--evaluators=1", "--carriers=1", "--json")
        place.run("down")
        assert not place.runs()
    finally:
        shutil.rmtree(place.root)


@pytest.fixture(scope="module")
def up() -> Iterator[tuple[Place, Done]]:
    """A running place for the tests that install nothing and kill nothing, in whatever order they run."""
    with started_place() as started:
        yield started


@pytest.fixture
def own_up() -> Iterator[tuple[Place, Done]]:
    """A running place for one test, which may install agents there and kill its processes."""
    with started_place() as started:
        yield started


@pytest.fixture
def place() -> Iterator[Place]:
    """A place where nothing runs."""
    made = a_place()
    yield made
    if made.runs():
        made.run("down")
    shutil.rmtree(made.root)


def statuses(report: Any) -> dict[str, str]:
    """The doctor's checks by id."""
    return {check["id"]: check["status"] for check in report["checks"]}


@pytest.mark.req("G-20")
def test_up_says_what_it_started_and_with_what(up: tuple[Place, Done]) -> None:
    """One command, no configuration: a server, every process type, and a hook file with a guard on."""
    place, started = up
    assert started.code == 0, started.err
    said = started.json
    assert said["ready"]
    assert [child["name"] for child in said["processes"]] == [
        "evaluator.1",
        "dispatcher.1",
        *([] if sys.platform == "linux" else ["host.1"]),
        "carrier.1",
        "chores.1",
        *([] if sys.platform == "linux" else ["gateway.1"]),
    ]
    assert said["server"].startswith(("valkey ", "redis "))
    assert said["created"]
    assert said["gateway"][-1] == f"unix:{place.root / 'fh/run/gateway.sock'}"
    config = Path(said["config"])
    assert "destructive-commands: true" in config.read_text("utf-8")
    assert json.loads((config.parent / "fleethook.schema.json").read_bytes())["title"] == "fleethook.yaml"
    checked = place.run("config", "check")
    assert (checked.code, checked.out) == (0, ""), checked.err
    for folder in ("config", "data", "state", "run"):
        assert stat.S_IMODE((place.root / "fh" / folder).stat().st_mode) == 0o700


def test_a_second_up_is_refused_and_says_who_runs(up: tuple[Place, Done]) -> None:
    place, started = up
    second = place.run("up", "--detach")
    assert second.code == 3
    assert str(started.json["pid"]) in second.err
    assert "fleethook down" in second.err
    assert place.runs()


def test_status_shows_who_is_alive(up: tuple[Place, Done]) -> None:
    """Everybody alive is exit code 0; in a namespace where nobody works it is 1, and says what that means."""
    place, _ = up
    spools = place.root / "fh/state/spool"
    spools.mkdir(parents=True, exist_ok=True)
    (spools / "codex.damaged").write_text("1\n")
    (spools / "gemini.dropped").write_text("2\n")
    done = place.run("status", "--json", "--wait", "20")
    assert done.code == 0, "what was lost keeps nothing from running"
    found = done.json
    assert found["lost"] == [
        "1 record was cut off or damaged in the spool of codex, and could not be sent: lost",
        "2 events of gemini did not fit into the spool or on the disk: lost",
    ]
    assert re.findall(r"(?m)^lost +(.*)$", place.run("status").out) == found["lost"]
    roles = {role["role"]: (role["health"], role["alive"]) for role in found["roles"]}
    for role in ("carrier", "chores") if sys.platform == "linux" else ():  # they run while there is work
        assert roles[role] in {("idle", 0), ("ok", 1)}
        roles[role] = ("ok", 1)
    assert roles == {
        "evaluator": ("ok", 1),
        "dispatcher": ("ok", 1),
        "host": ("ok", 1),
        "carrier": ("ok", 1),
        "chores": ("ok", 1),
        "gateway": ("ok", 1),
    }
    assert [stream["name"] for stream in found["streams"]][:4] == ["requests", "waiting", "events", "deliveries"]
    assert found["problems"] == []
    assert found["up"]["ready"]
    assert "@/" not in done.out.replace("[redacted]@", "")  # no credentials
    nobody = place.run("status", "-n", "nobody")
    assert nobody.code == 1
    assert "no evaluator is alive" in nobody.out
    assert "missing" in nobody.out


def test_logs_show_the_lines_of_one_process(up: tuple[Place, Done]) -> None:
    place, _ = up
    lines = [json.loads(line) for line in place.run("logs", "--process", "evaluator", "--json").out.splitlines()]
    assert {line["process"] for line in lines} == {"evaluator.1"}
    assert "fleethook evaluator ready" in [line["text"] for line in lines]


def test_logs_follow_a_file_over_its_change(place: Place) -> None:
    """What is added is shown, also after the supervisor has begun a new file, until Ctrl-C."""
    path = place.root / "fh/state/log/fleethook.log"
    nothing = place.run("logs")
    assert nothing.code == 3
    assert f"there is no log at {path}" in nothing.err
    path.parent.mkdir(parents=True)
    path.with_name("fleethook.log.1").write_text("T1 carrier.1 | one\nT2 dispatcher.1 | two\n", "utf-8")
    path.write_text("T3 dispatcher.1 | three\nT4 dispatcher.10 | four\n", "utf-8")
    assert place.run("logs", "--lines", "3").out.splitlines()[0] == "T2 dispatcher.1 | two"
    followed = place.popen("logs", "--follow", "--lines", "1", "--process", "dispatcher.1")
    assert followed.stdout is not None
    try:
        assert followed.stdout.readline() == "T3 dispatcher.1 | three\n"
        with path.open("a", encoding="utf-8") as file:  # at once: nothing may be lost between the old and the new
            file.write("T5 carrier.1 | five\nT6 dispatcher.1 | six \x1b[2J\nT7 dispat")
            file.flush()
            assert followed.stdout.readline() == "T6 dispatcher.1 | six \\x1b[2J\n"
            file.write("cher.1 | seven\n")
        assert followed.stdout.readline() == "T7 dispatcher.1 | seven\n"
        path.replace(path.with_name("fleethook.log.1"))
        path.write_text("T8 dispatcher.1 | eight\n", "utf-8")
        assert followed.stdout.readline() == "T8 dispatcher.1 | eight\n"
        followed.send_signal(signal.SIGINT)
        assert followed.communicate(timeout=PATIENCE) == ("", "")
        assert followed.returncode == 0
    finally:
        followed.kill()
        followed.communicate()


def test_an_install_is_proven_and_undone_to_the_byte(own_up: tuple[Place, Done]) -> None:
    """Shown, installed once, proven by a canary through the installed command, then taken back without a trace."""
    place, _ = own_up
    before = place.run("doctor", "--json")
    assert (before.code, statuses(before.json)["agents"]) == (1, "warn")
    place.settings.parent.mkdir()
    assert statuses(place.run("doctor", "--json").json)["claude-installed"] == "warn"
    place.settings.write_text(SETTINGS, "utf-8")
    dry = place.run("install", "claude", "--dry-run", "--diff")
    assert dry.code == 0
    assert "+++ " in dry.out
    assert place.settings.read_text("utf-8") == SETTINGS
    asked = place.run("install", "claude")
    assert asked.code == 2  # nobody sits there to be asked
    assert "--yes" in asked.err

    done = place.run("install", "claude", "--yes", "--json")
    assert done.code == 0, done.err
    (first,) = done.json["agents"]
    assert first["applied"]
    assert Path(first["backups"][0]).read_text("utf-8") == SETTINGS
    installed = place.settings.read_bytes()
    (again,) = place.run("install", "claude", "--yes", "--json").json["agents"]
    assert (again["applied"], again["backups"], place.settings.read_bytes()) == (False, [], installed)
    answers = Path(first["answer_file"])
    assert stat.S_IMODE(answers.stat().st_mode) == 0o600

    proof = place.run("doctor", "--live", "--json")
    found = statuses(proof.json)
    assert proof.code == 0, proof.out
    assert (found["claude-live"], found["claude-rights"], found["guards"]) == ("ok", "ok", "ok")
    assert found["claude-program"] in {"ok", "unknown"}
    stale = statuses(place.run("doctor", "-n", "other", "--json").json)
    assert (stale["claude-answers"], stale["evaluator"]) == ("warn", "fail")

    undone = place.run("uninstall", "claude", "--yes", "--json")
    assert undone.code == 0, undone.err
    assert place.settings.read_text("utf-8") == SETTINGS
    assert place.files() == [".claude", ".claude/settings.json"]
    assert not answers.exists()
    assert "nothing was changed" in place.run("uninstall", "claude", "--yes").err


@pytest.mark.req("X-06")
def test_nothing_is_lost_when_everything_is_killed(own_up: tuple[Place, Done]) -> None:
    """kill -9 of the supervisor ends its processes and its server; the next `up` finds the data.

    An agent's hook answers by policy meanwhile, and what it kept on the disk arrives afterwards.
    """
    place, started = own_up
    published = place.run("publish", "-", stdin=json.dumps({"type": "notification", "session": "s-before"}))
    assert published.code == 0, published.err
    assert place.run("install", "claude", "--yes").code == 0
    hooks = json.loads(place.settings.read_bytes())["hooks"]["PreToolUse"]
    (command,) = [one["command"] for group in hooks for one in group["hooks"] if "launcher" in one["command"]]

    os.kill(started.json["pid"], signal.SIGKILL)
    wait_until(lambda: not place.runs(), "the supervisor is gone")
    wait_until(lambda: listener(place.root / "fh/run/redis.sock") is None, "its server is gone")
    call = {
        "session_id": "s-meanwhile",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    }
    hook = subprocess.run(
        ["/bin/sh", "-c", command],
        input=json.dumps(call),
        text=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert hook.returncode == 0
    assert "deny" not in hook.stdout
    away = place.run("status", "--json")
    assert away.code == 3
    assert [(spool["agent"], spool["records"] > 0) for spool in away.json["spools"]] == [("claude", True)]

    again = place.run("up", "--detach", "--evaluators=1", "--carriers=1", "--json")
    assert again.code == 0, again.err
    assert not again.json["created"]
    place.run("doctor", "--fix")  # or the workers, whichever comes first
    wait_until(lambda: place.run("status", "--json").json["spools"] == [], "what was kept on the disk is sent")
    listed = place.run("events", "list", "--json").out
    assert published.out.strip() in listed
    assert "s-meanwhile" in listed


def test_up_in_a_terminal_stops_with_ctrl_c(place: Place) -> None:
    """Nothing is left running; `down` afterwards has nothing to do, and `status` says that nobody is there."""
    process = place.popen("up", "--evaluators=0", "--carriers=0", "--chores=0")
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("Ready in"):
            break
    assert any("config" in line and "created" in line for line in said)
    assert "#sign-in=" not in "".join(said), "a pipe may be a log, which keeps no one-time code"
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "Everything has stopped" in rest
    assert not place.runs()
    down = place.run("down", "--json")
    assert (down.code, down.json) == (0, {"stopped": False})
    status = place.run("status", "--json")
    assert status.code == 3
    assert status.json["server"] == {"health": "missing"}
    assert json.loads(status.err)["error"]["code"] == 3


def test_an_up_that_cannot_start_says_why(place: Place) -> None:
    """The words of the detached process come back to whoever started it."""
    folder = place.root / "fh/data/server"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "server.json").write_text("{", "utf-8")
    done = place.run("up", "--detach")
    assert done.code == 3
    assert "server.json is damaged" in done.err
    assert not place.runs()


def test_configuration_errors_name_their_place(place: Place) -> None:
    """file:line:column, what is wrong, what was meant; exit code 4. Origins say which layer won."""
    bad = place.project / "fleethook.yaml"
    bad.write_text("version: 1\nhooks:\n  - on: tool:pre_execute\n    mathc: bash\nguard: {}\n", "utf-8")
    checked = place.run("config", "check", str(bad))
    assert checked.code == 4
    assert f"{bad}:4:5: unknown key" in checked.out
    assert 'did you mean "guards"?' in checked.out
    shown = place.run("config", "show", "--origin", "--json", env={"FLEETHOOK_REDIS_URL": "redis://u:secret1@h:1/0"})
    assert shown.json["redis_url"] == {
        "value": "redis://[redacted]@h:1/0",
        "origin": "FLEETHOOK_REDIS_URL",
        "description": shown.json["redis_url"]["description"],
    }
    assert shown.json["budget"]["origin"] == "default"
    wrong = place.run("status", env={"FLEETHOOK_BUDGET": "soon"})
    assert wrong.code == 4
    assert "FLEETHOOK_BUDGET" in wrong.err


def test_acl_lines_are_what_a_server_takes(place: Place) -> None:
    """Placeholders unless passwords are wanted, and these stand beside the data, never in it."""
    plain = place.run("acl")
    assert plain.code == 0
    assert plain.out.count(">CHANGE-ME") == 4
    assert plain.out.splitlines()[0] == "user default reset off ~* &* +@all", (
        "else every other user's limits are worth nothing"
    )
    assert "all in one connection: a new one is refused after the first line" in plain.err
    made = place.run("acl", "--passwords", "--every-namespace")
    assert "CHANGE-ME" not in made.out
    assert made.out.count(" #") == 4
    said = [line.split() for line in made.err.splitlines()[:4]]
    assert [name for name, _ in said] == ["fleethook-shim", "fleethook-agent", "fleethook-worker", "fleethook-admin"]
    assert all(password not in made.out for _, password in said)


def test_publish_and_request_warn_of_an_unknown_type(up: tuple[Place, Done]) -> None:
    place, _ = up
    for command in ("publish", "request"):
        done = place.run(command, stdin='{"type": "tool:pre_exekute"}')
        assert done.code == 0
        assert "the event type 'tool:pre_exekute' is unknown; did you mean tool:pre_execute?" in done.err
        for known in ("tool:pre_execute", "claude:SomethingNew"):
            assert "is unknown" not in place.run(command, stdin=json.dumps({"type": known})).err
