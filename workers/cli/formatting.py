"""Formats events, verdicts, deliveries and traces for a terminal: short lines, with the same words everywhere."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bus.tracing.context import trace_of
from workers.cli.common import Context
from workers.cli.output import Colour, printable
from workers.runtime.wording import counted

if TYPE_CHECKING:  # a caller with such a value has imported its module already; `publish` and `--help` have none
    from bus.events import Event
    from bus.verdicts import LimitUse, ModelUse, Part, Verdict
    from workers.delivery.deliveries import Attempt, Delivery
    from workers.delivery.endpoint_health import EndpointHealth
    from workers.records.events import RecordedEvent
    from workers.records.trace import Relative, Trace
    from workers.records.webhook_requests import RecordedRequest

SHOWN: Final = 80
"""The most characters of an input on one line."""

_TEXT: Final = 2_000
"""The most characters of a reason, which should be shown whole."""

COLOURS: Final[Mapping[str, Colour]] = {
    "deny": "red",
    "ask": "yellow",
    "allow": "green",
    "fallback": "yellow",
    "delivered": "green",
    "dead": "red",
    "due": "yellow",
    "retry": "yellow",
    "done": "green",
    "stopped": "yellow",
    "running": "cyan",
    "failed": "red",
}

_MOST_SILENT: Final = 3
"""If more hooks than this have nothing to say, they are counted and not listed: a guard pack alone has twenty."""

_JSON_KEY: Final = re.compile(r'( *)("(?:[^"\\]|\\.)*")(?=:)')

_TELLING: Final = ("command", "path", "pattern", "url", "query", "prompt", "message", "reason", "text", "name")
"""The fields that describe an event best, the best first."""


def when(ms: int) -> str:
    """A time as this machine's clock shows it, with its date."""
    return local_time(ms).strftime("%Y-%m-%d %H:%M:%S")


def clock(ms: int) -> str:
    """A time of today, to the millisecond."""
    return local_time(ms).strftime("%H:%M:%S.%f")[:-3]


def short(text: str, most: int = SHOWN) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def plain(text: str, most: int = 200) -> str:
    """Data on one line that can neither control a terminal nor look like another line of our output."""
    return printable(short(text, most))


def event_subject(event: Event, most: int = SHOWN) -> str:
    """What an event is about, on one line: the field that describes it best, else all of its input or data."""
    for fields in (event.input, event.data):
        for name in _TELLING:
            if isinstance(fields.get(name), str) and fields[name].strip():
                return short(fields[name], most)
    rest = event.input or event.data
    return short(json.dumps(rest, ensure_ascii=False, default=str), most) if rest else ""


def outcome(seen: RecordedEvent) -> str:
    """The decision and its reason, on one line; empty if the event was no request."""
    if seen.of:
        return f"fallback for {seen.of}: {seen.fallback}"
    words = [seen.decision] if seen.decision else []
    if seen.problem:
        words.append(f"unreadable: {seen.problem}")
    if seen.fallback_reason:
        words.append(f"fallback: {seen.fallback_reason}")
    elif seen.verdict is not None and seen.verdict.reason:
        words.append(short(seen.verdict.reason, 160))
    return " · ".join(words) if words else ("waiting for its verdict" if seen.pending else "")


