"""`fleethook service`: units for systemd and launchd that their own readers accept, and that start the real thing."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bus.system.directories import directories
from tests.cli_kit import fleethook
from tests.support.waiting import PATIENCE, wait_until
from workers.supervisor import running

pytestmark = [pytest.mark.flow, pytest.mark.req("B-05")]

PASSWORD = "s3cr3t-of-the-fleet"
URL = f"rediss://fleethook-default-worker:{PASSWORD}@redis.example:6379/0"


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home; `systemctl` and `launchctl` write down how they are called, since no manager runs here."""
    home = tmp_path / "person"
    (home / "bin").mkdir(parents=True)
    for name in ("systemctl", "launchctl"):
        program = home / "bin" / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {shlex.quote(str(home / "calls"))}\n', "utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


def calls(home: Path) -> list[str]:
    path = home / "calls"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def test_a_user_unit_is_shown_written_started_and_taken_back(person: Path, tmp_path: Path) -> None:
    """Issue 11, operations: printed first, `--print` changes nothing, the environment file has mode 0600."""
    printed = fleethook("service", "install", "--for", "systemd", "--print")
    assert (printed.code, (person / ".config").exists(), calls(person)) == (0, False, [])
    assert f"ExecStart={sys.executable} -P -m workers.cli --no-color up" in printed.out
    asked = fleethook("service", "install", "--for", "systemd")
    assert asked.code == 2, "nobody can be asked here"

    done = fleethook("service", "install", "--for", "systemd", "--yes", "--namespace", "night")
    assert done.code == 0, done.err
    unit, environment = person / ".config/systemd/user/fleethook.service", tmp_path / "home/config/service.env"
    assert f"+ExecStart={sys.executable}" in done.out
    assert "loginctl enable-linger" in done.err
    assert environment.stat().st_mode & 0o777 == 0o600
    text = environment.read_text("utf-8")
    assert "FLEETHOOK_NAMESPACE='night'" in text
    assert f"FLEETHOOK_HOME='{tmp_path / 'home'}'" in text
    assert calls(person) == [
        "systemctl --user daemon-reload",
        "systemctl --user enable fleethook.service",
        "systemctl --user restart fleethook.service",
    ]
    again = fleethook("service", "install", "--for", "systemd", "--print", "--namespace", "night")
    assert again.out.rstrip("\n").endswith(unit.read_text("utf-8").rstrip("\n"))

    gone = fleethook("service", "uninstall", "--for", "systemd", "--yes")
    assert gone.code == 0, gone.err
    assert not unit.exists()
    assert not environment.exists()
    assert calls(person)[3:] == ["systemctl --user disable --now fleethook.service", "systemctl --user daemon-reload"]
    assert "nothing was changed" in fleethook("service", "uninstall", "--for", "systemd", "--yes").err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("whole", [False, True], ids=["user", "machine"])
def test_systemd_finds_nothing_wrong_with_the_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", URL)
    flags = ["--system", "--run-as", "daemon"] if whole else []
    roles = [
        word
        for role in ("evaluator", "dispatcher", "host", "carrier", "chores", "gateway")
        for word in ("--role", role)
    ]
    made = fleethook("service", "install", "--for", "systemd", "--print", "--json", *flags, *roles)
    units = {Path(name): text for name, text in made.json["files"].items() if name.endswith(".service")}
    assert len(units) == 6
    for path, text in units.items():
        (tmp_path / path.name).write_text(text, "utf-8")
        assert ("User=daemon" in text) is whole
        done = subprocess.run(
            ["systemd-analyze", "verify", *([] if whole else ["--user"]), "--man=no", str(tmp_path / path.name)],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        )
        ours = [line for line in done.stderr.splitlines() if "fleethook" in line and "not executable" not in line]
        assert (done.returncode, ours) == (0, []), done.stderr


def test_no_password_is_in_a_unit_or_on_the_screen(
    person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", URL)
    for kind in ("systemd", "launchd"):
        printed = fleethook("service", "install", "--for", kind, "--role", "evaluator", "--role", "host", "--print")
        done = fleethook("service", "install", "--for", kind, "--role", "evaluator", "--role", "host", "--yes")
        assert (printed.code, done.code) == (0, 0), done.err
        assert PASSWORD not in printed.out + printed.err + done.out + done.err
    holders = [
        path
        for path in (*person.rglob("*"), *(tmp_path / "home").rglob("*"))
        if path.is_file() and PASSWORD in path.read_text("utf-8", "replace")
    ]
    assert holders == [tmp_path / "home/config/service.env"]
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "redis://:it's@redis.example")
    refused = fleethook("service", "install", "--for", "systemd", "--role", "host", "--yes")
    assert (refused.code, "percent-encoded" in refused.err) == (4, True)


