"""`fleethook up`, `down` and `logs`: start and stop everything on this machine, and show its log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from bus.errors import FleethookError, ServerError
from workers.cli import output
from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.screens.progress import Progress
from workers.runtime.wording import counted

if TYPE_CHECKING:  # `logs` needs none of them
    from bus.system.directories import Directories
    from bus.wire.connections import Connections
    from workers.supervisor import State

READY_SECONDS: Final = 60.0
"""How long (seconds) `up --detach` and `status --wait` wait: a large append-only file takes long to load."""

LOG: Final = "fleethook.log"
OWN_LOG: Final = "up.log"
"""The file with the output of a detached `up`, which has the reason if it ends."""

SCHEMA: Final = "fleethook.schema.json"

STARTER: Final = f"""\
# yaml-language-server: $schema={SCHEMA}
# The hooks of this user, for every agent on this machine; in force within a second of saving this file.
# `fleethook config check` says what is wrong with it, `fleethook hooks test` tries an event on it.
version: 1

guards:
  destructive-commands: true   # rm -rf outside the project, force pushes, raw disk writes, curl | sh ...
  fleethook-itself: true       # fleethook's own commands, files and processes; hooks of agents switched off

# hooks:
#   - id: no-secrets-in-git
#     on: tool:pre_execute
#     tool: bash
#     rule: {{decision: deny, reason: keep .env out of git, commands: [{{program: [git], subcommand: [add], args: ["*.env"]}}]}}
#   - id: note-the-end
#     on: agent:stop
#     blocking: false
#     command: echo "$FLEETHOOK_SESSION" >> ~/agents.log
"""


@click.command()
@click.option("-d", "--detach", is_flag=True, help="Return when everything is ready; `down` stops it.")
@click.option("--evaluators", type=click.IntRange(0, 256), metavar="N", help="Processes that give verdicts.")
@click.option("--carriers", type=click.IntRange(0, 256), metavar="N", help="Processes that carry deliveries.")
@click.option("--chores", type=click.IntRange(0, 64), metavar="N", help="Processes that tidy up.")
@click.option("--no-echo", is_flag=True, hidden=True, help="Write lines only to the log.")
@common_options
@pass_fleet
def up(
    fleet: Context, detach: bool, evaluators: int | None, carriers: int | None, chores: int | None, no_echo: bool
) -> None:
    """Start everything on this machine: server, evaluators, dispatcher, carriers, gateway.

    Without FLEETHOOK_REDIS_URL a server of this machine's own is started; its data outlives it. Ctrl-C, or `fleethook
    down` from elsewhere, stops it all.
    """
    began = time.monotonic()
    from bus.system.directories import directories, make_private
    from workers.cli.hosts import warn_of_other_bus
    from workers.runtime.lifeline import take_lifeline
    from workers.supervisor import Log, running
    from workers.supervisor import up as supervise

    lifeline = take_lifeline()  # before the settings are read, because its variable is not a setting
    fleet.flags |= {"evaluators": evaluators, "carriers": carriers, "chores": chores}
    settings, places = fleet.settings(), directories()
    already = running(places)
    if already is not None:
        raise ServerError(
            f"`fleethook up` runs here already (process {already.pid}); "
            "`fleethook status` shows it, `fleethook down` stops it"
        )
    if settings.redis_url:
        fleet.run(_reach)
    warn_of_other_bus(fleet)
    make_private(places.log_dir, narrow=True)
    config, created = _config_file(places)
    if detach:
        state = _detach(fleet, places)
        _announce(fleet, places, state, (config, created), time.monotonic() - began)
        return
    from workers.cli import main
    from workers.fork_source import Forks
    from workers.runtime.child_processes import start_program

    forks = Forks(places, main) if Forks.are_possible() else None
    log = Log(places.log_dir / LOG)
    progress = Progress(fleet, "starting", at_once=True)

    def on_line(name: str, text: str) -> None:
        log(name, text)
        if not no_echo and not text.endswith(" ready"):
            with progress.hidden(), contextlib.suppress(OSError):  # the terminal may be gone while the last lines come
                fleet.say(f"{fleet.style(f'{name:<13}|', 'cyan', err=True)} {output.printable(text)}")

    def on_ready(_name: str, _waiting: int) -> None:
        state = running(places) if not no_echo else None
        if state is not None and state.ready:
            with progress.hidden():
                _announce(fleet, places, state, (config, created), time.monotonic() - began)
        elif state is not None:
            _show_starting(progress, state)

    async def work() -> int:
        from workers.runtime.lifeline import stop_event, watch_on_loop

        stop, start = stop_event(), forks.start if forks is not None else start_program
        watch_on_loop(lifeline)
        return await supervise(settings, places, on_line, on_ready, stop, start=start)

    try:
        with progress:
            if not no_echo:
                _show_starting(progress, None)
            run = forks.run if forks is not None else asyncio.run
            run(work())
    finally:
        log.close()
    if not no_echo:
        with contextlib.suppress(OSError):
            fleet.say("Everything has stopped; the data stays.")


@click.command()
@common_options
@pass_fleet
def down(fleet: Context) -> None:
    """Stop what `fleethook up` runs on this machine; what is under way is finished first."""
    from workers import supervisor

    fleet.require_person("down")
    if supervisor.running(fleet.directories()) is not None:
        from bus.ids import host_name
        from workers.cli.guard_reports import report_losses

        report_losses(fleet, "down", host_name(), ["every hook that runs here\nstopped until `fleethook up`"])
    stopped = supervisor.down(fleet.directories())
    if fleet.json:
        fleet.data({"stopped": stopped})
    else:
        fleet.say("Everything has stopped; the data stays." if stopped else "Nothing runs here.")


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Also show new lines, until Ctrl-C.")
@click.option("-p", "--process", metavar="NAME", help="Only this process: `evaluator`, or `evaluator.1`.")
@click.option("--lines", type=click.IntRange(0), default=200, show_default=True, help="How many of the last lines.")
@common_options
@pass_fleet
def logs(fleet: Context, follow: bool, process: str | None, lines: int) -> None:
    """Show what the processes of `fleethook up` wrote; secrets are redacted when it is written."""
    path = fleet.directories().log_dir / LOG
    if not path.exists():
        raise ServerError(f"there is no log at {path}; `fleethook up` writes one")
    file = path.open(encoding="utf-8", errors="replace")
    *whole, rest = file.read().split("\n")
    old = [*_lines(path.with_name(path.name + ".1")), *whole, *([rest] if rest and not follow else [])]
    wanted = [line for line in old if _of(line, process)]
    for line in wanted[len(wanted) - lines :] if lines < len(wanted) else wanted:
        _print(fleet, line)
    if not follow:
        file.close()
    else:
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the usual end, and no failure
            for line in _followed(path, file, rest):
                if _of(line, process):
                    _print(fleet, line)


def _config_file(places: Directories) -> tuple[Path, bool]:
    """The user's hook file, and whether it was made now: a first `up` protects from its first minute (X-07)."""
    from bus.system.directories import config_file

    found = config_file(places.config)
    if found is not None:
        return found, False
    from bus.config.schema import hook_file_schema

    path = places.config / "fleethook.yaml"
    (places.config / SCHEMA).write_text(json.dumps(hook_file_schema(), indent=1) + "\n", "utf-8")
    path.write_text(STARTER, "utf-8")
    return path, True


async def _reach(connections: Connections) -> None:
    """Raise Unreachable if the server is away: workers would wait for it, but the user of `up` has to know."""
    from bus.wire.streams import checked

    with connections.lease() as connection:
        checked((await connection.exchange([("PING",)]))[0], "asking the server")


def _announce(fleet: Context, places: Directories, state: State, config: tuple[Path, bool], seconds: float) -> None:
    """Show what runs now, how long the start took, and what to do next."""
    from workers.cli import version
    from workers.cli.gateway.pages import gateway_addresses, pages_url

    settings, (path, created) = fleet.settings(), config
    server = _server_text(fleet, places)
    if fleet.json:
        fleet.data(
            {
                "ready": True,
                "seconds": round(seconds, 3),
                "pid": state.pid,
                "namespace": settings.namespace,
                "server": server,
                "config": str(path),
                "created": created,
                "gateway": gateway_addresses(places),
                "pages": pages_url(fleet),
                "processes": [{"name": child.name, "pid": child.pid} for child in state.children],
            }
        )
        return
    note = " (created: the guards destructive-commands and fleethook-itself are on)" if created else ""
    fleet.say(f"fleethook {version()} · namespace {settings.namespace}")
    fleet.say(f"  {'config':<11} {path}{note}")
    fleet.say(f"  {'server':<11} {server}")
    counts = Counter(child.name.rpartition(".")[0] for child in state.children)
    for name, count in (counts if "gateway" in counts or not settings.gateways else counts | {"gateway": 1}).items():
        addresses = gateway_addresses(places) if name == "gateway" else []
        runs = sum(child.pid > 0 for child in state.children if child.name.rpartition(".")[0] == name)
        processes = [counted(runs, "process", "processes")] if runs else []
        processes += [f"up to {count}, while there is work"] if runs < count else []
        fleet.say(f"  {name:<11} {' and '.join(addresses) or ', '.join(processes)}")
        for title, line in zip(("pages", ""), _pages(fleet) if name == "gateway" else (), strict=False):
            fleet.say(f"  {title:<11} {line}")
    fleet.say(f"  {'log':<11} {places.log_dir / LOG}")
    ready = fleet.style("Ready", "green", err=True)
    installed = any(places.answer_file("any").parent.glob("[a-z]*"))
    following = "`fleethook doctor --live` proves that hooks run" if installed else "`fleethook install`"
    fleet.say(f"{ready} in {seconds:.1f} s. Next: {following}; `fleethook down` stops everything.")


def _pages(fleet: Context) -> tuple[str, ...]:
    """The pages' address and a note on it. A person at a terminal gets a one-time sign-in; elsewhere a log would keep it."""
    from bus.system.calling_agent import calling_agent
    from workers.cli.gateway.pages import one_time_address, pages_url

    url = pages_url(fleet)
    if not url:
        return ()
    if not sys.stderr.isatty() or calling_agent(os.environ) is not None:
        return (url, "`fleethook open` signs a browser in")
    try:
        with ThreadPoolExecutor(1) as thread:  # here an event loop may run
            return (
                thread.submit(one_time_address, fleet, url).result(),
                "signs one browser in, once, within ten minutes",
            )
    except FleethookError:  # a Redis URL with the rights of a worker
        return (url, "`fleethook open` with the admin's FLEETHOOK_REDIS_URL signs a browser in")


def _server_text(fleet: Context, places: Directories) -> str:
    url = fleet.settings().redis_url
    if url:
        from bus.secrets.redaction import redact_url

        return redact_url(url)
    with contextlib.suppress(OSError, ValueError, KeyError):
        record = json.loads((places.server_dir / "server.json").read_text("utf-8"))
        return f"{record['brand']} {record['version']} on {places.socket}, data in {places.server_dir}"
    return str(places.socket)


def _detach(fleet: Context, places: Directories) -> State:
    """Start `up` without a terminal and wait until it is ready; raises ServerError with its last output if it ends."""
    from workers.supervisor import detach, import_path

    path = places.log_dir / OWN_LOG
    said = path.stat().st_size if path.exists() else 0
    flags = [f"--{name}={value}" for name, value in fleet.flags.items() if value is not None]
    os.environ.update(import_path())
    command = [sys.executable, "-P", "-m", "workers.cli", "--no-color", "up", "--no-echo"]
    pid = detach([*command, f"--namespace={fleet.settings().namespace}", *flags], path)
    with Progress(fleet, "starting", at_once=True) as progress:
        return _wait_until_ready(fleet, places, pid, (path, said), progress)


def _wait_until_ready(
    fleet: Context, places: Directories, pid: int, words_of: tuple[Path, int], progress: Progress
) -> State:
    """The state of the detached `up` with this pid when it is ready; `words_of` is its log and the log's length before."""
    from workers.supervisor import running

    path, said = words_of
    until, warned = time.monotonic() + READY_SECONDS, False
    while time.monotonic() < until:
        state = running(places)
        if state is not None and state.ready:
            return state
        _show_starting(progress, state)
        failing = [child.name for child in state.children if child.restarts > 1] if state is not None else []
        if failing and not warned:
            warned = True
            with progress.hidden():
                fleet.say(f"{', '.join(failing)}: ended and started again; `fleethook logs` says why. Waiting on ...")
        words = path.read_bytes()[said:].decode("utf-8", "replace") if path.exists() else ""
        ended = [line for line in words.splitlines() if line.startswith("fleethook: ")]
        if ended or not _alive(pid):
            raise ServerError(ended[-1].removeprefix("fleethook: ") if ended else f"it ended at once; see {path}")
        time.sleep(0.02)
    raise ServerError(f"not ready within {READY_SECONDS:g} s, and left running; `fleethook logs` says why")


def _show_starting(progress: Progress, state: State | None) -> None:
    """Show what has started, and what is still starting."""
    children = state.children if state is not None else ()
    waiting = [child.name for child in children if not child.ready]
    ready = len(children) - len(waiting)
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    if not children:
        note = "waits for the server"
    elif waiting:
        note = f"{ready} of {counted(len(children), 'process', 'processes')} · waits for {waiting[0]}{more}"
    else:
        note = f"{counted(ready, 'process', 'processes')} · waits for an evaluator's first answer"
    progress.update(ready, len(children) + 1, note=note)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []


def _followed(path: Path, file: TextIO, rest: str) -> Iterator[str]:
    """Lines as they are added, also across a change to a new file; `rest` is the beginning of an incomplete line."""
    while True:
        rest += file.read()
        *whole, rest = rest.split("\n")
        yield from whole
        if whole:
            continue
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                rest += file.read()  # lines that were added between our last read and the change
                file.close()
                file = path.open(encoding="utf-8", errors="replace")
                continue
        time.sleep(0.1)


def _parts(line: str) -> tuple[str, str, str]:
    """The time, process and text of a line of the supervisor's log."""
    head, found, text = line.partition(" | ")
    moment, _, name = head.partition(" ")
    return (moment, name, text) if found else ("", "", line)


def _of(line: str, process: str | None) -> bool:
    if process is None:
        return True
    name = _parts(line)[1]
    return name == process or name.rpartition(".")[0] == process


def _print(fleet: Context, line: str) -> None:
    if fleet.json:
        moment, name, text = _parts(line)
        record: dict[str, Any] = {"time": moment, "process": name, "text": text}
        fleet.stream(record)
    else:
        output.write(line)
