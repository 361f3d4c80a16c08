"""The screen of `fleethook status`: one fact on each line. Problems come last and have a colour."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from workers.cli.common import Context
from workers.cli.formatting import event_subject, health_text, local_time, outcome, plain, when
from workers.cli.output import Colour
from workers.cli.screens.columns import cut, hanging, sign, terminal_width
from workers.runtime.wording import counted

if TYPE_CHECKING:  # 60 ms that `status --help` does not need
    from workers.admin.model_health import ModelHealth
    from workers.delivery.endpoint_health import EndpointHealth
    from workers.plugins.figures import PluginState
    from workers.records.activity import Activity
    from workers.records.status import Status
    from workers.runtime.rejected_files import Rejection
    from workers.supervisor import State

_INDENT: Final = 12
_COLOURS: Final[dict[str, Colour]] = {
    "ok": "green",
    "idle": "green",
    "missing": "red",
    "unknown": "yellow",
    "off": "bright_black",
}
_SIGNS: Final = {"ok": "✓", "idle": "✓", "missing": "✗", "unknown": "?", "off": "·"}
_MOST_GAPS: Final = 3
_COUNTER_NAMES: Final = {"deliveries:owed": "deliveries:created"}
_BARS: Final = "▁▂▃▄▅▆▇█"


class GuardPack(NamedTuple):
    """A guard pack, and how many of its rules are on."""

    name: str
    on: int
    rules: int


class StatusReport(NamedTuple):
    """Everything that `status` shows."""

    found: Status | None
    """None if the server cannot be reached."""
    here: State | None
    """The processes that `fleethook up` runs on this machine; None if it does not run."""
    guards: Sequence[GuardPack]
    endpoints: Sequence[EndpointHealth]
    activity: Activity | None
    rejected: Sequence[Rejection]
    stopped: str = ""
    """What is stopped; empty if nothing is."""
    plugins: Sequence[PluginState] = ()
    """The Python plugins of every worker."""
    model: ModelHealth | None = None
    """The model and the hooks that ask it; None if no hook asks one."""
    unanswered: Sequence[str] = ()
    """Where agents do not wait for an answer that a hook in force gives."""


def show_status(fleet: Context, report: StatusReport) -> None:
    """Print the report. On a terminal, the further lines of a long fact are indented."""
    for name, text, colour in _facts(fleet, report):
        fleet.data(_fact(fleet, name, text, colour))
    found = report.found
    if found is not None and any(role.health == "missing" for role in found.roles) and report.here is None:
        fleet.say("Next: `fleethook up` starts everything on this machine.")


Fact = tuple[str, str, Colour | None]


def _fact(fleet: Context, name: str, text: str, colour: Colour | None) -> str:
    lines = [fleet.style(line, colour) if colour else line for line in hanging(text, _INDENT, terminal_width())]
    return f"{name:<{_INDENT - 1}} " + "\n".join(lines)


def _facts(fleet: Context, report: StatusReport) -> Iterator[Fact]:
    found, here = report.found, report.here
    if report.stopped:
        yield "stopped", report.stopped.removeprefix("STOPPED: "), "red"
    if found is not None:
        yield from _running(found)
    if here is not None:
        restarts = sum(child.restarts for child in here.children)
        state = "ready" if here.ready else "not ready"
        waits = ", ".join(child.name for child in here.children if not child.ready)
        text = f"process {here.pid}, {state}{': ' + waits if waits else ''}"
        yield "up", f"{text}{', ' + counted(restarts, 'restart') if restarts else ''}", None
    if found is not None:
        yield from _in_force(found, report.guards)
        if report.model is not None and not report.model.trouble:
            yield (
                "model",
                f"{plain(report.model.text)}, {counted(len(report.model.hooks), 'hook asks', 'hooks ask')} it",
                None,
            )
        if report.activity is not None:
            yield from _activity(report.activity)
        yield from _waiting(found)
    yield from _wrong(fleet, report)


def _running(found: Status) -> Iterator[Fact]:
    server = found.server
    yield "server", f"{server.brand} {server.version} at {_address(server.url)}, {server.ms:.1f} ms", None
    for role in found.roles:
        number = "" if role.alive is None else f"  {role.alive} alive"
        yield role.role, f"{_SIGNS[role.health]} {role.health}{number}", _COLOURS[role.health]


def _address(url: str) -> str:
    """A server's address for people: of a socket the path alone, which is what the end of a long line would hide."""
    return re.sub(r"^unix://(?:[^/]*@)?(/[^?]*).*", r"\1", url)


def _in_force(found: Status, guards: Sequence[GuardPack]) -> Iterator[Fact]:
    yield "namespace", f"{found.namespace}, hook set version {found.version or 'none published'}", None
    on = [f"{pack.name} ({pack.on} of {counted(pack.rules, 'rule')})" for pack in guards if pack.on]
    yield "guards", ", ".join(on) or "none is on; `fleethook guards list` shows them", None if on else "yellow"


