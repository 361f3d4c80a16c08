"""Generates a new hook with its tests, and the script of a command, for `hooks new`; the user edits them."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from bus.agents import find
from bus.config.documents import loads
from bus.config.edit_add import flow, replace_file, with_entry
from bus.config.field_types import ID_PATTERN
from bus.config.files import read_file
from bus.errors import ConfigError, PatternError
from bus.events import STOPS, EventType
from bus.hooksets.hook_tests import native_event
from bus.matching.patterns import parse_pattern

HookKind = Literal["rule", "command", "python", "http"]
KINDS: Final[tuple[HookKind, ...]] = get_args(HookKind)

_FILES: Final = ("write", "edit", "read", "notebook_edit")
"""Tools that take a file: their example checks the path, and that of `bash` the command."""

_TYPE: Final = re.compile(r"[a-z_]+(?::[A-Za-z_]+)+")


class NewHook(NamedTuple):
    """A hook to be written: the YAML of its entry and of each test, and its script, if any, with the text."""

    name: str
    entry: str
    tests: tuple[str, ...]
    script: Path | None = None
    text: str = ""


class Example(NamedTuple):
    """What a new hook checks in events of one type, and the events of its tests.

    The checked text contains the hook's name, so that no other hook of the file decides in its tests.
    """

    when: str
    """The condition in CEL."""
    rule: str
    """The same as a rule's condition in YAML; empty if rules have no such condition and `when` is used."""
    text: str
    """The text that a script searches in the event's JSON; empty if the script never denies."""
    stopped: str
    """The event of the test that is denied, in the fields of tests."""
    allowed: str


_REASON: Final = "Say here why, and what to do instead."


def check_name(name: str) -> None:
    """Raise ConfigError for a name that is no id of a hook."""
    if not re.match(ID_PATTERN, name):
        raise ConfigError(
            f"{name[:64]!r} is no id of a hook", hint="write up to 64 letters, digits, `_` and `-`, e.g. no-force-push"
        )


def new_hook(name: str, kind: HookKind, on: str, *, file: Path, url: str = "") -> NewHook:
    """A hook of this kind for this event and hook file; `url` is for an http hook.

    Raises PatternError for an event that does not exist, or for several events.
    """
    check_name(name)
    example = _example(name, on)
    head = f"- id: {flow(name)}\n  on: {_type_text(on)}\n"
    when = f"  when: {_quoted(example.when)}\n"
    hook = f"  hook: {flow(name)}\n"
    denied = f"- name: {name} stops what it is for\n{_indented(example.stopped)}  expect: deny\n{hook}"
    allowed = f"- name: {name} lets everything else pass\n{_indented(example.allowed)}  expect: allow\n"
    if kind == "rule":
        conditions = _indented(_indented(example.rule))
        decision = f"    decision: deny\n    reason: {_REASON}\n"
        return NewHook(name, f"{head}{'' if conditions else when}  rule:\n{conditions}{decision}", (denied, allowed))
    if kind == "http":
        policy = "  timeout: 5\n  on_failure: ask  # if there is no answer\n"
        expect = "allow" if _parsed(on)[0] in STOPS else "ask"
        unanswered = (
            f"- name: {name} has no answer yet  # once your service answers, expect what it says and remove `fails`\n"
            f"{_indented(example.stopped)}  expect: {expect}\n{hook}  fails: true\n"
        )
        return NewHook(name, f"{head}{when}  http: {flow(url)}\n{policy}", (unanswered, allowed))
    script = file.parent / "hooks" / f"{name}.{'py' if kind == 'python' else 'sh'}"
    entry = f"{head}  command: {_quoted(_command(script, file))}\n  timeout: 5\n"
    text = _python(name, example) if kind == "python" else _shell(name, example)
    tests = (denied, allowed) if example.text else (allowed + hook,)
    return NewHook(name, entry, tests, script, text)


def with_hook(text: str, file: str, hook: NewHook) -> str:
    """A hook file's text with the hook and its tests added; the rest stays. Raises ConfigError if it cannot be edited."""
    text = with_entry(text, file, "hooks", _plain(hook.entry), hook.entry)
    for test in hook.tests:
        text = with_entry(text, file, "tests", _plain(test), test)
    return text


def write_hook(file: Path, text: str, hook: NewHook) -> None:
    """Write the executable script, and then the hook file. Raises ConfigError rather than overwrite a script."""
    if hook.script is not None:
        _write_script(hook.script, hook.text)
    try:
        replace_file(file, text)
    except ConfigError:
        if hook.script is not None:
            hook.script.unlink()
        raise


