"""One delivery from claim to settlement, in the order in which it happens.

claim        ClaimedDelivery: what take.lua handed to this carrier
event        DecodedEvent (`event_cache`)
destination  the hook or endpoint as it is in force now
request      WebhookRequest, then one POST (`webhook`); or one run of a command (`command`)
result       AttemptResult, for a POST by the table of `outcomes`
settlement   Settlement: what settle.lua writes (`settlements`)
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from bus.events import Event
from bus.hooks import Endpoint, Hook
from bus.hooksets.in_force import POLL_SECONDS, HookSet, Watcher
from bus.hooksets.workflows.carried import carried_action
from bus.http.client_pool import ClientPool
from bus.http.webhook_client import Before, Reply
from bus.ids import delivery_id
from bus.pacing import BATCHED
from bus.runners.hook_spans import hook_span
from bus.secrets.redaction import redact_text, redact_url
from bus.tracing.context import TraceContext, at_trace
from bus.tracing.post_spans import note_reply, post_span
from bus.wire.keys import Keys
from bus.wire.streams import MOST_DELIVERIES, StreamEntry
from workers.delivery.answer_links import AnswerLinks, LinkMaker
from workers.delivery.background_command import run_hook
from workers.delivery.batch_bodies import batch_body, batch_id
from workers.delivery.breakers import FailureCounts
from workers.delivery.deliveries import Attempt, attempt_record, now_ms
from workers.delivery.delivery_spans import delivery_span, note_result
from workers.delivery.event_cache import DecodedEvent, EventCache
from workers.delivery.formats import post_url
from workers.delivery.later_context import LateContexts
from workers.delivery.outcome_table import judge
from workers.delivery.responses import beginning, response_text
from workers.delivery.results import AttemptDetails, AttemptResult, Undeliverable
from workers.delivery.retries import next_delay, schedule_of
from workers.delivery.settlements import Settlement
from workers.delivery.webhook import request_headers

log = logging.getLogger("fleethook.carrier")

_HOOK_SET_SECONDS: Final = 0.25
"""How long the hooks in force for an event are reused; the watcher looks for changes every half second."""


class BatchMember(NamedTuple):
    """Another delivery in the same batch."""

    id: str
    event: str
    body: bytes


class ClaimedDelivery(NamedTuple):
    """A delivery that this carrier may attempt now."""

    entry: StreamEntry
    id: str
    body: bytes
    """Its event in the form of `deliveries.pack_fields`."""
    target: str
    timeout: float
    event: str
    tries: int
    kind: str
    hook: str
    version: str
    layer: str
    members: tuple[BatchMember, ...] | None = None
    """The other deliveries of its batch; None if it is not sent as a batch."""

    @property
    def key(self) -> tuple[str, str]:
        """The stream and the id of its entry."""
        return self.entry.stream, self.entry.id

    @property
    def is_replay(self) -> bool:
        """Whether `fleethook replay` made it."""
        return self.id != delivery_id(self.event, self.hook)


def batch_members(parts: Sequence[bytes]) -> tuple[BatchMember, ...]:
    """The members of a batch from take.lua's list: id, event and body of each."""
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return tuple(BatchMember(name.decode(), event.decode(), body) for name, event, body in triples)


class FlowDeliveries(Protocol):
    """What deliveries of workflows are carried by (`workers/workflows/deliveries.py`)."""

    async def run(self, hook: Hook, event: Event) -> AttemptResult:
        """Let a workflow advance at an event."""
        ...

    async def command(self, hook: Hook, name: str, event: Event) -> Hook:
        """The command of an action, with the values of its event."""
        ...

    async def request(self, hook: Hook, name: str, event: Event) -> tuple[Endpoint, bytes, str]:
        """The endpoint, the body and the method of a webhook among the actions."""
        ...


class WebhookRequest(NamedTuple):
    """One POST to an endpoint."""

    id: str
    """The id of the delivery or batch; the `webhook-id` is derived from it."""
    body: bytes
    replay_of: str = ""
    """The event's id if this is a replay."""
    is_batch: bool = False
    method: str = "POST"


