"""The format of an endpoint in fleethook.yaml: its fields with types, descriptions and examples."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from bus.config.field_types import Delay, Id, Patterns, Seconds, Text
from bus.hooks import Format, OldSecret, Payload, Resolve, Schedule
from bus.pacing import Batch, Order
from bus.verdicts import Policy


class EndpointEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where webhooks are sent, for which events, and how failed deliveries are retried."""

    url: Annotated[
        str,
        Meta(
            description="The URL that deliveries are posted to. `http://` and private addresses need an entry in "
            "`network.allow`. Optional with `format: pagerduty`.",
            examples=["https://hooks.example/agents"],
        ),
    ] = ""
    id: Annotated[
        Id | None,
        Meta(
            description="The endpoint's name in lists and commands: letters, digits, `_` and `-`; unique in the file. "
            "Without it, an id is made from the description.",
            examples=["audit"],
        ),
    ] = None
    events: Annotated[
        Patterns,
        Meta(
            description="The events that are sent: patterns, as in a hook's `on`.", examples=[["tool:*", "session:end"]]
        ),
    ] = "*"
    tool: Annotated[
        Text,
        Meta(
            description="Tool names separated by `|`, or a regular expression; without it, every tool.",
            examples=["bash|write"],
        ),
    ] = ""
    when: Annotated[
        Text,
        Meta(
            description="A CEL condition over `event.…` and `verdict.…`; events where it is true are delivered.",
            examples=['verdict.decision == "deny"'],
        ),
    ] = ""
    secret: Annotated[
        str,
        Meta(
            max_length=1000,
            description="Standard Webhooks secret, as `env:NAME`, `file:PATH` or `whsec_…`; without it, deliveries are not "
            "signed.",
            examples=["env:AUDIT_SECRET"],
        ),
    ] = ""
    old_secrets: Annotated[
        list[OldSecret],
        Meta(
            max_length=8,
            description="Earlier values of `secret`. Each one signs too, up to the time in its `until`.",
            examples=[[{"secret": "env:OLD_SECRET", "until": "2026-11-23T08:00:00Z"}]],
        ),
    ] = msgspec.field(default_factory=list)
    headers: Annotated[
        dict[str, Text],
        Meta(
            description="Headers of each request. Values may contain `${VAR}` and `${file:PATH}`.",
            examples=[{"Authorization": "Bearer ${AUDIT_TOKEN}"}],
        ),
    ] = msgspec.field(default_factory=dict)
    format: Annotated[
        Format,
        Meta(
            description="The format of the body: Fleethook's own, a CloudEvent, or a message for a chat or on-call service.",
            examples=["slack"],
        ),
    ] = "fleethook"
    payload: Annotated[
        Payload,
        Meta(
            description="`full`: the event with its secrets redacted. `thin`: ids and facts, without the tool's input and "
            "output; bodies above 256 KiB are always thin. `raw` (only with `can_block: true`): a request for a decision "
            "carries the event as the agent sent it, with its secrets.",
            examples=["thin"],
        ),
    ] = "full"
    routing_key: Annotated[
        str,
        Meta(
            max_length=1000,
            description="PagerDuty's integration key, as `env:NAME` or `file:PATH`; required with `format: pagerduty`.",
            examples=["env:PAGERDUTY_KEY"],
        ),
    ] = ""
    resolve: Annotated[
        Resolve,
        Meta(
            description="What resolves an incident at PagerDuty. `never`: Fleethook resolves none, and opens one incident "
            "per session and rule. `retry`: the next allowed call of the same tool, with one incident per session and "
            "tool. `session`: the end of the session, with one incident per session.",
            examples=["session"],
        ),
    ] = "never"
    timeout: Annotated[Seconds, Meta(description="Seconds for one attempt.", examples=[5])] = 15.0
    retry: Annotated[
        Annotated[list[Delay], Meta(max_length=50)] | Schedule,
        Meta(
            description="Seconds before each further attempt, or the name of a schedule: `default` (three days), `fast` "
            "(nine minutes), `gobby` (1, 2 and 4 s), `once` (no further attempt).",
            examples=["fast", [1, 10, 60]],
        ),
    ] = msgspec.field(default_factory=list)
    max_in_flight: Annotated[
        int, Meta(ge=1, le=10_000, description="The highest number of attempts at the same time.", examples=[4])
    ] = 10
    rate: Annotated[
        str,
        Meta(
            max_length=40,
            description="The highest rate of attempts over the whole fleet, per `s`, `min`, `h` or `d`; without it, no "
            "limit.",
            examples=["10/s", "600/min"],
        ),
    ] = ""
    order: Annotated[
        Order,
        Meta(
            description="`fifo`: the deliveries of a session are sent one at a time, in the order of its events. A failed "
            "delivery delays only its own session, until it is delivered or given up.",
            examples=["fifo"],
        ),
    ] = "none"
    batch: Annotated[
        Batch | None,
        Meta(
            description="Combine several events in one body; without it, one event per request.",
            examples=[{"max_events": 50, "max_wait": 2}],
        ),
    ] = None
    can_block: Annotated[
        bool,
        Meta(
            description="Ask the endpoint for a decision where an agent waits for one, as a blocking `http` hook does. All "
            "other events are delivered as usual.",
            examples=[True],
        ),
    ] = False
    on_failure: Annotated[
        Policy | None,
        Meta(
            description="With `can_block: true`: the decision if the endpoint gives no usable answer.",
            examples=["deny"],
        ),
    ] = None
    enabled: Annotated[
        bool, Meta(description="`false` keeps the endpoint in the file and sends it nothing.", examples=[False])
    ] = True
    description: Annotated[
        Text, Meta(description="What the endpoint is for, shown in lists.", examples=["The audit log of all agents."])
    ] = ""
