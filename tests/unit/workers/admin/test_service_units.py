"""The texts of services: what systemd, launchd and a shell read out of them is what was meant."""

from __future__ import annotations

import plistlib
import subprocess
from pathlib import Path

import pytest

from bus.errors import ConfigError
from workers.admin.service_units import environment_text, launchd_plist, systemd_unit

pytestmark = pytest.mark.req("B-05")


def test_a_shell_reads_the_environment_file_as_it_was_meant(tmp_path: Path) -> None:
    """systemd takes what is between single quotes as it is, and so does a shell."""
    values = {"A": "a b", "B": '$HOME "x" `y`; #z', "C": "rediss://u:p%40@h:1/0?ssl_ca_certs=/x", "D": "ü%n"}
    file = tmp_path / "service.env"
    file.write_text(environment_text(values), "utf-8")
    script = 'set -a; . "$0"; exec env'
    done = subprocess.run(["/bin/sh", "-c", script, file], env={}, capture_output=True, text=True, check=True)
    assert values.items() <= dict(line.split("=", 1) for line in done.stdout.splitlines()).items()


@pytest.mark.parametrize("value", ["it's", "back\\slash", "two\nlines"])
def test_what_would_be_read_in_two_ways_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="FLEETHOOK_URL has a quote"):
        environment_text({"FLEETHOOK_URL": value})


def test_words_of_a_command_stay_words() -> None:
    unit = systemd_unit("up", ("/opt/my tools/100%/python", "-P", 'a"b', "$HOME"), "/home/x/50%.env")
    assert 'ExecStart="/opt/my tools/100%%/python" -P "a\\"b" $$HOME\n' in unit
    assert "EnvironmentFile=/home/x/50%%.env\n" in unit


def test_a_unit_of_the_machine_waits_for_the_network_and_has_walls() -> None:
    own, whole = (systemd_unit("evaluator", ("/bin/true",), "/e", user=user) for user in ("", "fleet"))
    for line in ("User=fleet", "NoNewPrivileges=yes", "ProtectSystem=full", "After=network-online.target"):
        assert (f"\n{line}\n" in whole, f"\n{line}\n" in own) == (True, False)
    assert own.endswith("WantedBy=default.target\n")
    assert whole.endswith("WantedBy=multi-user.target\n")
    for unit in (own, whole):
        assert "\nRestart=on-failure\n" in unit, "one that is stopped stays down"
        assert "\nRestartPreventExitStatus=2 4\n" in unit


def test_launchd_gets_the_command_behind_a_shell_that_reads_the_environment() -> None:
    job = plistlib.loads(launchd_plist("fleethook.up", ("/p & q/python", "up"), "/e f", "/log").encode())
    assert job["Label"] == "fleethook.up"
    assert job["ProgramArguments"] == ["/bin/sh", "-c", 'set -a; . "$0"; exec "$@"', "/e f", "/p & q/python", "up"]
    assert (job["RunAtLoad"], job["KeepAlive"]) == (True, {"SuccessfulExit": False})
