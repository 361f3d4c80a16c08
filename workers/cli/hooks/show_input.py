"""`fleethook hooks show-input`: the stdin and environment that a command hook got for an event."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.formatting import plain, pretty, when
from workers.cli.hooks.listing import short_origin
from workers.cli.hooks.sets import in_force
from workers.cli.screens.columns import wrapped_lines

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.events import Event
    from bus.hooks import Hook
    from workers.admin.hook_input import HookInput
    from workers.records.events import RecordedEvent

_MOST_VALUE: Final = 200
"""The most characters of a variable's value on the terminal."""
_MOST_STDIN: Final = 20_000
_SEVERAL: Final = re.compile(r"[;&|\n]")
"""A command line with several commands: a pipe would go into the first one only, and `exit` would end the person's shell."""


@click.command("show-input")
@click.argument("name", metavar="ID")
@click.option("--hook", "hook_id", default="", metavar="HOOK", help="The hook, if several commands fit the event.")
@click.option(
    "--stdin-only", is_flag=True, help="Print the bytes of stdin and nothing else: for a pipe into the command."
)
@common_options
@pass_fleet
def show_input(fleet: Context, name: str, hook_id: str, stdin_only: bool) -> None:
    """Show what a command hook got for an event: stdin, environment, command line and directory.

    ID is an event's id or an unambiguous beginning of it. The input is not recorded: it is built again from the stored event,
    with the hook as it is now. Secrets are redacted, except with --stdin-only.

    \b
    fleethook hooks show-input e01a2032eb
    fleethook hooks show-input e01a2032eb --hook house-style --stdin-only | ./check-style.sh
    """
    from bus.ids import host_name
    from workers.admin.hook_input import command_hooks, hook_inputs
    from workers.records.stored_events import stored_event

    event, seen = fleet.run(lambda connections: stored_event(connections, fleet.keys(), name))
    # Without a known machine and folder, only the fleet's and the user's hooks are checked.
    hooks = in_force(fleet, Path(event.cwd or "/"))
    fitting = command_hooks(event, seen.verdict, hooks)
    if event.host != host_name():  # the event's host has its user's and its project's hooks
        fitting = [hook for hook in fitting if hook.layer == "fleet"]
    chosen = [hook for hook in fitting if hook_id in {"", hook.id}]
    if not chosen:
        _no_hook(event, seen, hook_id, [hook.id for hook in fitting])
    if stdin_only:
        if len(chosen) > 1:
            raise click.UsageError(f"the event fits {', '.join(hook.id for hook in chosen)}: name one by --hook")
        sys.stdout.buffer.write(
            b"".join(hook_input.stdin for hook_input in hook_inputs(chosen[0], event, seen.asked)[:1])
        )
        sys.stdout.buffer.flush()
        return
    records = [
        _record(seen, hook_input, hook) for hook in chosen for hook_input in hook_inputs(hook, event, seen.asked)
    ]
    notes = _notes(event, seen)
    if fleet.json:
        fleet.data({"event": event.id, "notes": notes, "inputs": records})
        return
    fleet.data(wrapped_lines([f"event    {plain(event.type)}  {event.id}  {when(seen.ms)}"]))
    for note in notes:
        fleet.data(wrapped_lines([fleet.style(f"note     {note}", "yellow")]))
    for record in records:
        _show(fleet, event.id, record)


def _no_hook(event: Event, seen: RecordedEvent, wanted: str, fitting: list[str]) -> None:
    """Raise NotFound with the reason why there is nothing to show."""
    from bus.errors import NotFound

    if wanted and fitting:
        raise NotFound(f"no command hook {wanted!r} fits the event; {', '.join(fitting)} do")
    ran = [part.hook for part in seen.verdict.parts if part.exit_code is not None] if seen.verdict is not None else []
    text = f"no command hook that is in force here fits the event {event.id}"
    if ran:
        raise NotFound(f"{text}; {', '.join(ran)} ran, and is not in force any more, or only on the host {event.host}")
    raise NotFound(f"{text}; `fleethook hooks list` shows what is in force")


