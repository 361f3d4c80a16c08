"""`fleethook workflows test`: the tests of workflows, or events through one, without effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.hooks.sets import sound
from workers.cli.workflows import known_workflows

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hooks import Hook
    from workers.admin.workflows.session_tests import TestedEvent, WorkflowTestResult


@click.command()
@click.argument("name", metavar="[NAME|FILE]", default="")
@click.option(
    "--events",
    "event_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML list of events, which go through the workflow in order.",
)
@click.option("--on", "kinds", multiple=True, metavar="TYPE", help="An event by its type; several go through in order.")
@click.option(
    "--file", type=click.Path(path_type=Path), help="The workflows of this file or folder, not those in force."
)
@common_options
@pass_fleet
def test(fleet: Context, name: str, event_file: Path | None, kinds: Sequence[str], file: Path | None) -> None:
    """Run the tests of workflows. With --events or --on, show what a workflow does at these events of a new session.

    An argument that ends in .yaml or .yml, or has a /, is a file, as in --file: a hook file, or a workflow file or folder of
    Gobby. Nothing is sent or run: what a workflow would start is named. Exit codes: 1 where a test fails, 4 where the file
    has mistakes or no tests.

    \b
    fleethook workflows test
    fleethook workflows test .gobby/workflows/tdd.yaml --events session.yaml
    fleethook workflows test plan-first --on session:start --on tool:pre_execute:bash
    """
    import asyncio

    from bus.config.documents import load
    from bus.config.workflow_test_entry import WorkflowTestEvent
    from workers.admin.workflows.session_tests import read_events, run_events

    if name and (Path(name).suffix in {".yaml", ".yml"} or "/" in name):
        name, file = "", Path(name)
    hooks = _hooks(fleet, file)
    if not event_file and not kinds:
        _run_tests(fleet, hooks, name)
        return
    entries = read_events(load(event_file)) if event_file else []
    entries += [WorkflowTestEvent(on=kind) for kind in kinds]
    results = []
    for hook in _chosen(hooks, name):
        tested = asyncio.run(run_events(hook, entries, Path.cwd()))
        results.append((hook, tested))
    wrong = [text for _, tested in results for each in tested for text in each.wrong]
    if fleet.json:
        fleet.data([{"workflow": hook.id, "events": [_plain(each) for each in tested]} for hook, tested in results])
    else:
        for hook, tested in results:
            fleet.data("\n".join((hook.id, *_event_lines(fleet, tested))))
    if wrong:
        raise CheckFailed(f"{len(wrong)} of what the events expect is not so")


def _hooks(fleet: Context, file: Path | None) -> list[Hook]:
    if file is None:
        return known_workflows(fleet)
    from bus.hooksets.hookfile import load_foreign
    from bus.system.directories import CONFIG_NAMES

    if file.name in CONFIG_NAMES:
        read = sound(fleet, file)[1]
    else:
        read, _ = load_foreign(file, "user")
        if read.problems:
            for problem in read.problems[1:]:
                fleet.say(fleet.style(str(problem), "red", err=True))
            raise read.problems[0]
    return [hook for hook in read.hooks if hook.workflow is not None]


def _chosen(hooks: Sequence[Hook], name: str) -> list[Hook]:
    from bus.errors import NotFound

    found = [hook for hook in hooks if name in {"", hook.id}]
    if not found:
        known = ", ".join(hook.id for hook in hooks) or "none"
        raise NotFound(f"no workflow is called {name!r}; there is {known}" if name else "there is no workflow")
    return found


def _run_tests(fleet: Context, hooks: Sequence[Hook], name: str) -> None:
    import asyncio

    from bus.config.documents import load
    from bus.errors import ConfigError
    from workers.admin.workflows.session_tests import read_tests, run_test

    results: list[tuple[Hook, WorkflowTestResult]] = []
    for hook in _chosen(hooks, name):
        path, _, _line = hook.origin.rpartition(":")
        if not Path(path).is_file():
            continue
        document = load(Path(path))
        value: Any = document.value if isinstance(document.value, dict) else {}
        for number, entry in enumerate(value.get("workflows") or []):
            if isinstance(entry, dict) and entry.get("name") == hook.id:
                for test_entry, line in read_tests(document, number):
                    cwd = Path(path).absolute().parent
                    results.append((hook, asyncio.run(run_test(hook, test_entry, line, cwd))))
    if not results:
        raise ConfigError("there are no tests of workflows", hint="write `tests:` below a workflow (docs/workflows.md)")
    failed = [result for _, result in results if result.failures]
    if fleet.json:
        fleet.data(
            [
                {
                    "workflow": hook.id,
                    "name": result.name,
                    "line": result.line,
                    "failures": list(result.failures),
                    "events": [_plain(each) for each in result.events],
                }
                for hook, result in results
            ]
        )
    else:
        for hook, result in results:
            word = fleet.style("FAIL", "red") if result.failures else fleet.style("ok", "green")
            fleet.data(f"{word}  {hook.id}: {result.name}")
            for text in result.failures:
                fleet.data(f"    {text}")
        fleet.data(f"{len(results) - len(failed)} of {len(results)} tests passed")
    if failed:
        raise CheckFailed("")


def _event_lines(fleet: Context, tested: Sequence[TestedEvent]) -> Iterator[str]:
    from workers.cli.formatting import COLOURS, plain

    for each in tested:
        way = each.after if each.before == each.after else f"{each.before or 'start'} -> {each.after}"
        word = (
            "" if each.decision == "abstain" else fleet.style(each.decision.upper(), COLOURS.get(each.decision, "red"))
        )
        about = " ".join(filter(None, (each.event.type, each.event.native_tool)))
        yield f"  {plain(about)}: " + "  ".join(filter(None, (plain(way), word, plain(each.reason, 400))))
        for text in each.contexts:
            yield f"    context: {plain(text, 400)}"
        for text in (*each.notes, *each.would):
            yield f"    {plain(text, 400)}"
        for text in each.wrong:
            yield f"    {fleet.style(plain(text, 400), 'red')}"


def _plain(tested: TestedEvent) -> dict[str, Any]:
    import msgspec

    from bus.secrets.redaction import redact

    plain: Any = redact(msgspec.to_builtins(tested._asdict()))
    return {**plain, "event": {"type": tested.event.type, "tool": tested.event.tool}}
