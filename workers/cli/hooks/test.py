"""`fleethook hooks test`: the tests of a hook file, and what the hooks would say to one event."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from workers.cli.common import CheckFailed, Context, common_options, error_report, pass_fleet
from workers.cli.formatting import event_subject, plain, verdict_lines
from workers.cli.hooks.listing import short_origin
from workers.cli.hooks.sets import PLUGIN_DIR, PLUGIN_OWNER, in_force, sound, sound_with_tests
from workers.cli.parameters import DURATION
from workers.cli.simulation.given_event import given_event
from workers.records.hook_list import hook_record

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.config.files import Stamp
    from bus.hooksets.hookfile import HookFile
    from workers.admin.hook_test_runs import HookTestResult

POLL_SECONDS: Final = 0.5
"""How often `--watch` checks whether a file has changed (seconds)."""
_MOST_SHOWN: Final = 2000
"""The most characters of a failure on the terminal; `--json` and `--junit` have all of it."""


class _TestRun(NamedTuple):
    """How the tests of a file are run."""

    file: Path | None
    names: str
    junit: Path | None
    seconds: float


@click.command()
@click.argument("kind", metavar="[EVENT_TYPE|FILE]", default="")
@click.option(
    "--event",
    "given",
    metavar="FILE|ID",
    help="The event: a JSON file (- for stdin) in an agent's form or Fleethook's, or the id of a stored event.",
)
@click.option("--tool", default="", metavar="TOOL", help="The tool, by its canonical name or the agent's own.")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="KEY=VALUE",
    help="A field, e.g. command='rm -rf /', prompt=hello or data.x=1.",
)
@click.option(
    "--source", default="", metavar="AGENT", help="The agent. Default: generic, or the agent of the payload in --event."
)
@click.option(
    "--cwd", type=click.Path(file_okay=False, path_type=Path), help="The folder of the event. Default: the current one."
)
@click.option(
    "--file", type=click.Path(path_type=Path, allow_dash=True), help="Test the hooks of this file, not those in force."
)
@PLUGIN_DIR
@PLUGIN_OWNER
@click.option("--run", "effects", is_flag=True, help="Run command hooks and call http hooks too.")
@click.option("--budget", type=DURATION, metavar="TIME", help="How long the verdict may take.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if the verdict is deny.")
@click.option("-k", "names", default="", metavar="TEXT", help="Only the tests whose names contain this.")
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write the tests' results as JUnit XML, too."
)
@click.option("--watch", is_flag=True, help="Run the tests again whenever the file or a script that it names changes.")
@common_options
@pass_fleet
def test(
    fleet: Context,
    kind: str,
    given: str | None,
    tool: str,
    values: Sequence[str],
    source: str,
    cwd: Path | None,
    file: Path | None,
    plugin_dirs: Sequence[Path],
    owner: str | None,
    effects: bool,
    budget: float | None,
    exit_code: bool,
    names: str,
    junit: Path | None,
    watch: bool,
) -> None:
    """Run the tests of a hook file. With an event, show which hooks fit it and what they would decide.

    An argument that ends in .yaml, .yml or .json, or starts with / or ./, is a hook file, as in --file. Nothing is sent,
    and neither server nor workers are needed. The tests run the file's commands. Exit codes: 1 where a test fails, 4 where
    the file has mistakes or no tests.

    \b
    fleethook hooks test
    fleethook hooks test team/fleethook.yaml
    fleethook hooks test -k push --junit report.xml
    fleethook hooks test --watch
    fleethook hooks test tool:pre_execute:bash --set command='git push --force'
    fleethook hooks test PreToolUse --source claude --tool Write --set file_path=/etc/passwd
    fleethook hooks test user:prompt_submit --set prompt='what is the password?'
    fleethook hooks test --event e01a2032eb55b106db3bd1e9c0449ccdf
    """
    import asyncio

    import msgspec

    from bus.hooks import NATIVE
    from workers.admin.dry_run import disabled_hooks, hooks_of, later, made_event, try_event

    if given is None and _is_file_name(kind):
        if file is not None:
            raise click.UsageError(f"{kind} and --file {file} are both hook files: name one")
        kind, file = "", Path(kind)
    if given is None and not kind:
        one_event = ("tool", "values", "source", "cwd", "plugin_dirs", "owner", "effects", "exit_code")
        _refuse_options(one_event, "is about one event: say EVENT_TYPE, or --event FILE|ID")
        seconds = fleet.settings().budget if budget is None else budget
        _run_tests(fleet, _TestRun(file, names, junit, seconds), watch=watch)
        return
    _refuse_options(("names", "junit", "watch"), "is about the tests of a file: say no event")
    here = (cwd or Path.cwd()).absolute()
    if given is not None:
        if values or tool:
            raise click.UsageError("--event brings its own fields: say --set and --tool without it")
        event = given_event(fleet, given, source=source, kind=kind, cwd=here)
    else:
        from bus.errors import PatternError

        try:
            event = made_event(kind, source=source or "generic", tool=tool, values=values, cwd=here)
        except PatternError as error:
            raise click.UsageError(str(error)) from error
    # `--set cwd=…` sets the folder of the event, which decides which project's hooks are tested.
    if file is not None and (plugin_dirs or owner):
        raise click.UsageError("--file is about one file alone: say --plugin-dir without it")
    tried = (
        hooks_of(sound(fleet, file)[1])
        if file is not None
        else in_force(fleet, Path(event.cwd), needed=False, plugin_dirs=plugin_dirs, owner=owner)
    )
    seconds = fleet.settings().budget if budget is None else budget
    fitting, verdict = asyncio.run(
        try_event(event, tried, effects=effects, seconds=seconds, policy=fleet.settings().on_failure)
    )
    background = later(event, tried, verdict)
    disabled = disabled_hooks(event, tried)
    if fleet.json:
        fleet.data(
            {
                "event": msgspec.to_builtins(event),
                "matched": [hook_record(hook) for hook in fitting],
                "not_run": [hook.id for hook in fitting if hook.kind != "rule" and not effects],
                "disabled": [hook_record(hook) for hook in disabled],
                "verdict": {"decision": verdict.decision, **msgspec.to_builtins(verdict)},
                "background": background,
            }
        )
    else:
        lines = [
            f"event    {plain(event.type)}  {plain(event.tool)}".rstrip(),
            f"  {fleet.style(event_subject(event, 200), 'cyan')}",
        ]
        lines += [
            f"  meets {fleet.style(hook.dialect, 'cyan')} {plain(hook.id)} from {plain(short_origin(hook.origin))}"
            for hook in fitting
            if hook.dialect != NATIVE
        ]
        lines += verdict_lines(fleet, verdict)
        if not fitting:
            lines.append("  no blocking hook fits")
        lines += [
            f"  disabled  {plain(hook.id)} from {plain(short_origin(hook.origin))}: it would fit" for hook in disabled
        ]
        lines += [f"afterwards  {name}: {', '.join(ids)}" for name, ids in background.items() if ids]
        fleet.data("\n".join(lines))
    if exit_code and verdict.blocks:
        raise CheckFailed("")


def _is_file_name(text: str) -> bool:
    """Whether an argument is the name of a file; no event type looks like one."""
    return text.startswith(("/", "./", "../", "~/")) or text.endswith((".yaml", ".yml", ".json"))


def _refuse_options(names: Sequence[str], why: str) -> None:
    """Raise a usage error if one of these options is given; `why` ends the sentence."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} {why}")


