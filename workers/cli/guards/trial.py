"""`guards test`: runs the packs' own tests, and measures how well the packs judge a corpus of lines."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.errors import ConfigError
    from bus.hooksets.guards.corpus import CorpusFigures, CorpusLine, Judged

_PERCENT = click.FloatRange(0, 100)


@click.command()
@click.option(
    "--corpus",
    "files",
    multiple=True,
    metavar="FILE",
    help="JSON lines to judge (`-` is stdin); repeatable.",
    type=click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True),
)
@click.option(
    "--without",
    "known",
    multiple=True,
    metavar="FILE",
    help="Leave out lines that are in this corpus too.",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--pack", "chosen", multiple=True, metavar="PACK", help="Only this pack; repeatable. Default: all.")
@click.option(
    "--host", default="", metavar="NAME", help="The host of the lines' events; default: a host that is not this one."
)
@click.option("--here", is_flag=True, help="Judge the lines as events of this host, with its disk and its git.")
@click.option("--min-recall", type=_PERCENT, metavar="PERCENT", help="Exit 1 if recall is lower.")
@click.option(
    "--max-false-alarms",
    type=_PERCENT,
    metavar="PERCENT",
    help="Exit 1 if the rate is higher.",
)
@click.option("--figures", "figures_only", is_flag=True, help="Only the figures, without the lines.")
@common_options
@pass_fleet
def test(
    fleet: Context,
    files: Sequence[Path],
    known: Sequence[Path],
    chosen: Sequence[str],
    host: str,
    here: bool,
    min_recall: float | None,
    max_false_alarms: float | None,
    figures_only: bool,
) -> None:
    """Run the tests beside the packs' rules; with --corpus, judge lines and print recall and false alarms by group.

    A line is `{"command": …}` or `{"tool": …, "input": {…}}` with `"expect"`: deny, ask, stop (either) or allow, and
    optionally `cwd`, `group`, `agent`, `origin`, `why`. No server is needed and nothing is run.
    """
    from bus.hooksets.guards import load_pack, packs
    from bus.hooksets.guards.corpus import figures, lines_without
    from workers.admin.guard_trial import judge_lines

    names = [load_pack(name).name for name in chosen] or list(packs())
    if not files:
        if host or here or figures_only or min_recall is not None or max_false_alarms is not None:
            raise click.UsageError("--host, --here, --figures and the limits are about lines: say --corpus FILE too")
        _run_pack_tests(fleet, names)
        return
    if host and here:
        raise click.UsageError("--here is a host already: leave --host out")
    lines, problems = _read(files, host, here)
    if known:
        lines = lines_without(lines, _read(known, host, here)[0])
        if not lines:
            raise click.UsageError("every line is in a corpus that --without leaves out")
    judged = judge_lines(lines, names)
    report = _report(judged, problems, names)
    if fleet.json:
        if figures_only:
            report = {key: value for key, value in report.items() if not isinstance(value, list)}
        fleet.data(report)
    else:
        _show(fleet, judged, report, figures_only=figures_only)
    for problem in problems:
        fleet.say(str(problem))
    _hold_limits(figures(judged), min_recall, max_false_alarms)


def _run_pack_tests(fleet: Context, names: Sequence[str]) -> None:
    from bus.hooksets.guards import check_pack, load_pack

    failures = {name: [str(judgement) for judgement in check_pack(load_pack(name))] for name in names}
    tests = {name: len(load_pack(name).tests) for name in names}
    found = sum(map(len, failures.values()))
    if fleet.json:
        fleet.data(
            {
                "ok": not found,
                "packs": [{"pack": name, "tests": tests[name], "failures": failures[name]} for name in names],
            }
        )
    else:
        for name in names:
            for text in failures[name]:
                fleet.data(fleet.style(text, "red"))
            fleet.data(f"{name}: {tests[name] - len(failures[name])} of {tests[name]} tests pass")
    if found:
        raise CheckFailed(f"{found} of the packs' own tests fail")


def _read(files: Sequence[Path], host: str, here: bool) -> tuple[list[CorpusLine], list[ConfigError]]:
    from bus.errors import ConfigError
    from bus.hooksets.guards.corpus import ANOTHER_HOST, read_corpus
    from bus.ids import host_name

    lines: list[CorpusLine] = []
    problems: list[ConfigError] = []
    for file in files:
        try:
            text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}", file=str(file)) from error
        name = "stdin" if str(file) == "-" else str(file)
        found, wrong = read_corpus(text, name, host=host_name() if here else host or ANOTHER_HOST)
        lines += found
        problems += wrong
    if not lines:
        raise problems[0] if problems else ConfigError("there is no line in it", file=str(files[0]))
    return lines, problems


def _report(judged: Sequence[Judged], problems: Sequence[ConfigError], names: Sequence[str]) -> dict[str, Any]:
    from bus.hooksets.guards.corpus import figures, figures_by_group

    seconds = sum(judgement.seconds for judgement in judged)
    found: dict[str, list[dict[str, Any]]] = {"missed": [], "false alarm": [], "other decision": []}
    for judgement in judged:
        if judgement.finding:
            found[judgement.finding].append(_record(judgement))
    return {
        **_figures(figures(judged)),
        "packs": ", ".join(names),
        "lines": len(judged),
        "bad_lines": len(problems),
        "seconds": round(seconds, 3),
        "lines_per_second": round(len(judged) / seconds),
        "median_microseconds": round(statistics.median(judgement.guard_seconds for judgement in judged) * 1e6, 1),
        "engine_median_microseconds": round(
            statistics.median(judgement.seconds - judgement.guard_seconds for judgement in judged) * 1e6, 1
        ),
        "groups": {name: _figures(judgement) for name, judgement in figures_by_group(judged).items()},
        "missed": found["missed"],
        "false_alarms_found": found["false alarm"],
        "other_decisions": found["other decision"],
        "problems": [str(judgement) for judgement in problems],
    }


def _figures(judgement: CorpusFigures) -> dict[str, Any]:
    recall, false_alarms = judgement.recall, judgement.false_alarm_rate
    return {
        **judgement._asdict(),
        "recall": None if recall is None else round(recall, 2),
        "false_alarm_rate": None if false_alarms is None else round(false_alarms, 2),
    }


def _record(judgement: Judged) -> dict[str, Any]:
    return {
        "place": judgement.line.place,
        "group": judgement.line.group,
        "expect": judgement.line.expect,
        "decision": judgement.decision,
        "rules": list(judgement.rules),
        "call": judgement.line.call,
    }


def _show(fleet: Context, judged: Sequence[Judged], report: dict[str, Any], *, figures_only: bool) -> None:
    rows = [
        (
            name,
            *_cells(judgement["stopped"], judgement["to_stop"], judgement["recall"]),
            *_cells(judgement["false_alarms"], judgement["harmless"], judgement["false_alarm_rate"]),
        )
        for name, judgement in [*report["groups"].items(), ("all", report)]
    ]
    fleet.table(("GROUP", "STOPPED", "RECALL", "FALSE ALARMS", "RATE"), rows)
    bad = f", {report['bad_lines']} that cannot be read" if report["bad_lines"] else ""
    fleet.data(
        f"{counted(len(judged), 'line')}{bad}; {report['lines_per_second']:,} lines/s, "
        f"{report['median_microseconds']} microseconds a line at the median for the guards, "
        f"{report['engine_median_microseconds']} more for the engine around them"
    )
    if figures_only:
        return
    for title, key in (
        ("missed", "missed"),
        ("false alarms", "false_alarms_found"),
        ("stopped by another decision", "other_decisions"),
    ):
        if report[key]:
            fleet.data(fleet.style(f"{title}:", "red"))
        for judgement in report[key]:
            rules = f" by {', '.join(judgement['rules'])}" if judgement["rules"] else ""
            call = " ".join(judgement["call"].split("\n"))
            fleet.data(
                f"  {judgement['place']}: {judgement['decision']}, expected {judgement['expect']}{rules}: {call}"
            )


def _cells(part: int, whole: int, percent: float | None) -> tuple[str, str]:
    return (f"{part} of {whole}", f"{percent:.1f} %") if percent is not None else ("-", "-")


def _hold_limits(found: CorpusFigures, min_recall: float | None, max_false_alarms: float | None) -> None:
    recall, false_alarms = found.recall, found.false_alarm_rate
    said = []
    if min_recall is not None and (recall is None or recall < min_recall):
        measured = "unknown: no line is to be stopped" if recall is None else f"{recall:.2f} %"
        said.append(f"recall is {measured}, the least is {min_recall:g} %")
    if max_false_alarms is not None and (false_alarms is None or false_alarms > max_false_alarms):
        measured = "unknown: no line is harmless" if false_alarms is None else f"{false_alarms:.2f} %"
        said.append(f"the rate of false alarms is {measured}, the most is {max_false_alarms:g} %")
    if said:
        raise CheckFailed("; ".join(said))