def verdict_lines(fleet: Context, verdict: Verdict) -> Iterator[str]:
    """A verdict with every part of it."""
    word = fleet.style(verdict.decision.upper(), COLOURS.get(verdict.decision, "bright_black"))
    yield f"verdict  {word}  {verdict.ms:.2f} ms  {plain(verdict.version) or 'no hooks'}"
    for name, text in (("reason", verdict.reason), ("instead", verdict.instead), ("fallback", verdict.fallback)):
        if text:
            yield f"  {name}: {fleet.style(plain(text, _TEXT), 'yellow' if name == 'fallback' else 'cyan')}"
    for part in verdict.parts:
        yield from _part_lines(fleet, part)
    silent = [(hook, took, where) for where, rules in verdict.silent.items() for hook, took in rules.items()]
    if len(silent) > _MOST_SILENT:
        ms = sum(took for _, took, _ in silent) / 1000
        yield f"  {counted(len(silent), 'rule')} had nothing to say  {ms:.2f} ms  (--json lists them)"
    else:
        word = fleet.style("abstain", COLOURS.get("abstain", "bright_black"))
        yield from (f"  {plain(hook)}  {word}  {took / 1000:.2f} ms  {plain(where)}" for hook, took, where in silent)
    for context in verdict.contexts:
        yield f"  context: {fleet.style(short(context, 160), 'cyan')}"
    if verdict.updated_input is not None:
        changed = json.dumps(verdict.updated_input, ensure_ascii=False, default=str)
        yield f"  changed input: {fleet.style(short(changed, 400), 'yellow')}"
    if verdict.updated_output is not None:
        from bus.secrets.redaction import redact

        changed = json.dumps(redact(verdict.updated_output), ensure_ascii=False, default=str)
        yield f"  changed output: {fleet.style(short(changed, 400), 'yellow')}"
    if verdict.permissions:
        changed = json.dumps(verdict.permissions, ensure_ascii=False, default=str)
        yield f"  changed permissions: {fleet.style(short(changed, 400), 'yellow')}"
    if verdict.interrupt:
        yield f"  {fleet.style('interrupts the agent', 'yellow')}"
    if verdict.halt:
        yield f"  ends the agent's work: {fleet.style(plain(verdict.halt, _TEXT), 'yellow')}"
    for item in verdict.lost:
        yield f"  lost: {fleet.style(plain(item, _TEXT), 'yellow')}"
    again = ("the evaluator that had it first died: its hooks may have run twice",) if verdict.repeated else ()
    for text in verdict.waiting:
        yield f"  not in force: {fleet.style(plain(text, _TEXT), 'yellow')}"
    for note in dict.fromkeys((*verdict.notes, *again)):
        if note not in verdict.waiting:
            yield f"  note: {fleet.style(plain(note, _TEXT), 'yellow')}"


def _part_lines(fleet: Context, part: Part) -> Iterator[str]:
    word = fleet.style(part.decision, COLOURS.get(part.decision, "bright_black"))
    code = "" if part.exit_code is None else f"  exit {part.exit_code}"
    yield f"  {plain(part.hook)}  {word}  {part.ms:.2f} ms{code}  {plain(part.place)}  {plain(part.origin)}".rstrip()
    for name, text in (("reason", part.reason), ("fallback", part.fallback)):
        if text:
            yield f"    {name}: {fleet.style(plain(text, _TEXT), 'yellow' if name == 'fallback' else 'cyan')}"
    if part.model is not None:
        yield f"    {model_text(part.model)}"
    if part.limit is not None:
        yield f"    {limit_text(part.limit)}"
    for fact in part.facts:
        yield f"    fact: {plain(fact, _TEXT)}"
    for line in part.output.splitlines()[-10:]:
        yield f"    | {fleet.style(line, 'bright_black')}"


def limit_text(use: LimitUse) -> str:
    """How much of a limit was used."""
    if use.count is None:
        return f"limit: {plain(use.limit)}, not counted"
    free = f", free again {when(use.free_at)}" if use.free_at else ""
    reached = ", reached before this call" if use.over else ""
    return f"limit: {use.count:g} of {plain(use.limit)}{reached}{free}"


def model_text(use: ModelUse) -> str:
    """What a hook that asks a model used."""
    if use.cached:
        return f"model: {plain(use.name)}, remembered from the same question"
    cost = f", {use.cost:.6f} {plain(use.currency)}" if use.cost is not None else ""
    tokens = f"{use.input_tokens:,} tokens in, {use.output_tokens:,} out"
    return f"model: {plain(use.name)}, {counted(use.requests, 'request')}, {tokens}{cost}"


def delivery_lines(fleet: Context, delivery: Delivery, *, whole: bool = False) -> Iterator[str]:
    """A delivery with every attempt that is kept, and when the next one is due; `whole` with the heads of the responses."""
    state = fleet.style(delivery.state, COLOURS.get(delivery.state, "cyan"))
    version = f"{plain(delivery.layer)}@{plain(delivery.version)}"
    yield f"{plain(delivery.id)}  {plain(delivery.kind)}  {plain(delivery.target)}  {state}  {version}"
    if delivery.type:
        session = f"  session {plain(delivery.session)}" if delivery.session else ""
        yield f"  {plain(delivery.type)}  {plain(delivery.tool)}".rstrip() + session
    if delivery.redrives:
        yield f"  redriven {counted(delivery.redrives, 'time')}"
    for number, attempt in enumerate(delivery.log, max(1, delivery.attempts - len(delivery.log) + 1)):
        yield from _attempt_lines(fleet, number, attempt, whole=whole)
    if delivery.state == "due":
        yield f"  next attempt {when(delivery.due)}"
    if delivery.state == "dead" and delivery.reason:
        yield f"  given up: {fleet.style(plain(delivery.reason, _TEXT), 'red')}"