def _activity(activity: Activity) -> Iterator[Fact]:
    covers = f"since {when(activity.since)}" if activity.since else "in the last hour"
    yield (
        "events",
        f"{sparkline(activity.minutes)}  {activity.events:,} {covers}, {activity.minutes[-1]:,} this minute",
        None,
    )
    if activity.verdicts:
        text = f"{activity.verdicts:,}, p50 {activity.p50:.2f} ms, p95 {activity.p95:.2f} ms"
        yield "verdicts", text, None
    yield "fallbacks", f"{activity.fallbacks:,} {covers}", "yellow" if activity.fallbacks else None
    for number, seen in enumerate(activity.denials):
        what = f"{local_time(seen.ms):%H:%M:%S}  {sign('deny')}  {seen.event.source}  {event_subject(seen.event)}"
        room = max(20, terminal_width() - _INDENT)
        why = outcome(seen).removeprefix("deny · ")
        yield "" if number else "denied", cut(plain(f"{what}  {why}", 400), room), "red"


def sparkline(counts: Sequence[int]) -> str:
    """A row of bars, one for each two counts. The highest bar is a full block, and the others are in proportion."""
    pairs = [sum(counts[start : start + 2]) for start in range(0, len(counts), 2)]
    most = max(pairs, default=0)
    return "".join(_BARS[-(-pair * (len(_BARS) - 1) // most)] if most else _BARS[0] for pair in pairs)


def _waiting(found: Status) -> Iterator[Fact]:
    for stream in found.streams:
        unread = "unknown" if stream.lag is None else stream.lag
        if stream.lag or stream.pending or stream.lag is None:
            yield "stream", f"{stream.name}: {stream.length} entries, {unread} unread, {stream.pending} under way", None
    parked = "unknown" if found.parked is None else found.parked
    yield "deliveries", f"{found.due} due later, {parked} parked, {counted(found.dead, 'dead letter')}", None
    total = {_COUNTER_NAMES.get(name, name): number for name, number in found.stats.items() if number}
    if total:
        yield (
            "in all",
            ", ".join(f"{name} {number:,}" for name, number in sorted(total.items())),
            "bright_black",
        )


def _wrong(fleet: Context, report: StatusReport) -> Iterator[Fact]:
    from workers.records.status import read_spools

    found = report.found
    for health in report.endpoints:
        if not health.healthy:
            colour: Colour = "red" if health.standing == "disabled" else "yellow"
            yield "endpoint", f"{plain(health.endpoint)}  {health_text(health)}", colour
    for spool in found.spools if found is not None else read_spools(fleet.directories()):
        if spool.records or spool.bytes:
            waiting = counted(spool.records, "event waits", "events wait")
            yield "spool", f"{spool.agent}: {waiting} on this disk ({counted(spool.bytes, 'byte')})", "yellow"
        if spool.lost_text:
            yield "lost", plain(spool.lost_text, 600), "red"
    if found is not None:
        for repair in found.repairs:
            yield "repaired", f"{when(repair.ms)}: {repair.text}", "yellow"
        for change in found.weakened:
            yield "guards", f"{when(change.ms)}: {plain(change.text)}", "yellow"
        for missing_key in found.missing_keys:
            yield "key", plain(missing_key.text, 600), "red"
        if found.unguarded:
            yield "guards", found.unguarded, "yellow"
        for host in found.hosts:
            if not host.alive:
                yield "host", plain(host.text, 600), "yellow"
        for session in found.gaps[:_MOST_GAPS]:
            yield "coverage", plain(session.text, 600), "yellow"
        if len(found.gaps) > _MOST_GAPS:
            more = counted(len(found.gaps) - _MOST_GAPS, "more session has", "more sessions have")
            yield "", f"{more} such calls: `fleethook sessions --gaps`", "yellow"
        for kept in found.kept:
            yield "waiting", f"since {when(kept.ms)}: {plain(kept.text, 600)}", "yellow"
    for text in report.unanswered:
        yield "hooks", f"{plain(text, 600)}; `fleethook install` corrects it", "red"
    for plugin in report.plugins:
        if plugin.state != "running" or plugin.breaker != "closed" or plugin.problem:
            breaker = f", breaker {plugin.breaker}" if plugin.breaker != "closed" else ""
            text = f"{plugin.name} in {plugin.worker}: {plugin.state}{breaker}; {plugin.problem or 'it comes back'}"
            yield "plugin", plain(text, 600), "red" if plugin.state == "failed" else "yellow"
    if report.model is not None and report.model.trouble:
        yield (
            "model",
            plain(f"{counted(len(report.model.hooks), 'hook asks', 'hooks ask')} one: {report.model.text}", 600),
            "red",
        )
    for refused in report.rejected:
        yield "hooks", plain(refused.text, 600), "red"
    for problem in found.problems if found is not None else ():
        yield "!!", problem, "red"