class Attempts:
    """Makes the attempts of one carrier."""

    def __init__(
        self,
        carrier: str,
        watcher: Watcher,
        keys: Keys,
        late_contexts: LateContexts,
        failures: FailureCounts,
        links: LinkMaker,
    ) -> None:
        self._carrier, self._watcher, self._late_contexts, self._failures = carrier, watcher, late_contexts, failures
        self._links = links
        self.workflows: FlowDeliveries | None = None
        """Set by a carrier, since workflows need its clients."""
        self._events = EventCache(keys, links.public_url)

    async def make(self, claimed: ClaimedDelivery, clients: ClientPool, before: Before) -> AttemptResult:
        """Make one attempt of a delivery.

        `before` is awaited right before the command starts or the first byte is sent; its errors end the attempt. Raises
        Unreachable if Redis is away, MissingKey if a secret is sealed with a key that this machine does not have yet.
        """
        try:
            if claimed.entry.delivered > MOST_DELIVERIES:
                raise Undeliverable(f"handed out {claimed.entry.delivered} times: its carriers die")
            events = self._decode(claimed)
            about = [event.event for event in events]
            with delivery_span(claimed.kind, claimed.id, claimed.hook, claimed.tries, about) as span:
                result = await self._attempt(claimed, events, clients, before, span.context)
                note_result(span, result)
                return result
        except Undeliverable as error:
            return AttemptResult("dead", error.reason)

    def _decode(self, claimed: ClaimedDelivery) -> list[DecodedEvent]:
        """The event of a delivery, and those of the others in its batch."""
        stream = claimed.entry.stream
        event = self._events.decode(claimed.event, claimed.body, stream)
        return [event, *(self._events.decode(each.event, each.body, stream) for each in claimed.members or ())]

    async def _attempt(
        self,
        claimed: ClaimedDelivery,
        events: Sequence[DecodedEvent],
        clients: ClientPool,
        before: Before,
        context: TraceContext,
    ) -> AttemptResult:
        """The attempt itself; `context` is where it is in a trace. Raises Undeliverable, and what `make` raises."""
        event = events[0]
        destination, hook_set = await self._find_destination(claimed, event)
        prepared: WebhookRequest | None = None
        if isinstance(destination, Hook) and destination.workflow is not None:
            assert self.workflows is not None  # noqa: S101 - the carrier has set it
            if claimed.kind == "workflow":
                await before()
                return await self.workflows.run(destination, at_trace(event.event, context))
            name = claimed.hook.partition("/")[2]
            if claimed.kind == "command":
                destination = await self.workflows.command(destination, name, event.event)
            else:
                destination, body, method = await self.workflows.request(destination, name, event.event)
                prepared = WebhookRequest(claimed.id.replace("/", "_"), body, method=method)
        if isinstance(destination, Hook) and destination.http is None:
            return await self._run_command(destination, claimed, at_trace(event.event, context), before)
        endpoint = destination if isinstance(destination, Endpoint) else _endpoint_of(destination)
        links = None
        if claimed.members is None and not claimed.is_replay and prepared is None:
            links = await self._links.links(event.event, endpoint)
        request = prepared or self._prepare_request(claimed, events, endpoint, links)
        client, url = clients.get(hook_set.network, hook_set.proxy), post_url(endpoint)
        with post_span(url, context, claimed.tries) as span:
            now, name = int(time.time()), request.replay_of
            named = event.event if prepared is None and not request.is_batch else None
            headers = request_headers(
                endpoint, request.id, request.body, now, name, batch=request.is_batch, context=span.context, event=named
            )
            reply = await client.post(
                url, request.body, headers, seconds=endpoint.timeout, before=before, method=request.method
            )
            note_reply(span, reply.status, reply.error)
        evidence = _read_evidence(endpoint, request, reply)
        outcome, reason, retry_after, signal, _, _ = judge(reply, endpoint.format)
        return AttemptResult(outcome, reason, retry_after, signal, schedule_of(destination), evidence)

    async def _find_destination(self, claimed: ClaimedDelivery, event: DecodedEvent) -> tuple[Hook | Endpoint, HookSet]:
        """The hook or endpoint of a delivery, and the hook set that it is in; raises Undeliverable if it is gone.

        The dispatcher may know a newer hook set than this process, so this process reads its own again before it raises.
        """
        now = time.monotonic()
        hook_set = event.hook_set
        if hook_set is None or now - event.hook_set_read_at > _HOOK_SET_SECONDS:
            hook_set = event.hook_set = self._watcher.for_event(event.event)
            event.hook_set_read_at = now
        found = _look_up(claimed, hook_set)
        if found is None:
            await self._watcher.refresh(force=True)
            if claimed.layer != "fleet":
                await asyncio.sleep(POLL_SECONDS)  # files are read again after at most this time
            hook_set = event.hook_set = self._watcher.for_event(event.event)
            found = _look_up(claimed, hook_set)
        if found is None:
            what = "endpoint" if claimed.kind == "webhook" else "hook"
            raise Undeliverable(
                f"{what} {claimed.hook!r} was deleted or disabled after {claimed.layer}@{claimed.version}"
            )
        if isinstance(found, Hook) and found.kind != claimed.kind and "/" not in claimed.hook:
            raise Undeliverable(f"hook {claimed.hook!r} is of kind {found.kind} and no longer of kind {claimed.kind}")
        return found, hook_set

    async def _run_command(self, hook: Hook, claimed: ClaimedDelivery, event: Event, before: Before) -> AttemptResult:
        await before()
        with hook_span(hook, event, hook.timeout, blocking=False) as span:
            result = await run_hook(hook, at_trace(event, span.context))
            span.set({"process.exit.code": result.attempt.evidence.status})
            if result.attempt.outcome != "delivered":
                span.fail("hook_failed")
        if not claimed.is_replay:  # the session of a replayed event went on long ago
            await self._late_contexts.keep(event, result.later)
        return result.attempt

    def _prepare_request(
        self,
        claimed: ClaimedDelivery,
        events: Sequence[DecodedEvent],
        endpoint: Endpoint,
        links: AnswerLinks | None,
    ) -> WebhookRequest:
        if claimed.members is None:
            replay_of = claimed.event if claimed.is_replay else ""
            return WebhookRequest(claimed.id, events[0].webhook_body(endpoint, links), replay_of)
        if endpoint.format not in BATCHED:
            raise Undeliverable(
                f"endpoint {endpoint.id!r} has format {endpoint.format} now, which cannot be sent in batches"
            )
        thin = msgspec.structs.replace(endpoint, payload="thin")
        full = [each.webhook_body(endpoint) for each in events]
        body = batch_body(endpoint.format, full, lambda: [each.webhook_body(thin) for each in events])
        return WebhookRequest(batch_id([claimed.id, *(member.id for member in claimed.members)]), body, is_batch=True)

    def settle(self, claimed: ClaimedDelivery, result: AttemptResult, milliseconds: float) -> Settlement:
        """The settlement of an attempt: delivered, due again after a delay, or dead; `milliseconds` is how long it took.

        Also counts the attempt for the breaker of its target.
        """
        reason = redact_text(result.reason) if result.reason else ""
        delay = next_delay(result, claimed.tries + 1) if result.outcome == "retry" else None
        outcome = "dead" if result.outcome == "retry" and delay is None else result.outcome
        delay_ms = 0 if delay is None else int(delay * 1000)
        # A command's failed run is in the log already.
        if result.outcome == "dead" or (result.outcome == "retry" and claimed.kind != "command"):
            then = "given up" if delay is None else f"tried again in {delay:g} s"
            log.warning("delivery %s to %s failed: %s; %s", claimed.id, redact_url(claimed.target), reason, then)
        now = now_ms()
        status, output, head, phases, sent = result.evidence
        record = attempt_record(
            Attempt(
                ms=now,
                took=round(milliseconds, 3),
                outcome=outcome,
                status=status,
                error=reason,
                output=output,
                carrier=self._carrier,
                head=head,
                phases=phases,
                sent=sent,
                next=now + delay_ms if outcome == "retry" else 0,
            )
        )
        signal = self._count_for_breaker(claimed.target, result)
        return _settlement(claimed, outcome, delay_ms, reason, record, signal)

    def _count_for_breaker(self, target: str, result: AttemptResult) -> str:
        """Count the attempt for the breaker. Returns the endpoint signal for settle.lua: `open` if the breaker opens now.

        The receiver's Retry-After follows the signal, in milliseconds.
        """
        if result.endpoint_signal == "failed":
            word = "open" if self._failures.add_failure(target) else "failed"
            return f"{word} {int(result.retry_after * 1000)}" if result.retry_after else word
        if result.endpoint_signal:
            self._failures.add_answer(target)
        return result.endpoint_signal


