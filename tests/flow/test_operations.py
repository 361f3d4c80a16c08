"""docs/operations.md: every command of the page, in its order, on three hosts that are three homes on this machine.

What stands in: `scp` and `ssh` copy between the homes and run in them, `sudo` runs what it is given, `/etc`, `/run` and
`/var/lib` lie below a temporary folder, `bus.example.com` is localhost, and `systemctl` is tests/support/systemctl.py. The
server speaks TLS itself where it can (Debian's does), else behind a TLS terminator (the wheel's does not). openssl, the
certificates, the roles of the ACL, workers, hook commands and their TLS are real.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bus.wire.embedded_server import find_binary
from tests.support.quick_program import quick_program
from tests.support.servers import free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("B-05", "B-08")]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/operations.md").read_text("utf-8")
BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```$")
COMMAND = re.compile(r"(?m)^(\w+)\$ ((?:.*\\\n)*.*)$")
FILE = re.compile(r"# (\S+) \((\w+)\)\n")
HOSTS = ("server", "worker", "laptop")

SCRIPTS = {
    # What runs for long is the program itself.
    "fleethook": 'case $1 in worker) exec {python} -P -m workers.cli "$@" ;; esac; exec {quick}/fleethook "$@"',
    "systemctl": 'exec {python} {root}/tests/support/systemctl.py "$@"',
    "loginctl": "exit 0",
    "sudo": 'for word do shift; case "$word" in -o|valkey) ;; *) set -- "$@" "$word" ;; esac; done; exec "$@"',
    "scp": 'exec cp "$1" "$TEST_ROOT/${{2%%.*}}/${{2#*:}}"',
    "ssh": 'host=${{1%%.*}}; shift; HOME="$TEST_ROOT/$host" FLEETHOOK_HOME="$TEST_ROOT/$host/fh" FLEETHOOK_HOST=$host\n'
    'export HOME FLEETHOOK_HOME FLEETHOOK_HOST; unset FLEETHOOK_REDIS_URL; cd "$HOME"; exec sh -c "$*"',
}
"""Programs that stand in for what a test may not do to this machine."""


@pytest.fixture
def fleet() -> Iterator[Path]:
    """Three homes, and an end for everything that was started in them. The path is short, since sockets need that."""
    root = Path(tempfile.mkdtemp(prefix="fh-"))
    (root / "bin").mkdir()
    for host in HOSTS:
        (root / host).mkdir()
    with quick_program() as quick:
        for name, text in SCRIPTS.items():
            program = root / "bin" / name
            filled = text.format(python=shlex.quote(sys.executable), quick=quick, root=ROOT)
            program.write_text(f"#!/bin/sh\n{filled}\n", "utf-8")
            program.chmod(0o755)
        yield root
    for path in root.glob("*.pid"):
        with suppress(ProcessLookupError, ValueError):
            os.killpg(int(path.read_text("utf-8")), signal.SIGKILL)
    shutil.rmtree(root, ignore_errors=True)


def place(text: str, root: Path, port: int) -> str:
    """The text with the page's names and folders as they are here."""
    for folder in ("etc/valkey", "run/valkey", "var/lib/valkey"):
        text = text.replace(f"/{folder}", f"{root}/{folder}")
    return text.replace("bus.example.com:6379", f"localhost:{port}").replace("bus.example.com", "localhost")


def run(root: Path, host: str, command: str, port: int) -> subprocess.CompletedProcess[str]:
    """One command of the page in the shell of a host, which keeps what it exports."""
    home, kept = root / host, root / f"{host}.sh"
    env = {
        "HOME": str(home),
        "PATH": f"{root / 'bin'}:/usr/bin:/bin",
        "USER": "somebody",
        "FLEETHOOK_HOST": host,
        "FLEETHOOK_HOME": str(home / "fh"),
        "FLEETHOOK_TEST_CONFIRMS": "1",
        "PYTHONPATH": str(ROOT),
        "TEST_ROOT": str(root),
        "TEST_PORT": str(port),
        "TEST_SERVER_BINARY": str(find_binary().path),
    }
    script = f"[ -e {kept} ] && . {kept}\nset -e\n{place(command, root, port)}\nexport -p > {kept}\n"
    return subprocess.run(
        ["bash", "-c", script], env=env, cwd=home, capture_output=True, text=True, timeout=600, check=False
    )


def answered(root: Path, host: str, command: str, port: int) -> subprocess.CompletedProcess[str]:
    """As `run`; a probe that a busy machine did not answer in time is made again, as every probe is."""
    found: list[subprocess.CompletedProcess[str]] = []

    def is_answered() -> bool:
        found[:] = [run(root, host, command, port)]
        return "worker --health" not in command or not re.search("does not answer|in time", found[0].stderr)

    wait_until(is_answered, f"{command} is answered")
    return found[0]


@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_page_works_from_its_first_command_to_its_last(fleet: Path) -> None:
    """Issue 11, operations: three hosts, ACL, TLS by a private authority, the first set, back-up and restore, the end."""
    port, said, recorded = free_port(), dict[str, str](), ""
    for language, text in BLOCK.findall(PAGE):
        named = FILE.match(text)
        if named:
            path = Path(place(named[1], fleet, port))
            path = path if path.is_absolute() else fleet / named[2] / path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(place(text[named.end() :], fleet, port), "utf-8")
            continue
        assert language == "console", text
        for host, command in COMMAND.findall(text):
            if command == "sudo systemctl stop valkey-server":  # the worst end that a server can have
                os.kill(int((fleet / "valkey-server.pid").read_text("utf-8")), signal.SIGKILL)
            done = answered(fleet, host, command, port)
            logs = "".join(path.read_text("utf-8", "replace")[-1500:] for path in fleet.glob("*.log"))
            assert done.returncode == 0, f"{host}$ {command}\n{done.stdout}\n{done.stderr}\n{logs}"
            said[command] = done.stdout + done.stderr
            if command == "fleethook worker --health":  # and nobody is believed whom the authority did not sign
                bare = answered(fleet, host, 'FLEETHOOK_REDIS_URL="${FLEETHOOK_REDIS_URL%%\\?*}" ' + command, port)
                assert (bare.returncode, "certificate" in bare.stderr.lower()) == (1, True), bare.stderr
            if command.startswith("mkdir -m 700 backup"):
                made = '{"type": "turn:end", "source": "generic", "session": "before-the-copy"}'
                recorded = run(fleet, host, f"echo '{made}' | fleethook publish", port).stdout.strip()
                assert recorded
            if command == "fleethook status --wait" and "appendonlydir" in "".join(said):
                kept = run(fleet, host, f"fleethook events show {recorded} --json", port)
                assert "before-the-copy" in kept.stdout, kept.stderr
                there = run(fleet, host, "fleethook events list --json --limit 1000", port).stdout
                assert recorded in there
            if "key export > backup" in command:  # what comes after the copy is not in it
                later = run(fleet, host, 'fleethook hooks apply fleet.yaml --yes --message "After the copy"', port)
                assert later.returncode == 0, later.stderr
    assert "The first set" in said["fleethook hooks history"], "the restored server has the published sets"
    assert "After the copy" not in said["fleethook hooks history"]
    assert "evaluator-worker-" in said["fleethook worker --health"]
    assert "canary: deny in " in said["fleethook doctor --live"]
    assert not (fleet / "laptop/.claude/settings.json").exists()
    for host in ("worker", "laptop"):
        left = [path for path in (fleet / host).rglob("*") if path.is_file() and path.name != "fleethook-ca.pem"]
        assert [path.name for path in left if path.name != "fleethook.yaml"] == []