def payload_lines(fleet: Context, payload: Mapping[str, Any] | None) -> Iterator[str]:
    """The event of a delivery, cut if it is long; one line if it is no longer kept."""
    if payload is None:
        yield "  payload: not kept any more"
        return
    event = {
        name: value for name, value in payload.items() if name not in {"verdict", "entry", "at", "bytes"} and value
    }
    yield f"  payload: {fleet.style(plain(json.dumps(event, ensure_ascii=False, default=str), 4 * _TEXT), 'bright_black')}"


def request_lines(fleet: Context, request: RecordedRequest) -> Iterator[str]:
    """A delivery's request: its URL, its headers, and its body, indented if it is JSON."""
    yield f"  request  POST {plain(request.url)}"
    for name, value in request.headers.items():
        yield f"    > {fleet.style(plain(f'{name}: {value}'), 'bright_black')}"
    yield "    >"
    for text in pretty(request.body).splitlines():
        yield f"    > {json_line(fleet, text)}"


def pretty(text: str) -> str:
    """A text, indented if it is JSON."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):  # not JSON, or only by accident
        return text


def json_line(fleet: Context, text: str) -> str:
    """A line of indented JSON, its key coloured."""
    key = _JSON_KEY.match(text)
    if key is None:
        return printable(text)
    return f"{key[1]}{fleet.style(key[2], 'cyan')}{printable(text[key.end() :])}"


def _attempt_lines(fleet: Context, number: int, attempt: Attempt, *, whole: bool) -> Iterator[str]:
    word = fleet.style(attempt.outcome, COLOURS.get(attempt.outcome, "cyan"))
    status = f"  status {attempt.status}" if attempt.status else ""
    after = f"  next {when(attempt.next)}" if attempt.next else ""
    yield f"  attempt {number}  {clock(attempt.ms)}  {word}{status}  {attempt.took:.1f} ms{_phases(attempt)}{after}"
    if attempt.error:
        yield f"    {fleet.style(plain(attempt.error, _TEXT), 'yellow')}"
    for line in attempt.sent.splitlines() if whole else ():
        yield f"    > {fleet.style(plain(line), 'bright_black')}"
    for line in attempt.head.splitlines() if whole else ():
        yield f"    < {fleet.style(plain(line), 'bright_black')}"
    for line in attempt.output.splitlines()[-5:]:
        yield f"    | {fleet.style(line, 'bright_black')}"


def _phases(attempt: Attempt) -> str:
    """The phases of an attempt's time; a reused connection has none of the first three."""
    if attempt.phases is None:
        return ""
    phases = attempt.phases
    named = {"dns": phases.dns, "connect": phases.connect, "tls": phases.tls, "first byte": phases.first_byte}
    said = ", ".join(f"{name} {took:.1f}" for name, took in named.items() if took)
    return f" ({said})" if said else ""


def event_lines(fleet: Context, seen: RecordedEvent) -> Iterator[str]:
    """The first lines of an event: its id and type, its origin, and what it is about."""
    event = seen.event
    yield f"event    {seen.id}  {plain(event.type)}  {plain(event.tool)}".rstrip()
    native = f" ({plain(event.native)})" if event.native not in {"", event.type} else ""
    where = f"host {plain(event.host) or '-'}  session {plain(event.session) or '-'}"
    yield f"  {when(seen.ms)}  {plain(event.source)}{native}  {where}"
    if event.cwd:
        yield f"  in {fleet.style(plain(event.cwd), 'cyan')}"
    if event_subject(event):
        yield f"  {fleet.style(event_subject(event, 400), 'cyan')}"
    if seen.problem:
        yield f"  {fleet.style(plain(f'its body cannot be read: {seen.problem}'), 'red')}"
    if seen.fallback:
        yield f"  {fleet.style(plain(f'answered by policy on the agent side: {seen.fallback}', _TEXT), 'yellow')}"
    if seen.same:
        yield "  the same hook call was asked about before: same verdict, delivered once"


