"""OpenCode: a plugin file of ours, which runs the hook command; there are no command hooks (checked with 1.18.33)."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from bus.agents.opencode import LATER, plugin_text
from bus.errors import ConfigError
from bus.installs import block_check
from bus.installs.base import Canary, InstalledCommand, InstallProblem, InstallScope, Program, Scope, never_events
from bus.installs.hook_command import CLOSED, Setup

FILE: Final = "fleethook.js"
_SETUP: Final = "\nconst SETUP = "

HARNESS: Final = """
const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)
const { hook, directory, worktree, input, output } = JSON.parse(Buffer.concat(chunks).toString())
const { readFileSync } = await import("node:fs")
const { pathToFileURL } = await import("node:url")
const path = process.argv.at(-1)
const text = () => encodeURIComponent(readFileSync(path, "utf8")) // Node takes a .js for something older
const from = process.versions.bun ? pathToFileURL(path).href : `data:text/javascript,${text()}`
const { Fleethook } = await import(from)
const hooks = await Fleethook({ client: {}, directory, worktree })
try {
  await hooks[hook](input, output)
} catch (error) {
  console.log(JSON.stringify({ deny: error.message }))
}
process.exit(0)
"""
"""Loads the plugin as OpenCode does, makes one call, and prints the error that it throws, which is a deny."""


class PluginFile:
    """A plugin file that Fleethook writes as a whole."""

    mode, whole = 0o644, True

    def files(self, place: Path) -> tuple[Path, ...]:
        """The one file."""
        return (place,)

    def written(self, path: Path, before: bytes | None, setup: Setup) -> bytes | None:
        """The plugin with its setup; raises ConfigError if another file has its name."""
        if before is not None and _setup(before) is None:
            raise ConfigError(
                "is a plugin of another program", file=str(path), hint="move it away; nothing was changed"
            )
        events = [event for event in setup.events if event not in never_events("opencode")]
        if not events:
            return None
        closed, later = setup.fail_closed, setup.later
        return plugin_text(setup.python, setup.answer_file, events, fail_closed=closed, later=later).encode()

    def cleaned(self, path: Path, current: bytes, original: bytes | None, *, created: bool) -> bytes | None:  # noqa: ARG002 - the protocol's arguments
        """None for our file; another file unchanged."""
        return None if _setup(current) is not None else current

    def calls(self, path: Path, raw: bytes) -> tuple[InstalledCommand, ...]:  # noqa: ARG002 - the protocol's argument
        """The command of each event, as the plugin runs it."""
        setup = _setup(raw)
        if setup is None:
            return ()
        words, seconds = [*setup.get("command", ()), "opencode"], float(setup.get("timeout", 0)) / 1000
        return tuple(
            InstalledCommand(
                event,
                shlex.join([*words, event, setup.get("answers", ""), *_closed(how)]),
                seconds,
                how == CLOSED,
                later=how == LATER,
            )
            for event, how in setup.get("events", {}).items()
        )

    def waiting(self, path: Path, raw: bytes, events: Collection[str]) -> bytes:  # noqa: ARG002 - the protocol's arguments
        """The plugin, which waits for the answers to these events."""
        setup = _setup(raw)
        if setup is None:
            return raw
        for event, how in setup["events"].items():
            if event in events and how == LATER:
                setup["events"][event] = "wait"
        before, _, after = raw.decode().partition(_SETUP)
        rest = after[json.JSONDecoder().raw_decode(after)[1] :]
        return f"{before}{_SETUP}{json.dumps(setup, indent=2)}{rest}".encode()


def runtime() -> tuple[str, ...]:
    """The command that runs JavaScript as OpenCode does: OpenCode's own Bun, else Bun on PATH; empty if there is none."""
    own = shutil.which("opencode")
    if own:
        return ("/usr/bin/env", "BUN_BE_BUN=1", own, "-e")
    for name, words in (("bun", ("-e",)), ("node", ("--input-type=module", "-e"))):
        found = shutil.which(name)
        if found:
            return (found, *words)
    return ()


def _runs(path: Path, command: str) -> tuple[str, ...]:
    """Runs the plugin in OpenCode's own runtime; without a runtime, the command that the plugin would run."""
    words = runtime()
    return (*words, HARNESS, str(path)) if words else ("/bin/sh", "-c", command)


def _closed(how: object) -> list[str]:
    return [CLOSED] if how == CLOSED else []


def _setup(raw: bytes) -> dict[str, Any] | None:
    """The setup in the plugin; None if the file is not ours."""
    text = raw.decode("utf-8", "replace")
    _, found, after = text.partition(_SETUP)
    if not found or "fleethook" not in text:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(after)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _folder(where: InstallScope) -> Path:
    return where.moved("XDG_CONFIG_HOME", ".config") / "opencode"


def _troubles(where: InstallScope, scope: Scope) -> Iterator[InstallProblem]:
    if where.environ.get("OPENCODE_PURE", "") in {"1", "true"}:
        yield InstallProblem("OPENCODE_PURE is set, so OpenCode loads no plugin", "unset OPENCODE_PURE")
    if scope == "project" and where.environ.get("OPENCODE_DISABLE_PROJECT_CONFIG", "") in {"1", "true"}:
        yield InstallProblem(
            "OPENCODE_DISABLE_PROJECT_CONFIG is set, so OpenCode reads nothing of the project", "unset it"
        )


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "hook": "tool.execute.before",
        "directory": str(cwd),
        "worktree": str(cwd),
        "input": {"tool": "bash", "sessionID": f"fleethook-doctor-{token}", "callID": f"call_fleethook_{token}"},
        "output": {"args": {"command": command, "description": "fleethook doctor: nothing runs this"}},
    }
    return Canary("tool.execute.before", payload)


PROGRAM: Final = Program(
    name="opencode",
    label="OpenCode",
    binaries=("opencode",),
    form=PluginFile(),
    places={
        "user": lambda where: _folder(where) / "plugins" / FILE,
        "project": lambda where: where.project / ".opencode/plugins" / FILE,
    },
    canary=_canary,
    understood=block_check.denying,
    folder=_folder,
    troubles=_troubles,
    runs=_runs,
    later={"tool.execute.after": "session.idle"},
)
