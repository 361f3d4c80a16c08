"""`webhooks test`: sends one signed event to an endpoint now, as a carrier would send it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.formatting import plain, short
from workers.cli.hooks.sets import in_force
from workers.cli.webhooks import find_endpoint

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooks import Endpoint
    from bus.http.webhook_client import Reply

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

    from bus.requests import checked_context
    from bus.tracing import spans
    from workers.delivery.endpoint_trial import post_tests

    hooks = in_force(fleet, needed=False)
    endpoint = find_endpoint(hooks, name)
    incident = endpoint.format == "pagerduty"
    if incident:
        asked = f"This opens a real incident at PagerDuty ({name}), may page a person, and resolves it. Go on?"
        if not fleet.confirm(asked, yes):
            fleet.say("nothing was sent")
            return
    settings = fleet.settings()
    spans.configure("cli", settings.namespace, settings.otlp_endpoint)
    try:
        sent = asyncio.run(post_tests(hooks, endpoint, _MESSAGE, checked_context(*spans.ambient())))
    finally:
        spans.shut_down()
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
    from bus.hooksets.imports import allow_hint

    record = _record(endpoint, reply, wrong)
    word = fleet.style("failed", "red") if wrong else fleet.style("accepted", "green")
    more = f"  {what}" if what and not wrong else ""
    status = reply.status or "-"
    fleet.data(f"{endpoint.id}  {plain(str(record['url']))}  {word}  status {status}  {reply.ms:.1f} ms{more}")
    if wrong:
        hint = f"; {allow_hint(endpoint.url)}" if "allow list" in wrong else ""
        fleet.data(f"  {fleet.style(plain(wrong + hint, 500), 'yellow')}")
    if record["response"]:
        fleet.data(f"  | {fleet.style(short(str(record['response']), 200), 'bright_black')}")
