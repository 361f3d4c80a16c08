"""The trace of an event in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from workers.approvals.summary import shortened, summary
from workers.records.events import moment
from workers.records.trace import Trace

_MOST_CALL = 400


def explanation(found: Trace) -> str:
    """Sentences about an event: what it is, who decided and why, and what it caused."""
    return "\n".join(_sentences(found))


def _sentences(found: Trace) -> Iterator[str]:
    seen, event = found.event, found.event.event
    tool = f" of the tool {event.tool}" if event.tool else ""
    session = f", session {event.session}" if event.session else ""
    host = event.host or "an unknown host"
    yield f"{seen.id} is a {event.type}{tool} by {event.source} on {host} at {moment(seen.ms)}{session}."
    if event.input or event.data:
        yield f"It is about: {shortened(summary(event), _MOST_CALL)}"
    if seen.problem:
        yield f"Its body cannot be read: {seen.problem}."
    if seen.pending:
        yield "It waits for its verdict."
    elif seen.verdict is None:
        yield "Its agent asked for no verdict."
    else:
        yield from _verdict_sentences(seen.verdict)
    for report in found.reports:
        yield f"The agent did not wait for this verdict and used its fallback: {report.why}."
    states = Counter(delivery.state for delivery in found.deliveries)
    if states:
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        yield f"It caused {sum(states.values())} deliveries: {counts}."
    for delivery in found.deliveries:
        if delivery.state == "dead":
            yield f"The delivery {delivery.id} was given up: {redact_text(delivery.reason)}."
    for above in found.parents[-1:]:
        yield f"It was caused by the event {above.id}."
    if found.children:
        yield f"It caused {len(found.children)} events: {', '.join(child.id for child in found.children[:10])}."


def _verdict_sentences(verdict: Verdict) -> Iterator[str]:
    silent = sum(map(len, verdict.silent.values()))
    reason = f": {verdict.reason}" if verdict.reason else ""
    decision = "no hook objected (abstain)" if verdict.decision == "abstain" else verdict.decision
    yield f"The verdict, in {verdict.ms:.1f} ms by {verdict.version or 'no hooks'}, is {decision}{reason}"
    if verdict.fallback:
        yield f"No hook gave this answer, but the failure policy: {verdict.fallback}."
    if verdict.stop:
        yield f"A stop in force denied it: {verdict.stop}."
    for part in verdict.parts:
        why = f", because it failed: {part.fallback}" if part.fallback else f": {part.reason}" if part.reason else ""
        observed = f" (it only observes, and would have decided {part.observed})" if part.observed else ""
        yield f"The hook {part.hook} ({part.place}, {part.origin or 'unknown file'}) decided {part.decision}{observed}{why}"
        if part.limit is not None and part.limit.count is not None:
            yield f"Its limit is {part.limit.limit}; {part.limit.count:g} were used."
        if part.facts:
            yield f"Its condition read {'; '.join(part.facts)}."
    if silent:
        yield f"{silent} further rules had nothing to say."
    if verdict.approval is not None:
        by = f" by {verdict.approval.by}" if verdict.approval.by else ""
        yield f"It was held for a person: {verdict.approval.state}{by}."
    for note in verdict.notes:
        yield f"Note: {note}."