def refuse_existing(file: Path, hook: NewHook) -> None:
    """Raise ConfigError if the file already has a hook or test of that name, or the script exists."""
    text = read_file(file) if file.exists() else ""
    value = loads(text, file=str(file)).value
    for key, field, names in (
        ("hooks", "id", [hook.name]),
        ("endpoints", "id", [hook.name]),
        ("tests", "name", [_plain(test)["name"] for test in hook.tests]),
    ):
        entries = value.get(key) if isinstance(value, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get(field) in names:
                what = f"{key[:-1]} {entry[field]!r}"
                raise ConfigError(
                    f"has a {what} already; nothing was changed", file=str(file), hint="choose another name"
                )
    if hook.script is not None and os.path.lexists(hook.script):
        raise ConfigError("is there already; nothing was changed", file=str(hook.script), hint="choose another name")


def _write_script(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            # Executable for every user who may read it by this user's umask, like a script from a repository.
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(stream.fileno(), 0o777 & ~mask | stat.S_IRWXU)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}; nothing was changed", file=str(path)) from error


def _command(script: Path, file: Path) -> str:
    """The command that starts the script: by a path from the repository's top if the file is there, else by its whole path.

    Commands run in the agent's folder, which may be below the project's.
    """
    if os.path.lexists(file.parent / ".git"):
        return f'"$(git rev-parse --show-toplevel)"/hooks/{script.name}'
    home = os.path.expanduser("~")
    whole = str(script)
    return f"~/{shlex.quote(os.path.relpath(whole, home))}" if whole.startswith(f"{home}/") else shlex.quote(whole)


def _parsed(on: str) -> tuple[str, str]:
    """The type and the tool in an event's name; raises PatternError if it names none, or several."""
    agent, native = native_event(on)
    if agent:
        return find(agent).capabilities[native].type, ""
    (pattern, *others) = parse_pattern(on)
    if others or not pattern.exact:
        raise PatternError(f"{on!r} names more than one event type", hint="write one of them; change `on` in the file")
    return pattern.type, pattern.tool


def _example(name: str, on: str) -> Example:
    event_type, tool = _parsed(on)
    if event_type == EventType.TOOL_PRE_EXECUTE and tool in ("", "bash"):
        return Example(
            when=f'event.tool == "bash" && event.input.command == "echo {name}"',
            rule=f"command: ['^echo {name}$']\n",
            text=f'"echo {name}"',
            stopped=f"command: echo {name}\n",
            allowed="command: git status\n",
        )
    if event_type == EventType.TOOL_PRE_EXECUTE and tool in _FILES:
        return Example(
            when=f'event.input.path.endsWith(".{name}")',
            rule=f"path: ['*.{name}']\n",
            text=f'.{name}"',
            stopped=f"tool: {tool}\npath: example.{name}\n",
            allowed=f"tool: {tool}\npath: README.md\n",
        )
    if event_type == EventType.USER_PROMPT_SUBMIT:
        return Example(
            when=f'event.data.prompt == "say {name}"',
            rule="",
            text=f'"say {name}"',
            stopped=f"prompt: say {name}\n",
            allowed="prompt: fix the tests\n",
        )
    kind = _type_text(on)
    return Example(
        when=f'event.session == "{name}"',
        rule="",
        text="",
        stopped=f"event: {{type: {flow(on)}, session: {flow(name)}}}\n",
        allowed=f"event: {kind}\n",
    )


def _shell(name: str, example: Example) -> str:
    check = (
        f"""
case $event in
  *{shlex.quote(example.text)}*)
    echo "{_REASON}" >&2
    exit 2
    ;;
esac
"""
        if example.text
        else "\n# Look at $event here.\n"
    )
    return f"""#!/bin/sh
# The hook {name}. It reads the event as JSON on stdin; FLEETHOOK_TOOL, FLEETHOOK_CWD and others are in the environment.
# Exit 0: no opinion. Exit 2: denied, and what it prints on stderr is the reason. Anything else: the hook has failed.
event=$(cat)
{check}
exit 0
"""


def _python(name: str, example: Example) -> str:
    check = (
        f"""
if {example.text!r} in json.dumps(event["input"] or event["data"]):
    print("{_REASON}", file=sys.stderr)
    sys.exit(2)
"""
        if example.text
        else "\n# Look at event here.\n"
    )
    return f"""#!/usr/bin/env python3
# The hook {name}. It reads the event as JSON on stdin: event["type"], event["tool"], event["input"], event["cwd"] and others.
# Exit 0: no opinion. Exit 2: denied, and what it prints on stderr is the reason. Anything else: the hook has failed.
import json
import sys

event = json.load(sys.stdin)
{check}"""


def _type_text(on: str) -> str:
    """An event type as YAML, without the quotes that `flow` would add because of the colons."""
    return on if _TYPE.fullmatch(on) else flow(on)


def _quoted(text: str) -> str:
    """A text as YAML; if it needs quotes, in single ones where possible, since such texts often contain double ones."""
    plain = flow(text)
    return f"'{text}'" if plain.startswith('"') and "'" not in text and text.isprintable() else plain


def _indented(block: str) -> str:
    return "".join(f"  {line}\n" for line in block.splitlines())


def _plain(block: str) -> dict[str, Any]:
    """The entry in a block of YAML that is a list of one item."""
    value: Any = loads(block).value
    entry: dict[str, Any] = value[0]
    return entry


def names_of_tests(hook: NewHook) -> Sequence[str]:
    """The names of its tests."""
    return [_plain(test)["name"] for test in hook.tests]