def trace_lines(fleet: Context, found: Trace, times: Iterable[str] = ()) -> Iterator[str]:
    """A whole trace, in the order in which it happened; `times` are the lines of its waterfall."""
    for above in found.parents:
        yield f"{'parent':<9}{_relative(fleet, above)}"
    yield from event_lines(fleet, found.event)
    if context := trace_of(found.event.event).trace_id:
        url = fleet.settings().trace_url.replace("{trace}", context)
        yield f"trace    {context}{f'  {url}' if url else ''}"
    shown = list(times)
    yield from ("", *shown, "") if shown else ()
    if found.event.verdict is not None:
        yield from verdict_lines(fleet, found.event.verdict)
    elif found.event.pending:
        yield "verdict  none yet: it waits for an evaluator"
    elif not found.event.of:
        yield "verdict  none: it was no request"
    for report in found.reports:
        text = fleet.style(plain(f"the agent did not wait for that verdict: {report.why}", _TEXT), "yellow")
        yield f"fallback {clock(report.ms)}  {text}"
    yield from _block("deliveries", found.deliveries, lambda delivery: delivery_lines(fleet, delivery))
    for letter in found.dead:
        yield f"dead     {letter.id}  {fleet.style(plain(letter.reason, _TEXT), 'red')}"
    for below in found.children:
        yield f"{'caused':<9}{'  ' * (below.depth - 1)}{_relative(fleet, below)}"
    if found.stopped:
        yield f"events after {when(found.stopped)} were not looked through"


def _block(title: str, values: tuple[Delivery, ...], lines: Callable[[Delivery], Iterator[str]]) -> Iterator[str]:
    yield f"{title}  {len(values) or 'none'}"
    for value in values:
        for line in lines(value):
            yield f"  {line}"


def _relative(fleet: Context, relative: Relative) -> str:
    if not relative.known:
        return f"{plain(relative.id)}  (not kept any more)"
    word = fleet.style(relative.decision, COLOURS.get(relative.decision, "bright_black"))
    event = f"{plain(relative.source)}  {plain(relative.type)}  {plain(relative.tool)}"
    return f"{relative.id}  {clock(relative.ms)}  {event}  {word}".rstrip()


def local_time(ms: int) -> datetime:
    """A time (ms since 1970) by this machine's clock."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone()


def health_text(health: EndpointHealth) -> str:
    """The health of an endpoint on one line; `active` if nothing is wrong with it."""
    from workers.delivery.endpoint_controls import DISABLED

    if health.healthy:
        return f"active, {health.parked} parked" if health.parked else "active"
    failing = health.failing
    parts = [f"{health.standing} since {when(health.at)}{f' by {plain(health.by)}' if health.by else ''}"]
    if health.standing == "active" and failing is not None:
        parts = [f"nothing but failures since {when(failing.since)} ({failing.count})"]
    elif health.standing == "open":
        probe = "a probe is under way" if health.circuit == "half-open" else f"next probe {_in(health.next_probe)}"
        parts = [f"breaker {health.circuit} since {when(health.at)}, {probe}"]
    if failing is not None and failing.percent and health.standing != "disabled":
        parts.append(f"{failing.percent} % of the time after which it is disabled")
    if health.parked:
        parts.append(f"{health.parked} parked")
    if health.missed:
        parts.append(f"{counted(health.missed, 'event')} not sent to it")
    why = short(health.explanation.removeprefix(DISABLED), 160)
    undo = {"disabled": "enable", "paused": "resume"}.get(health.standing)
    name = plain(health.endpoint).partition("@")[0]
    return ", ".join(parts) + (f": {why}" if why else "") + (f"; `fleethook webhooks {undo} {name}`" if undo else "")


def _in(ms: int) -> str:
    """When the next probe is made; a due probe waits for the next delivery."""
    left = ms / 1000 - time.time()
    return f"in {left:.0f} s" if left >= 1 else "with the next delivery"