def _notes(event: Event, seen: RecordedEvent) -> list[str]:
    """The differences that are possible to what the commands really got."""
    from bus.ids import host_name

    notes = []
    if event.host and event.host != host_name():
        notes.append(f"it happened on {event.host}: hooks and variables of that machine are not known here")
    if seen.verdict is not None and seen.verdict.updated_input:
        notes.append("hooks rewrote the tool's input: hooks that look at it again got the new input after this one")
    if seen.pending:
        notes.append("its verdict is not there yet")
    return notes


def _record(seen: RecordedEvent, given: HookInput, hook: Hook) -> dict[str, Any]:
    """One input as `--json` gives it; secrets are redacted."""
    from bus.secrets.redaction import redact, redact_text
    from bus.system.descendants import RUN
    from workers.admin.hook_input import recorded_part

    part = recorded_part(hook, seen.verdict)
    stdin = given.stdin.decode("utf-8", "replace")
    redacted: Any = redact(given.env)
    line = given.argv if isinstance(given.argv, str) else shlex.join(given.argv)
    return {
        "hook": hook.id,
        "origin": hook.origin,
        "version": hook.version,
        "ran": None
        if part is None
        else {
            "decision": part.decision,
            "exit_code": part.exit_code,
            "ms": part.ms,
            "failure": redact_text(part.fallback),
            "version": part.version,
            "same_version": part.version == hook.version,
        },
        "command": redact_text(line),
        "directory": given.directory,
        "stdin": _redacted_json(stdin),
        "stdin_bytes": len(given.stdin),
        "redacted": _redacted_json(stdin) != stdin,
        "environment": redacted,
        "inherited": sorted(given.inherited),
        "new_each_time": [RUN],
    }


def _redacted_json(text: str) -> str:
    """JSON with its secrets redacted; any other text is redacted as text."""
    import json

    from bus.secrets.redaction import redact, redact_text

    try:
        value = json.loads(text)
    except ValueError:
        return redact_text(text)
    redacted = redact(value)
    return text if redacted == value else json.dumps(redacted, ensure_ascii=False) + "\n"


def _show(fleet: Context, name: str, record: dict[str, Any]) -> None:
    """One input in the form for people."""
    lines = ["", f"hook     {fleet.style(plain(record['hook']), 'cyan')} from {plain(short_origin(record['origin']))}"]
    ran = record["ran"]
    if ran is None:
        lines.append("ran      in the background, or not at all: the verdict has no part of it")
    else:
        code = "" if ran["exit_code"] is None else f", exit {ran['exit_code']}"
        lines.append(f"ran      {ran['failure'] or ran['decision']}{code}, {ran['ms']:.0f} ms")
        if not ran["same_version"]:
            lines.append(fleet.style("note     the hook's file has changed since then", "yellow"))
    lines += [f"command  {plain(record['command'], _MOST_STDIN)}", f"in       {plain(record['directory'], 4096)}"]
    lines.append(f"stdin    {record['stdin_bytes']} bytes" + (", secrets redacted here" if record["redacted"] else ""))
    lines += [f"  {line}" for line in pretty(record["stdin"])[:_MOST_STDIN].splitlines()]
    inherited = set(record["inherited"])
    lines.append("environment of this hook and event")
    lines += [_variable(key, value) for key, value in sorted(record["environment"].items()) if key not in inherited]
    lines.append("environment that it inherits, as in this shell; the worker's may differ")
    lines += [_variable(key, value) for key, value in sorted(record["environment"].items()) if key in inherited]
    lines.append(
        f"{', '.join(record['new_each_time'])} is new each time: by it the worker finds the processes of the command"
    )
    command = f"fleethook hooks show-input {name} --hook {record['hook']} --stdin-only"
    program = plain(record["command"], _MOST_STDIN)
    if _SEVERAL.search(program):
        program = f"sh -c {shlex.quote(program)}"
    lines += [
        "by hand",
        f"  cd {shlex.quote(record['directory'])} && {command} | {program}",
    ]
    fleet.data("\n".join(lines))


def _variable(name: str, value: object) -> str:
    return f"  {name}={plain(str(value), _MOST_VALUE)}"
