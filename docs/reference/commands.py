"""docs/commands.md: every command with its options, from the command line itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from docs.reference.fields import code, table
from workers.cli import root


def every_command() -> Iterator[tuple[click.Context, click.Command]]:
    """Every command below `fleethook` that is not hidden, groups before their members."""
    yield from _below(root, click.Context(root, info_name="fleethook"))


def _below(group: click.Group, context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield inner, command
        if isinstance(command, click.Group):
            yield from _below(command, inner)


_COMMON: Final = [
    (code("--json"), "After the command: machine-readable output."),
    (
        code("-n, --namespace NAME"),
        "Before or after the command: the fleet to look at, instead of the one that is set.",
    ),
]


_AS_WRITTEN: Final = "\b\n"
"""How click marks a paragraph whose lines stay as they are."""


def commands_page() -> str:
    """The page of commands."""
    sections = "\n".join(_section(context, command) for context, command in every_command())
    return f"""\
# Commands

Every command has `--help`. Most have `--json` for programs and `-n NAME` for another fleet; both are listed once, here.
Exit codes: 0 ok, 1 findings or refused, 2 usage, 3 unreachable, 4 configuration invalid, 5 partly done, 130 interrupted.

{table(("option", "meaning"), [*_options(root, click.Context(root)), *_COMMON])}
{sections}"""


def _section(context: click.Context, command: click.Command) -> str:
    lines = ["##" + "#" * (context.command_path.count(" ") > 1) + f" {context.command_path}", ""]
    lines += [_prose(command.help or ""), ""]
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines += [] if isinstance(command, click.Group) else [code(usage), ""]
    rows = list(_options(command, context))
    return "\n".join([*lines, table(("option", "meaning"), rows)] if rows else lines)


def _prose(text: str) -> str:
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        f"```text\n{paragraph.removeprefix(_AS_WRITTEN)}\n```"
        if paragraph.startswith(_AS_WRITTEN)
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        record = option.get_help_record(context)
        if record is None or option.name in {"json", "namespace"}:
            continue
        names = re.sub(r"\s+", " ", record[0])
        yield code(names), " ".join(record[1].split())
