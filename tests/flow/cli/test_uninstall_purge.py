"""`fleethook uninstall --purge`: everything of Fleethook goes from a machine, and nothing of anybody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bus.system.directories import directories
from tests.cli_kit import fleethook
from tests.support.waiting import PATIENCE, wait_until
from workers.supervisor import running

pytestmark = [pytest.mark.flow, pytest.mark.req("B-08")]


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person with Codex; `systemctl` and `launchctl` do nothing, since no manager runs here."""
    home = tmp_path / "person"
    for folder in ("project", "bin", ".codex"):
        (home / folder).mkdir(parents=True)
    for name in ("systemctl", "launchctl"):
        (home / "bin" / name).symlink_to("/bin/true")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(home / "project")
    return home


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


def test_a_machine_that_was_used_is_as_it_was_before(person: Path, tmp_path: Path) -> None:
    """Issue 11, operations: hooks, services, data, spool, answer files, last good copies and keys are all gone."""
    before = files(person)
    assert fleethook("service", "install", "--yes", "--no-start").code == 0
    up = subprocess.run(
        [sys.executable, "-P", "-m", "workers.cli", "up", "--detach"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert up.returncode == 0, up.stderr
    places = directories(create=False)
    try:
        assert fleethook("install", "codex", "--yes").code == 0
        (person / "project/fleethook.yaml").write_text("hooks: [{on: session:start, command: echo hello}]\n", "utf-8")
        assert fleethook("hooks", "trust", "--yes").code == 0
        assert fleethook("request", stdin='{"type": "session:start", "cwd": "."}').code == 0
        made = fleethook(
            "webhooks", "add", "https://example.com/hooks", "--id", "chat", "--secret", "generate", "--yes"
        )
        assert made.code == 0, made.err
        neighbour = places.data / "photos"
        neighbour.mkdir()
        (neighbour / "holiday.jpg").write_bytes(b"not ours")
        places.bytecode.mkdir(exist_ok=True)  # where Python keeps no bytecode, `up` has made it
        (places.bytecode / "one.pyc").write_bytes(b"")

        dry = fleethook("uninstall", "--purge", "--dry-run", "--json").json
        assert (dry["agents"], len(dry["services"]), dry["purged"]) == (["codex"], 2, False)
        assert {Path(path).name for path in dry["files"]} >= {
            "server",
            "credentials.json",
            "secret.key",
            "agents",
            "last-good",
            "bytecode",
            "installed.json",
            "secrets",
        }
        assert running(places) is not None
        assert fleethook("uninstall", "--purge").code == 2, "nobody can be asked for the name here"

        gone = fleethook("uninstall", "--purge", "--yes")
        assert gone.code == 0, gone.err
        assert running(places) is None
        assert files(person) == before | {"project/fleethook.yaml"}
        assert files(tmp_path / "home") == {"data/photos/holiday.jpg", "config/fleethook.yaml"}, (
            "it names an endpoint now"
        )
        assert f"stays: {places.config / 'fleethook.yaml'}" in gone.err
    finally:
        fleethook("down")
    again = fleethook("uninstall", "--purge", "--yes")
    assert (again.code, "Nothing of fleethook is installed here" in again.err) == (0, True)


def test_an_agent_may_not(monkeypatch: pytest.MonkeyPatch, person: Path) -> None:
    assert fleethook("install", "codex", "--yes").code == 0
    monkeypatch.delenv("FLEETHOOK_TEST_CONFIRMS")
    monkeypatch.setenv("CODEX_CI", "1")
    before = files(person)
    refused = fleethook("uninstall", "--purge", "--yes")
    assert (refused.code, "A person has to run it" in refused.err) == (1, True)
    assert files(person) == before


def test_the_name_of_the_machine_has_to_be_typed(person: Path) -> None:
    """On a terminal: another word changes nothing, the name does it."""
    assert fleethook("install", "codex", "--yes").code == 0
    hooks = person / ".codex/hooks.json"
    for word, stays in (("yes", True), ("test-host", False)):
        assert hooks.exists()
        leader, follower = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "workers.cli", "uninstall", "--purge"],
            env={name: value for name, value in os.environ.items() if name != "CI"},  # where nobody can be asked
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)
        said = bytearray()

        def asks(fd: int = leader, said: bytearray = said) -> bool:
            said += os.read(fd, 65536)
            return b"Type the name of this machine (test-host)" in said

        wait_until(asks, "it asks")
        os.write(leader, f"{word}\n".encode())
        assert process.wait(PATIENCE) == 0, said
        os.close(leader)
        assert hooks.exists() is stays
