"""Every body is within its service's limits and does nothing there, whatever an agent wrote (G-22)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bus.events import Event
from bus.hooks import Endpoint, Format, Payload, Resolve
from bus.verdicts import Verdict
from tests.support.examples import examples
from tests.support.hostile import FRAGMENTS, all_hostile, events, verdicts
from tests.support.rows import rows
from workers.delivery.formats import render
from workers.delivery.formats.event_page import event_page

STEERING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def units(text: str) -> int:
    """The most that "characters" can mean: UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def strings(node: Any) -> Iterator[str]:
    """Every text of a body."""
    if isinstance(node, str):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from strings(below)


def within(text: str, most: int) -> None:
    """A text that a service takes: there, and not longer."""
    assert text.strip(), "services refuse empty texts"
    assert units(text) <= most


PUBLIC: Final = "https://fleet.example/"
PAGE: Final = re.compile(r"https://fleet\.example/#/events/[A-Za-z0-9._~%-]+\Z")


def slack(raw: bytes) -> None:
    """Block Kit: 50 blocks, header 150, section 3,000, 10 fields of 2,000, 10 elements; & < > escaped everywhere."""
    body = json.loads(raw)
    within(body["text"], 4_000)
    assert 1 <= len(body["blocks"]) <= 50
    for block in body["blocks"]:
        if "text" in block:
            within(block["text"]["text"], 150 if block["type"] == "header" else 3_000)
        for below in (block.get("fields", []), block.get("elements", [])):
            assert len(below) <= 10
            for one in below:
                if one["type"] == "button":
                    assert PAGE.match(one["url"]), "an agent's text leads it nowhere else"
                text = one["text"] if one["type"] == "button" else one
                within(text["text"], 2_000)
                assert text["type"] == "plain_text"
    for text in strings(body):
        assert "<" not in text
        assert ">" not in text
        assert not re.search(r"&(?!amp;|lt;|gt;)", text), "an escape is whole or not there"
    assert (body["unfurl_links"], body["mrkdwn"]) == (False, False)


ESCAPED: Final = re.compile(r"(?:\\[\\`*_~|>#\[\]()<@]|[^\\`*_~|>#\[\]()<@])*\Z")


def discord(raw: bytes) -> None:
    """Embeds: title 256, description 4,096, 25 fields of 256 and 1,024, footer 2,048, all together 6,000."""
    body = json.loads(raw)
    assert body["allowed_mentions"] == {"parse": []}
    (embed,) = body["embeds"]
    assert PAGE.match(embed.get("url", f"{PUBLIC}#/events/e"))
    counted = [embed["title"], embed["footer"]["text"]]
    within(embed["title"], 256)
    within(embed["footer"]["text"], 2_048)
    shown = [embed["title"]]
    if "description" in embed:
        within(embed["description"], 4_096)
        shown.append(embed["description"])
    assert len(embed["fields"]) <= 25
    for field in embed["fields"]:
        within(field["name"], 256)
        within(field["value"], 1_024)
        counted += [field["name"], field["value"]]
        shown.append(field["value"])
    assert sum(map(units, counted)) + units(embed.get("description", "")) <= 6_000
    for text in shown:
        assert ESCAPED.match(text), "no markup of an agent's is left"


def teams(raw: bytes) -> None:
    """28 KB in all, and 21 to be sure; what an agent wrote is in text runs only."""
    assert len(raw) <= 21_000
    (attachment,) = json.loads(raw)["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    for block in attachment["content"]["body"]:
        assert block["type"] == "RichTextBlock"
        for run in block["inlines"]:
            assert run["type"] == "TextRun"
            assert run["text"]


def pagerduty(raw: bytes) -> None:
    """512 KB in all; dedup key 255, summary 1,024, one of four severities, a source."""
    assert len(raw) <= 512_000
    body = json.loads(raw)
    within(body["dedup_key"], 255)
    assert body["routing_key"] == "K" * 32
    if body["event_action"] == "resolve":
        assert set(body) == {"routing_key", "dedup_key", "event_action"}
        return
    payload = body["payload"]
    within(payload["summary"], 1_024)
    within(payload["source"], 255)
    assert payload["severity"] in ("critical", "error", "warning", "info")


def cloudevents(raw: bytes) -> None:
    """256 KiB; the required attributes are there, none is empty or holds what the specification forbids."""
    assert len(raw) <= 256 * 1024
    body = json.loads(raw)
    attributes = {name: value for name, value in body.items() if name != "data"}
    assert {"specversion", "id", "source", "type", "time", "datacontenttype"} <= set(attributes)
    for name, value in attributes.items():
        assert re.fullmatch("[a-z0-9]{1,20}", name)
        assert value
        assert not STEERING.search(value)
    assert re.fullmatch(r"[\x21-\x7e]+", body["source"]), "a URI reference"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["time"])


