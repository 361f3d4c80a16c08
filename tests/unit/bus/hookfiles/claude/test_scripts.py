"""The plugin's folder is filled in wherever a command names it, whatever its name is: a real shell runs the result."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bus.hookfiles.claude.scripts import Roots, filled

NAMES = ["plain", "a b", "größe 日本", "it's (x) & $y;", 'q"uo`te*']
QUOTED = [
    "${CLAUDE_PLUGIN_ROOT}/x.sh",
    "true && sh ${PLUGIN_ROOT}/x.sh # it's unquoted",
    '"${CLAUDE_PLUGIN_ROOT}"/x.sh',
    '"${CLAUDE_PLUGIN_ROOT}/x.sh"',
    "sh '${CLAUDE_PLUGIN_ROOT}/x.sh'",
    "sh -c 'echo '\"'ran'\"; sh '${PLUGIN_ROOT}/x.sh' \"it's\"",
    'cd "$CLAUDE_PLUGIN_ROOT" && ./x.sh',
]


@pytest.mark.req("I-07", "I-05")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", QUOTED)
def test_a_command_finds_its_script(command: str, name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    root.mkdir()
    (root / "x.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "x.sh").chmod(0o755)
    text, args = filled(command, None, Roots(str(root)))
    env = {"PATH": "/usr/bin:/bin", "CLAUDE_PLUGIN_ROOT": str(root), "PLUGIN_ROOT": str(root)}
    done = subprocess.run(["/bin/sh", "-c", text], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (args, done.stdout.split()[-1:], done.returncode) == ((), ["ran"], 0), (text, done)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_without_a_shell_finds_its_script(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    assert filled("node", ["${CLAUDE_PLUGIN_ROOT}/x.js"], Roots(str(root))) == ("node", (f"{root}/x.js",))