def wait_for_key(claimed: ClaimedDelivery, reason: str, wait_ms: int) -> Settlement:
    """The settlement that retries a delivery later and counts no attempt, because a secret's key is missing here."""
    return _settlement(claimed, "wait", wait_ms, reason, b"", "")


def _settlement(
    claimed: ClaimedDelivery, outcome: str, wait_ms: int, reason: str, record: bytes, signal: str
) -> Settlement:
    """A settlement with its arguments in the order of settle.lua."""
    args = (*claimed.key, claimed.id, outcome, wait_ms, reason, record, signal)
    return Settlement(claimed.key, args, claimed.target, reason, 1 + len(claimed.members or ()))


def _look_up(claimed: ClaimedDelivery, hook_set: HookSet) -> Hook | Endpoint | None:
    if "/" in claimed.hook:  # an action of a workflow
        return carried_action(hook_set.hooks, claimed.hook)
    if claimed.kind == "webhook":
        return hook_set.endpoints.get(claimed.hook)
    return hook_set.hooks.get(claimed.hook)


def _endpoint_of(hook: Hook) -> Endpoint:
    """The endpoint that a background http hook posts to."""
    assert hook.http is not None  # noqa: S101 - for mypy: `make` runs hooks without it as commands
    return Endpoint(
        id=hook.id,
        url=hook.http.url,
        headers=hook.http.headers,
        secret=hook.http.secret,
        timeout=hook.timeout,
        origin=hook.origin,
        dialect=hook.dialect,
        own=hook.own,
    )


def _read_evidence(endpoint: Endpoint, request: WebhookRequest, reply: Reply) -> AttemptDetails:
    """What the log keeps of a POST: the response; also the request if Gobby's `log_deliveries` is true; nothing if false."""
    logs = endpoint.own.get("log_deliveries")
    head, output = response_text(reply) if logs is not False else ("", "")
    return AttemptDetails(reply.status, output, head, reply.phases, beginning(request.body) if logs else "")
