"""The command's frame: what it costs, how it speaks, what its exit codes mean."""

from __future__ import annotations

import importlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from bus import errors
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.matching.rules import judge
from workers.cli import COMMANDS, root
from workers.cli.common import (
    CheckFailed,
    Context,
    LazyGroup,
    PartlyDone,
    common_options,
    exit_code,
    pass_fleet,
    run_command,
)
from workers.cli.output import colours, printable, styler, to_json
from workers.cli.up import STARTER

REPOSITORY = Path(__file__).parents[4]
HEAVY = (
    "redis",
    "rq",
    "aiohttp",
    "asyncio",
    "msgspec",
    "msgpack",
    "yaml",
    "rich",
    "logging",
    "bus.config",
    "bus.wire.embedded_server",
)


_COLLECTIONS = """
import gc, sys, workers.cli
found = []
gc.callbacks.append(lambda phase, about: found.append(about["generation"]))
try:
    workers.cli.main(["config", "show"])
finally:
    print(found, gc.get_freeze_count() > 1000, file=sys.stderr)
"""


def a_root(work: Callable[[Context], Any]) -> LazyGroup:
    """A root with the one command `do`, which does `work`."""

    @click.group(cls=LazyGroup)
    @click.option("-v", "verbose", is_flag=True)
    @click.pass_context
    def top(ctx: click.Context, verbose: bool) -> None:
        ctx.ensure_object(Context).verbose = verbose

    @top.command()
    @common_options
    @pass_fleet
    def do(fleet: Context) -> None:
        work(fleet)

    return top


def raising(error: BaseException) -> LazyGroup:
    """A root whose command `do` raises."""

    def work(_: Context) -> None:
        raise error

    return a_root(work)