def _run_tests(fleet: Context, run: _TestRun, *, watch: bool) -> None:
    """Run the tests once; with `watch`, again after every change until Ctrl-C."""
    from bus.errors import ConfigError

    if not watch:
        files: dict[str, Stamp] = {}
        if not _run_once(fleet, run, files):
            raise CheckFailed("")
        return
    if run.file is not None and str(run.file) == "-":
        raise click.UsageError("--watch needs a file, and stdin is none")
    while True:
        files = {}
        try:
            _run_once(fleet, run, files)
        except ConfigError as error:  # a person also saves files that are half written
            fleet.say(fleet.style(str(error), "red", err=True))
            if fleet.json:
                fleet.stream({"error": error_report(error)})
        if not files:
            raise ConfigError("there is no file to watch", hint="write one, or name it by --file")
        fleet.say(fleet.style(f"watching {len(files)} files; Ctrl-C ends it", "bright_black", err=True))
        changed = _wait_for_change(files)
        fleet.say(f"{short_origin(changed)} has changed")


def _wait_for_change(files: dict[str, Stamp]) -> str:
    """The first of the files that has changed."""
    from bus.config.files import stamp

    while True:
        changed = next((name for name, before in files.items() if stamp(name) != before), "")
        if changed:
            return changed
        time.sleep(POLL_SECONDS)


