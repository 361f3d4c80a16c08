"""`webhooks test`: sends one signed event to an endpoint now, as a carrier would send it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.formatting import plain, short
from workers.cli.hooks.sets import in_force
from workers.cli.webhooks import find_endpoint

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.events import Event
    from bus.hooks import Endpoint
    from bus.hooksets.in_force import HookSet
    from bus.http.client import Reply, WebhookClient

_MESSAGE: Final = "a test from `fleethook webhooks test`"


@click.command("test")
@click.argument("name", metavar="ENDPOINT")
@click.option("--yes", is_flag=True, help="Do not ask before an incident is opened at PagerDuty.")
@common_options
@pass_fleet
def test_webhook(fleet: Context, name: str, yes: bool) -> None:
    """Send one real, signed test event to an endpoint now, from this machine; exit 1 if it is not accepted.

    At PagerDuty this opens an incident, which is resolved right after; you are asked before.
    """
    import asyncio

    hooks = in_force(fleet, needed=False)
    endpoint = find_endpoint(hooks, name)
    incident = endpoint.format == "pagerduty"
    if incident:
        asked = f"This opens a real incident at PagerDuty ({name}), may page a person, and resolves it. Go on?"
        if not fleet.confirm(asked, yes):
            fleet.say("nothing was sent")
            return
    sent = asyncio.run(_post_tests(hooks, endpoint))
    (reply, wrong), ended = sent[0], sent[1] if len(sent) > 1 else None
    if fleet.json:
        resolved = {"resolved": ended is not None and not ended[1]} if incident else {}
        errors = [text for _, text in sent if text]
        fleet.data({**_record(endpoint, reply, errors[0] if errors else ""), **resolved})
    else:
        _report(fleet, endpoint, reply, wrong, "the incident was opened" if incident else "")
        if ended is not None:
            _report(fleet, endpoint, *ended, "and is resolved")
    if ended is not None and ended[1]:
        raise CheckFailed(f"the test's incident is still open at PagerDuty: resolve it there ({ended[1]})")
    if wrong:
        raise CheckFailed("")


async def _post_tests(hooks: HookSet, endpoint: Endpoint) -> list[tuple[Reply, str]]:
    """Send the test; returns each attempt's answer and what is wrong with it (empty: nothing). Resolves its own incident."""
    import msgspec

    from bus.events import Event, EventType
    from bus.http.client import WebhookClient
    from bus.ids import event_id, host_name

    name = event_id()
    event = Event(
        type="notification",
        id=name,
        source="generic",
        native="test",
        time=int(time.time() * 1000),
        host=host_name(),
        data={"test": True, "message": _MESSAGE},
    )
    async with WebhookClient(hooks.network, proxy=hooks.proxy) as client:
        client.open()  # the imports take 300 ms, which must not count as the receiver's time
        if endpoint.format != "pagerduty":
            return [await _post(client, endpoint, event)]
        # A separate incident, so that the test changes no incident of real events.
        endpoint = msgspec.structs.replace(endpoint, resolve="session")
        event = msgspec.structs.replace(event, session=f"test-{name}")
        sent = [await _post(client, endpoint, event)]
        if not sent[0][1]:
            end = msgspec.structs.replace(event, type=EventType.SESSION_END.value, id=event_id())
            sent.append(await _post(client, endpoint, end))
        return sent


async def _post(client: WebhookClient, endpoint: Endpoint, event: Event) -> tuple[Reply, str]:
    from bus.http.client import Reply
    from bus.ids import delivery_id
    from workers.delivery.batch_bodies import batch_body, batch_id
    from workers.delivery.outcome_table import judge
    from workers.delivery.results import Undeliverable
    from workers.delivery.webhook import render_body, request_headers

    try:
        body, name = render_body(event, None, endpoint), delivery_id(event.id, endpoint.id)
        if endpoint.batch is not None:
            body, name = batch_body(endpoint.format, [body], list), batch_id([name])
        headers = request_headers(endpoint, name, body, int(time.time()), batch=endpoint.batch is not None)
        reply = await client.post(endpoint.url, body, headers, seconds=endpoint.timeout)
    except Undeliverable as error:  # a secret or a variable is missing here
        return Reply(), error.reason
    return reply, judge(reply, endpoint.format).reason


def _record(endpoint: Endpoint, reply: Reply, wrong: str) -> dict[str, object]:
    from bus.secrets.redaction import redact_url
    from workers.delivery.responses import body_text

    return {
        "endpoint": endpoint.id,
        "url": redact_url(endpoint.url),
        "ok": not wrong,
        "status": reply.status,
        "ms": round(reply.ms, 1),
        "error": wrong,
        "response": body_text(reply),
    }


def _report(fleet: Context, endpoint: Endpoint, reply: Reply, wrong: str, what: str) -> None:
    record = _record(endpoint, reply, wrong)
    word = fleet.style("failed", "red") if wrong else fleet.style("accepted", "green")
    more = f"  {what}" if what and not wrong else ""
    status = reply.status or "-"
    fleet.data(f"{endpoint.id}  {plain(str(record['url']))}  {word}  status {status}  {reply.ms:.1f} ms{more}")
    if wrong:
        fleet.data(f"  {fleet.style(plain(wrong, 500), 'yellow')}")
    if record["response"]:
        fleet.data(f"  | {fleet.style(short(str(record['response']), 200), 'bright_black')}")