def test_help_imports_click_and_nothing_heavy() -> None:
    """The whole help page comes out of the table; `import bus.errors` is all that it needs of us."""
    program = (
        "import sys\nfrom workers.cli import root\nfrom workers.cli.common import run_command\n"
        f"code = run_command(root, ['--help'])\nheavy = [n for n in {HEAVY!r} if n in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stderr
    assert [name for name in COMMANDS if f"\n  {name} " not in done.stdout] == []


def help_pages(command: click.Command, parent: click.Context | None = None) -> Iterator[str]:
    """The help of a command and of all commands below it, for 80 columns."""
    ctx = click.Context(command, info_name=command.name, parent=parent, terminal_width=80)
    yield command.get_help(ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from help_pages(below, ctx)


def test_no_sentence_of_a_list_of_commands_is_cut() -> None:
    """Click ends a sentence that is longer than the line with three dots; a second line says the rest."""
    pages = [*help_pages(root)]
    assert len(pages) > 80
    lists = [page.partition("\nCommands:\n")[2].splitlines() for page in pages]
    assert [line for lines in lists for line in lines if line.endswith("...")] == []


def test_every_command_of_the_table_is_there() -> None:
    """A row that names a module or a function that does not exist would only show when somebody uses it."""
    broken = []
    for name, row in COMMANDS.items():
        module, _, attribute = row.target.partition(":")
        if not isinstance(getattr(importlib.import_module(module), attribute, None), click.Command):
            broken.append(name)
    assert broken == []


@pytest.mark.parametrize(
    ("typed", "meant"), [(["statsu"], "status"), (["hook"], "hooks"), (["worker", "evaluater"], "evaluator")]
)
def test_an_unknown_command_is_a_usage_error_that_guesses(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(root, typed) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "did you mean" in err
    assert meant in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CheckFailed("x"), 1),
        (errors.NotFound("x"), 1),
        (OSError("x"), 1),
        (RuntimeError("x"), 1),
        (click.UsageError("x"), 2),
        (errors.DecodeError("x"), 2),
        (errors.Unreachable("x"), 3),
        (errors.NoEvaluator("x"), 3),
        (errors.ServerError("x"), 3),
        (errors.RequestTimeout("x"), 3),
        (errors.ConfigError("x"), 4),
        (errors.PatternError("x"), 4),
        (PartlyDone("x"), 5),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of the design, and nothing of it on stdout, where the data goes."""
    assert run_command(raising(error), ["do"]) == code
    assert capsys.readouterr().out == ""
    if code != 130:
        assert exit_code(error) == code


def test_an_error_says_what_and_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """Redacted, in one line, without a traceback unless -v wants one; as an object for --json."""
    top = raising(errors.Unreachable("redis://bus:hunter2secret@db.example:6379 is away\x1b[2J; run `fleethook up`"))
    assert run_command(top, ["do"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("fleethook: redis://")
    assert err.endswith("run `fleethook up`\n")
    assert err.count("\n") == 1
    assert "hunter2secret" not in err
    assert "\x1b" not in err
    assert run_command(top, ["-v", "do"]) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "hunter2secret" not in err
    assert (
        run_command(raising(errors.ConfigError("bad", file="f.yaml", line=3, column=7, hint="mend")), ["do", "--json"])
        == 4
    )
    said = json.loads(capsys.readouterr().err)
    assert said == {
        "error": {
            "kind": "ConfigError",
            "code": 4,
            "message": "bad",
            "file": "f.yaml",
            "line": 3,
            "column": 7,
            "hint": "mend",
        }
    }


def test_findings_that_said_everything_say_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(raising(CheckFailed("")), ["do"]) == 1
    assert capsys.readouterr().err == ""


def test_whoever_reads_may_stop_reading() -> None:
    """`fleethook … | head -1`: a closed pipe is no error, and says nothing."""
    process = subprocess.Popen(
        [sys.executable, "-m", "workers", "config", "schema"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(30), said) == (0, b"")


def test_common_options_reach_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Context] = []
    assert run_command(a_root(seen.append), ["do", "--json", "-n", "other"]) == 0
    assert (seen[0].json, seen[0].namespace, seen[0].keys().prefix) == (True, "other", "fh:other:{0}:")
    assert run_command(a_root(lambda fleet: fleet.settings()), ["do", "-n", "No Name"]) == 4
    assert "--namespace" in capsys.readouterr().err


def test_nobody_is_asked_where_nobody_sits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(a_root(lambda fleet: fleet.confirm("Really?")), ["do"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert run_command(a_root(lambda fleet: fleet.confirm("Really?", yes=True)), ["do"]) == 0


def test_data_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """An event's text is shown, never obeyed; the same in a table, where a line break would break the row."""
    assert printable("a\x1b]0;title\x07b\tc\nü") == "a\\x1b]0;title\\x07b\tc\nü"
    Context().table(("id", "what"), [("e1", "two\nlines \x1b[31mred"), ("e22", None)])
    assert capsys.readouterr().out == "id   what\ne1   two lines \\x1b[31mred\ne22  -\n"
    run_command(a_root(lambda fleet: fleet.data("x\x1b[2J")), ["do"])
    assert capsys.readouterr().out == "x\\x1b[2J\n"
    green = styler(True)("ok \x1b[8m", "green")
    assert printable(f"{green} \x1b[2J\x1b[30mx", colour=True) == "\x1b[32mok \\x1b[8m\x1b[0m \\x1b[2J\\x1b[30mx"
    assert printable("rm \u202efdp") == "rm \\u202efdp"


def test_json_holds_what_events_hold(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Lone surrogates and bytes come out as JSON that every reader takes; one line a record."""
    run_command(a_root(lambda fleet: fleet.stream({"text": "ü \ud800", "raw": b"\xff", "path": Path("/x")})), ["do"])
    out = capsysbinary.readouterr().out
    assert out.count(b"\n") == 1
    assert json.loads(out) == {"text": "ü \ud800", "raw": "\\xff", "path": "/x"}
    assert json.loads(to_json({"set": {"b", "a"}})) == {"set": ["a", "b"]}


@pytest.mark.req("G-20")
def test_the_starter_file_is_right_with_its_examples_taken_in() -> None:
    """What `up` writes is valid, protects at once, and so are the examples in its comments."""
    assert not parse_hook_file(STARTER, "user").problems
    text = re.sub(r"^# (?=hooks:|  )", "", STARTER, flags=re.MULTILINE)
    file = parse_hook_file(text, "user")
    assert not file.problems
    assert file.guards["destructive-commands"].enabled
    guard, note = file.hooks
    assert guard.rule is not None
    for command, fits in (("git add src/.env", True), ("cd x && git add .env", True), ("git add src/a.py", False)):
        event = Event(type="tool:pre_execute", tool="bash", input={"command": command}, cwd="/home/dev/app")
        assert (judge(guard.rule, event) is not None) is fits
    assert not note.blocking


@pytest.mark.parametrize(
    ("variables", "wanted", "tty", "expected"),
    [
        ({}, None, False, False),
        ({}, None, True, True),
        ({"NO_COLOR": "1"}, None, True, False),
        ({"FORCE_COLOR": "1"}, None, False, True),
        ({"FORCE_COLOR": "0"}, None, False, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, None, True, False),
        ({"TERM": "dumb"}, None, True, False),
        ({"FORCE_COLOR": "1"}, False, True, False),
    ],
)
def test_colour_only_where_it_helps(
    variables: dict[str, str], wanted: bool | None, tty: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return tty

    assert colours(Stream(), wanted) is expected


def test_a_command_searches_no_garbage_among_what_stays_to_its_end(tmp_path: Path) -> None:
    """Neither while it starts nor when it ends: both took a quarter of its CPU."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _COLLECTIONS],
        env={"FLEETHOOK_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "[] True"), done.stderr