def _run_once(fleet: Context, run: _TestRun, files: dict[str, Stamp]) -> bool:
    """Run the tests, and print and write their results; returns whether all passed.

    `files` gets the stamps of the file, its imports and the scripts that its commands name. Raises ConfigError if the file has
    mistakes, or no test.
    """
    import asyncio

    from bus.config.documents import recording_files
    from bus.errors import ConfigError
    from bus.hooksets.hook_tests import matching
    from workers.admin.hook_test_runs import run_tests

    with recording_files() as read_files:
        try:
            name, read, tests = sound_with_tests(fleet, run.file)
        finally:
            files.update(read_files)
    files.update(_scripts(read, name))
    chosen = matching(tests, run.names)
    if not chosen:
        text, hint = (
            "the file has no tests",
            "`fleethook hooks new` writes a hook with one; docs/writing-hooks.md has the fields",
        )
        if tests:
            text, hint = f"no test's name contains {run.names!r}", f"the file has {len(tests)}; see `tests:` in it"
        raise ConfigError(text, file=name, hint=hint)

    fleet.quiet = True  # the results say why a hook failed

    async def work() -> list[HookTestResult]:
        results = []
        async for result in run_tests(read, chosen, seconds=run.seconds, policy=fleet.settings().on_failure):
            results.append(result)
            if not fleet.json:
                _show_result(fleet, result)
        return results

    results = asyncio.run(work())
    failed = sum(not result.passed for result in results)
    if run.junit is not None:
        _write_junit(run.junit, name, results)
    if fleet.json:
        fleet.stream(_report(name, results))
    else:
        seconds = sum(result.seconds for result in results)
        counts = f"{len(results) - failed} passed" + (f", {failed} failed" if failed else "")
        fleet.data(fleet.style(f"{short_origin(name)}: {counts} ({seconds:.2f} s)", "red" if failed else "green"))
    return not failed


def _scripts(read: HookFile, name: str) -> dict[str, Stamp]:
    """The stamps of the files that the commands of a hook file name."""
    from bus.config.files import stamp
    from bus.hooksets.named_files import files_from, named_files

    folder = str(Path(name).absolute().parent)
    found = {path for hook in read.hooks for path in (*named_files(hook, folder), *files_from(hook, folder))}
    return {path: stamp(path) for path in sorted(found)}


def _show_result(fleet: Context, result: HookTestResult) -> None:
    """One line for a test that passed; for a failed test also its place and the expectations that were not met."""
    from bus.secrets.redaction import redact_text

    test = result.test
    if result.passed:
        fleet.data(f"{fleet.style('✓', 'green')} {plain(test.name)}")
        return
    place = fleet.style(f"{short_origin(test.file)}:{test.line}", "bright_black")
    fleet.data(f"{fleet.style('✗', 'red')} {plain(test.name)}  {place}")
    for failure in result.failures:
        fleet.data(f"    {plain(redact_text(failure), _MOST_SHOWN)}")


def _report(name: str, results: Sequence[HookTestResult]) -> dict[str, Any]:
    """The results as `--json` gives them; secrets are redacted."""
    from bus.secrets.redaction import redact_text

    tests = [
        {
            "name": result.test.name,
            "passed": result.passed,
            "line": result.test.line,
            "expected": result.test.expected.expect,
            "came": redact_text(result.came),
            "hooks": [part.hook for part in result.verdict.parts],
            "failures": [redact_text(text) for text in result.failures],
            "seconds": round(result.seconds, 3),
        }
        for result in results
    ]
    passed = sum(result.passed for result in results)
    return {
        "file": name,
        "ok": passed == len(results),
        "passed": passed,
        "failed": len(results) - passed,
        "tests": tests,
    }


def _write_junit(path: Path, name: str, results: Sequence[HookTestResult]) -> None:
    from bus.errors import ConfigError
    from workers.admin.junit import junit_xml

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(junit_xml(short_origin(name), results))
    except OSError as error:
        raise ConfigError(f"the report cannot be written: {error.strerror}", file=str(path)) from error