def ours(raw: bytes) -> None:
    """256 KiB of plain ASCII JSON."""
    assert len(raw) <= 256 * 1024
    assert raw.isascii()
    assert set(json.loads(raw)) == {"type", "timestamp", "data"}


SERVICES: Final[dict[Format, Callable[[bytes], None]]] = {
    "slack": slack,
    "discord": discord,
    "teams": teams,
    "pagerduty": pagerduty,
    "cloudevents": cloudevents,
    "fleethook": ours,
}


def check(name: Format, event: Event, verdict: Verdict | None, payload: Payload, resolve: Resolve = "never") -> None:
    endpoint = Endpoint(id="a", url="https://x.example", format=name, payload=payload, resolve=resolve)
    raw = render(event, verdict, endpoint, "K" * 32, page=event_page(PUBLIC, event))
    SERVICES[name](raw)
    if name in ("slack", "discord", "teams", "pagerduty"):
        for text in strings(json.loads(raw.decode("utf-8"))):
            assert not STEERING.search(text)


@pytest.mark.req("G-22")
@rows("payload", ["full", "thin"])
@rows("name", SERVICES)
@rows("times", [1, 12])
def test_a_body_of_nothing_but_hostile_text_is_within_the_limits(name: Format, payload: Payload, times: int) -> None:
    event, verdict = all_hostile(times)
    check(name, event, verdict, payload)
    check(name, Event(type=event.id, input={event.id: event.id}), None, payload)


@pytest.mark.req("G-22")
@rows("name", SERVICES)
@rows("char", ["x", '"', "\\", "&", "<", "@", "漢", "\U0001f600", "\x00", "\ud83d", "\n", " ", "\u0335"])
def test_a_body_of_one_character_again_and_again_is_within_the_limits(name: Format, char: str) -> None:
    # Twelve of these texts are longer than each limit; the codecs ask a handler about each half of a pair.
    text = char * (20_000 if char == "\ud83d" else 45_000 // len(char.encode()))
    verdict = Verdict(decision="deny", reason=text, instead=text, fallback=text)
    check(
        name,
        Event(
            type=text,
            id=text,
            source=text,
            session=text,
            host=text,
            cwd=text,
            tool=text,
            call=text,
            native=text,
            input={"command": text},
        ),
        verdict,
        "full",
    )


@pytest.mark.req("G-22")
@pytest.mark.parametrize("name", SERVICES)
def test_a_body_of_nothing_at_all_is_one_that_the_service_takes(name: Format) -> None:
    for payload in ("full", "thin"):
        check(name, Event(type=""), None, payload)
        check(name, Event(type=""), Verdict(), payload)


@pytest.mark.req("G-22")
@pytest.mark.parametrize("name", ["slack", "discord", "teams", "pagerduty"])
def test_the_limits_hold_wherever_a_fragment_falls(name: Format) -> None:
    """The cut moves through each fragment one character at a time."""
    for fragment in FRAGMENTS:
        for shift in range(min(len(fragment), 5)):
            text = ("x" * shift + fragment * (4_500 // len(fragment) + 1))[:4_500]
            event = Event(
                type="tool:pre_execute", tool=text[:300], cwd=text[:300], session="s", input={"command": text}
            )
            check(name, event, Verdict(decision="deny", reason=text), "full")


@pytest.mark.req("G-22")
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    event=events,
    verdict=st.none() | verdicts,
    payload=st.sampled_from(("full", "thin")),
    resolve=st.sampled_from(("never", "retry", "session")),
)
def test_every_body_is_within_its_limits(
    event: Event, verdict: Verdict | None, payload: Payload, resolve: Resolve
) -> None:
    for name in SERVICES:
        check(name, event, verdict, payload, resolve)