def test_the_command_of_a_service_starts_everything_and_ends_in_peace(person: Path) -> None:
    """What launchd would start is started here, with the environment that it would have: next to nothing."""
    assert fleethook("service", "install", "--for", "launchd", "--yes").code == 0
    path = person / "Library/LaunchAgents/fleethook.up.plist"
    job = plistlib.loads(path.read_bytes())
    assert job["KeepAlive"] == {"SuccessfulExit": False}
    assert calls(person) == [f"launchctl bootstrap gui/{os.geteuid()} {path}"]
    process = subprocess.Popen(
        job["ProgramArguments"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(person)},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        places = directories(create=False)

        def ready() -> bool:
            state = running(places)
            return state is not None and state.ready and state.pid == process.pid

        wait_until(ready, "everything runs, in the folders of the environment file")
        printed = fleethook("service", "install", "--for", "systemd", "--print")
        assert (printed.code, "ExecStart=" in printed.out) == (0, True), "nothing is changed, so nothing is in the way"
        refused = fleethook("service", "install", "--for", "systemd", "--yes")
        assert (refused.code, "`fleethook up` runs here already" in refused.err) == (3, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, "a manager that stops it does not start it again"
    finally:
        process.kill()
        process.wait()


def test_an_agent_may_not_take_services_away(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fleethook("service", "install", "--for", "systemd", "--yes").code == 0
    monkeypatch.delenv("FLEETHOOK_TEST_CONFIRMS")
    monkeypatch.setenv("CLAUDECODE", "1")
    before = calls(person)
    refused = fleethook("service", "uninstall", "--for", "systemd", "--yes")
    assert (refused.code, "A person has to run it" in refused.err) == (1, True)
    assert (person / ".config/systemd/user/fleethook.service").exists()
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "redis://elsewhere.example")
    assert fleethook("service", "install", "--for", "systemd", "--yes").code == 1, "to another server"
    assert calls(person) == before


def test_lines_that_somebody_added_to_the_environment_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second install, in a shell without the URL, keeps the server too; what this shell has is new."""
    role = ["--for", "systemd", "--role", "carrier", "--yes"]
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", URL)
    assert fleethook("service", "install", *role).code == 0
    environment = tmp_path / "home/config/service.env"
    with environment.open("a", encoding="utf-8") as file:
        file.write("# of the chat\nCHAT_SECRET='whsec_abc'\n")
    monkeypatch.delenv("FLEETHOOK_REDIS_URL")
    monkeypatch.setenv("FLEETHOOK_LOG_LEVEL", "debug")
    assert fleethook("service", "install", *role).code == 0
    lines = environment.read_text("utf-8").splitlines()
    assert {
        f"FLEETHOOK_REDIS_URL='{URL}'",
        "# of the chat",
        "CHAT_SECRET='whsec_abc'",
        "FLEETHOOK_LOG_LEVEL='debug'",
    } <= set(lines)
    assert len({line.partition("=")[0] for line in lines}) == len(lines), "each once"
    assert environment.stat().st_mode & 0o777 == 0o600


def test_what_somebody_else_wrote_stays(person: Path) -> None:
    unit = person / ".config/systemd/user/fleethook.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/bin/true\n", "utf-8")
    refused = fleethook("service", "install", "--for", "systemd", "--yes")
    assert (refused.code, "was not written by fleethook" in refused.err) == (4, True)
    assert fleethook("service", "uninstall", "--for", "systemd", "--yes").code == 0
    assert unit.exists()


def test_a_manager_that_fails_is_quoted(person: Path) -> None:
    (person / "bin/systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n", "utf-8")
    done = fleethook("service", "install", "--for", "systemd", "--yes")
    assert (done.code, "`systemctl --user daemon-reload` failed: Failed to connect to bus" in done.err) == (5, True)
    assert fleethook("service", "install", "--for", "systemd", "--yes", "--no-start").code == 0


def test_a_service_of_the_machine_names_an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", URL)
    for name in ("root", "a\nExecStartPre=/bin/sh"):
        refused = fleethook("service", "install", "--for", "systemd", "--print", "--system", "--run-as", name)
        assert refused.code == 4, refused.err


def test_services_of_a_fleet_need_its_server() -> None:
    for flags in (["--role", "evaluator"], ["--system", "--run-as", "daemon"]):
        refused = fleethook("service", "install", "--for", "systemd", "--print", *flags)
        assert (refused.code, "FLEETHOOK_REDIS_URL" in refused.err) == (4, True)
