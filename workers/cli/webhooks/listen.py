"""`fleethook listen`: receives your own webhooks, checks and shows them, and forwards them to a local service (G-10)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet

if TYPE_CHECKING:  # what the command needs it imports itself, so that `--help` stays fast
    from workers.admin.webhook_listener import ListenerOptions, ReceivedWebhook


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=9000, show_default=True, help="0: a free one.")
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option(
    "--forward-to",
    "forward",
    default="",
    metavar="URL",
    help="Forward each webhook to a local service, and pass its answer back.",
)
@click.option(
    "--secret",
    "references",
    multiple=True,
    metavar="REF",
    help="Check signatures: env:NAME or file:PATH; may be repeated.",
)
@click.option(
    "--endpoint", default="", metavar="ID", help="Check signatures with the secrets of an endpoint in force here."
)
@click.option(
    "--status",
    type=click.IntRange(200, 599),
    default=204,
    show_default=True,
    help="The status to answer with if nothing is forwarded.",
)
@click.option("--count", type=click.IntRange(0), default=0, metavar="N", help="End after this many webhooks.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=None,
    metavar="SECONDS",
    help="End after this time, even if fewer arrived.",
)
@common_options
@pass_fleet
def listen(
    fleet: Context,
    port: int,
    bind: str,
    forward: str,
    references: tuple[str, ...],
    endpoint: str,
    status: int,
    count: int,
    timeout: float | None,
) -> None:
    """Receive your own webhooks on this machine, and show each with the check of its signature.

    A webhook with an invalid signature gets the answer 401 and is not forwarded. Exit 0 if --count webhooks arrived and every
    signature is valid, else 1.
    """
    import asyncio

    from bus.secrets.references import resolve_secret
    from workers.admin.webhook_listener import ListenerOptions
    from workers.cli.webhooks.check import secrets_of_endpoint

    secrets = [resolve_secret(one) for one in references]
    if endpoint:
        secrets += secrets_of_endpoint(fleet, endpoint)
    if not _is_loopback(bind):
        fleet.say(f"warning: {bind} can be reached from other machines")
    wanted = ListenerOptions(secrets, forward, status, count, lambda webhook: _show(fleet, webhook))
    arrived, failed, ok = asyncio.run(_run(fleet, wanted, bind, port, timeout))
    if not fleet.json:
        fleet.say(f"{arrived} arrived{f' of {count}' if count else ''}, {failed} with an invalid signature")
    if not ok:
        raise CheckFailed("")


async def _run(
    fleet: Context, wanted: ListenerOptions, bind: str, port: int, seconds: float | None
) -> tuple[int, int, bool]:
    """Listen until the end; returns how many arrived, how many had an invalid signature, and whether that is a success."""
    import asyncio
    import contextlib
    import signal

    from workers.admin.webhook_listener import Listener

    listener, loop = Listener(wanted), asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError, RuntimeError):  # only the main thread gets Ctrl-C
            loop.add_signal_handler(number, stop.set)
    url = await listener.open(bind, port)
    fleet.say(f"listening on {url}")
    fleet.say(f"  as an endpoint: `fleethook webhooks add {url} --allow`")
    ends = [asyncio.create_task(one.wait()) for one in (stop, listener.done)]
    try:
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in ends:
            one.cancel()
        await listener.close()
    return listener.arrived, listener.failed, listener.ok


def _show(fleet: Context, webhook: ReceivedWebhook) -> None:
    from workers.cli.formatting import json_line, local_time, plain, pretty, short
    from workers.cli.screens.columns import wrapped_lines

    if fleet.json:
        fleet.stream(_record(webhook))
        return
    word = {True: fleet.style("verified", "green"), False: fleet.style("NOT VERIFIED", "red"), None: "unchecked"}[
        webhook.verified
    ]
    name = plain(webhook.headers.get("webhook-id", "-"), 300)
    forwarded_text = (
        f"  forwarded in {webhook.reply.ms:.0f} ms" if webhook.reply is not None and not webhook.reply.error else ""
    )
    repeat_text = "  again" if webhook.repeat else ""
    kind = fleet.style(plain(_event_type(webhook), 100), "cyan")
    place = f"{local_time(webhook.ms):%H:%M:%S}  {webhook.status}  {plain(_path(webhook), 300)}"
    head = f"{kind}  {word}  {place}  {name}{repeat_text}{forwarded_text}"
    fleet.data(wrapped_lines([head]))
    if webhook.reason:
        fleet.data(f"  {fleet.style(plain(webhook.reason, 500), 'yellow')}")
    if sys.stdout.isatty():
        for text in pretty(_text(webhook)).splitlines():
            fleet.data(f"  {json_line(fleet, text)}")
    else:  # one line each, for programs that read lines
        fleet.data(f"  {fleet.style(short(_text(webhook), 400), 'bright_black')}")


def _event_type(webhook: ReceivedWebhook) -> str:
    """The event type in the body; `webhook` if it has none."""
    import json

    try:
        body = json.loads(webhook.body)
    except (ValueError, RecursionError):  # no JSON
        return "webhook"
    kind = body.get("type") if isinstance(body, dict) else None
    return kind if isinstance(kind, str) and kind else "webhook"


def _record(webhook: ReceivedWebhook) -> dict[str, Any]:
    import contextlib
    import json

    from bus.secrets.redaction import redact

    body: object = _text(webhook)
    with contextlib.suppress(ValueError, RecursionError):  # no JSON, so it is shown as text
        body = redact(json.loads(webhook.body))
    forwarded = webhook.reply and {
        "status": webhook.reply.status,
        "ms": round(webhook.reply.ms, 1),
        "error": webhook.reply.error,
    }
    return {
        "number": webhook.number,
        "time": webhook.ms,
        "path": _path(webhook),
        "id": webhook.headers.get("webhook-id", ""),
        "verified": webhook.verified,
        "reason": webhook.reason,
        "status": webhook.status,
        "repeat": webhook.repeat,
        "headers": redact(webhook.headers),
        "body": body,
        "forwarded": forwarded,
    }


def _text(webhook: ReceivedWebhook) -> str:
    from bus.secrets.redaction import redact_text

    return redact_text(webhook.body[:65_536].decode("utf-8", "replace"))


def _path(webhook: ReceivedWebhook) -> str:
    """The path, redacted like a URL, because it may hold a token."""
    from bus.secrets.redaction import redact_url

    return redact_url(f"http://h{webhook.path}").removeprefix("http://h")


def _is_loopback(address: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
