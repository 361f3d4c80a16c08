"""What is sent for an event, service by service (G-22), thin bodies, and no secret in any of them."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bus.events import Event
from bus.hooks import Endpoint, Format, Payload, Resolve
from bus.verdicts import Part, Verdict
from tests.support.hostile import texts
from tests.support.rows import rows
from workers.delivery.formats import MOST_BODY, content_type, render
from workers.delivery.formats.card import card_of
from workers.delivery.formats.event_page import event_page
from workers.delivery.formats.pagerduty import dedup_key, ends
from workers.delivery.formats.slack import ESCAPES
from workers.delivery.formats.text import CUT, cut, line, safe, units

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
TOKEN: Final = "ghp_abcdefghijklmnopqrstuvwxyz012345"
DENIED: Final = Verdict(
    decision="deny",
    reason="This deletes <everything>",
    instead="Name the folder",
    version="fleet@3",
    parts=(Part(hook="style", decision="abstain"), Part(hook="guard-delete", decision="deny")),
)


def event(**more: Any) -> Event:
    """A tool call."""
    usual = {
        "type": "tool:pre_execute",
        "id": "e01",
        "time": 1_700_000_000_123,
        "tool": "bash",
        "source": "claude",
        "session": "s1",
        "host": "mac",
        "cwd": "/home/ada/shop",
        "input": {"command": "rm -rf build"},
    }
    return Event(**{**usual, **more})


def body(name: Format, told: Event, verdict: Verdict | None = DENIED, payload: Payload = "full", **more: Any) -> Any:
    """A rendered body."""
    endpoint = Endpoint(id="a", url="https://x.example", format=name, payload=payload, **more)
    return json.loads(render(told, verdict, endpoint, "K" * 32))


# --- cutting -----------------------------------------------------------------------------------------------------------

FAMILY, THUMB, FLAG = "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea"


@pytest.mark.req("G-22")
@rows(
    ("text", "most", "want"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("", 3, ""),
        ("ab  cd", 5, "ab…"),
        ("\U0001f600\U0001f600", 4, "\U0001f600\U0001f600"),
        ("\U0001f600\U0001f600", 3, "\U0001f600…"),
        ("\U0001f600\U0001f600", 2, "…"),
        ("ab" + FAMILY + "cd", 8, "ab…"),
        ("ab" + THUMB, 5, "ab…"),
        ("ab" + THUMB, 6, "ab" + THUMB),
        ("a" + FLAG + FLAG, 8, "a" + FLAG + "…"),
        ("a" + FLAG + FLAG, 6, "a" + FLAG + "…"),
        ("a" + FLAG + FLAG, 5, "a…"),
        ("abe\u0301", 3, "ab…"),
        ("abe\u0301x", 4, "ab…"),
        ("o" + "\u0335" * 60, 30, "o" + "\u0335" * 28 + "…"),
        ("a&b", 7, "a&amp;b"),
        ("a&b", 6, "a…"),
        ("a&bc", 7, "a&amp;…"),
        ("<<<", 11, "&lt;&lt;…"),
    ],
)
def test_a_cut_tears_nothing_apart(text: str, most: int, want: str) -> None:
    assert cut(text, most, ESCAPES) == want


@pytest.mark.req("G-22")
@given(texts.map(lambda text: text[:300]), st.integers(1, 200))
def test_a_cut_text_is_the_beginning_and_fits(text: str, most: int) -> None:
    text = safe(text)
    short = cut(text, most, ESCAPES)
    assert units(short) <= most
    plain = short.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert plain == text or (plain.endswith(CUT) and text.startswith(plain.removesuffix(CUT)))
    assert safe(short) == short


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a\x1b[31mb\x00", "a\ufffd[31mb\ufffd"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("a\tb\n", "a\tb\n"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),
        ("\ud83d\udc4d", "\U0001f44d"),
        ("\ud83dx", "\ufffdx"),
        ("x\udc4d", "x\ufffd"),
        ("\ufffe\U0001ffff", "\ufffd\ufffd"),
        ("שלום " + FAMILY, "שלום " + FAMILY),
    ],
)
def test_what_steers_or_is_no_character_is_replaced(text: str, want: str) -> None:
    assert safe(text) == want
    assert "\n" not in line(text)


# --- services ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("G-22")
def test_slack() -> None:
    said = body("slack", event(input={"command": "echo <!channel> & @everyone"}))
    assert said["text"] == "bash denied: This deletes &lt;everything&gt; Instead: Name the folder"
    header, why, detail, facts, context = said["blocks"]
    assert header["text"]["text"] == "bash denied"
    assert why["text"]["text"] == "This deletes &lt;everything&gt;\nInstead: Name the folder"
    assert detail["text"] == {"type": "plain_text", "text": "echo &lt;!channel&gt; &amp; @everyone", "emoji": False}
    assert [one["text"] for one in facts["fields"]] == [
        "Session: s1",
        "Agent: claude",
        "Tool: bash",
        "Host: mac",
        "Directory: /home/ada/shop",
        "Decision: deny",
        "Hook: guard-delete",
    ]
    assert context["elements"][0]["text"] == "fleethook events show e01 · 2023-11-14T22:13:20.123Z"


@pytest.mark.req("G-22")
@pytest.mark.parametrize("payload", ["full", "thin"])
def test_messages_to_people_lead_to_the_events_page(payload: Payload) -> None:
    told = event(id="e/<1>|&")
    endpoint = Endpoint(id="a", url="https://x.example/topic", payload=payload)
    page = event_page("https://fleet.example/", told)
    assert page == "https://fleet.example/#/events/e%2F%3C1%3E%7C%26"

    def sent(name: Format) -> Any:
        return json.loads(render(told, DENIED, replace(endpoint, format=name), "K" * 32, page=page))

    (actions,) = [block for block in sent("slack")["blocks"] if block["type"] == "actions"]
    assert [(one["text"]["text"], one["url"]) for one in actions["elements"]] == [("Show it in Fleethook", page)]
    assert sent("discord")["embeds"][0]["url"] == page
    assert [one["url"] for one in sent("teams")["attachments"][0]["content"]["actions"]] == [page]
    assert sent("pagerduty")["links"] == [{"href": page, "text": "Show it in Fleethook"}]
    assert (sent("ntfy")["click"], len(sent("ntfy")["actions"])) == (page, 1)
    held = Event(type="approval:requested", id="e02", data={"question": "q7"})
    assert event_page("https://fleet.example", held) == "https://fleet.example/#/approvals/q7"
    assert (event_page("", told), event_page("https://x.example", event(id="x" * 200))) == ("", "")


@pytest.mark.req("G-22")
def test_a_message_about_a_failed_tool_says_why_it_failed() -> None:
    failed = event(type="tool:error", data={"error": f"<!here> no such file; the key was {TOKEN}"})
    said = body("slack", failed, None)
    header, why, detail, *_ = said["blocks"]
    assert header["text"]["text"] == "bash failed"
    assert why["text"]["text"].startswith("&lt;!here&gt; no such file; the key was ")
    assert TOKEN not in json.dumps(said)
    assert detail["text"]["text"] == "rm -rf build"
    assert "no such file" not in json.dumps(body("slack", failed, None, "thin"))


@pytest.mark.req("G-22")
def test_discord() -> None:
    said = body("discord", event(input={"command": "[safe](https://evil.example) @everyone"}))
    (embed,) = said["embeds"]
    assert said["allowed_mentions"] == {"parse": []}
    assert embed["title"] == "bash denied"
    assert embed["description"].endswith(r"\[safe\]\(https://evil.example\) \@everyone")
    assert embed["timestamp"] == "2023-11-14T22:13:20.123Z"
    assert embed["fields"][0] == {"name": "Session", "value": "s1", "inline": True}
    assert embed["footer"]["text"] == "fleethook events show e01"


@pytest.mark.req("G-22")
def test_teams() -> None:
    said = body("teams", event())
    (attachment,) = said["attachments"]
    assert (said["type"], attachment["contentUrl"]) == ("message", None)
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.2")
    runs = ["".join(run["text"] for run in block["inlines"]) for block in card["body"]]
    assert runs[:4] == [
        "bash denied",
        "This deletes <everything>\nInstead: Name the folder",
        "rm -rf build",
        "Session: s1",
    ]


@pytest.mark.req("G-22")
def test_pagerduty() -> None:
    said = body("pagerduty", event())
    assert (said["event_action"], said["dedup_key"], said["routing_key"]) == (
        "trigger",
        "fleethook/s1/guard-delete",
        "K" * 32,
    )
    payload = said["payload"]
    assert payload["summary"] == "bash denied in shop: This deletes <everything> Instead: Name the folder"
    assert (payload["source"], payload["severity"], payload["component"]) == ("mac", "warning", "bash")
    assert payload["custom_details"]["Detail"] == "rm -rf build"
    failed = body("pagerduty", event(type="tool:error"), None)["payload"]
    assert failed["severity"] == "error"
    assert body("pagerduty", event(), Verdict(fallback="timeout"))["payload"]["severity"] == "error"


ALLOWED, OPEN, ASKED = Verdict(decision="allow"), Verdict(), Verdict(decision="ask")
POST, FAILED, END = event(type="tool:post_execute"), event(type="tool:error"), event(type="session:end", tool="")


@pytest.mark.req("G-22")
@rows(
    ("resolve", "opens", "verdict", "by", "passed", "ended"),
    [
        ("never", event(), DENIED, event(), OPEN, False),
        ("never", event(), DENIED, END, None, False),
        ("retry", event(), DENIED, event(), OPEN, True),
        ("retry", event(), DENIED, event(), ALLOWED, True),
        ("retry", event(), DENIED, event(), DENIED, False),
        ("retry", event(), DENIED, event(), ASKED, False),
        ("retry", event(), DENIED, event(), Verdict(fallback="no evaluator"), False),
        ("retry", FAILED, None, POST, None, True),
        ("retry", FAILED, None, event(type="tool:post_execute", tool="write"), None, False),
        ("retry", event(), DENIED, END, None, False),
        ("session", event(), DENIED, END, None, True),
        ("session", FAILED, None, END, None, True),
        ("session", event(), DENIED, event(), OPEN, False),
        ("session", event(), DENIED, event(type="session:end", session="s2", tool=""), None, False),
    ],
)
def test_what_ends_an_incident(
    resolve: Resolve, opens: Event, verdict: Verdict | None, by: Event, passed: Verdict | None, ended: bool
) -> None:
    """An incident ends where a later event is one that ends incidents, and has the same key."""
    opened = body("pagerduty", opens, verdict, resolve=resolve)
    then = body("pagerduty", by, passed, resolve=resolve)
    assert opened["event_action"] == "trigger"
    found = then["event_action"] == "resolve" and then["dedup_key"] == opened["dedup_key"]
    assert found is ended
    assert ends(by, passed, resolve) is (then["event_action"] == "resolve")


@pytest.mark.req("G-22")
def test_an_incidents_key_is_the_same_for_the_same_and_says_no_secret() -> None:
    key = dedup_key(event(), DENIED, "never")
    assert key == dedup_key(event(id="e02", input={"command": "rm -rf /"}, time=9), DENIED, "never")
    other = Verdict(decision="deny", parts=(Part(hook="other", decision="deny"),))
    assert len({key, dedup_key(event(session="s2"), DENIED, "never"), dedup_key(event(), other, "never")}) == 3
    odd = {
        dedup_key(event(session=name), None, resolve)
        for name in (TOKEN, "a/b", "a b", "", "x" * 300, "\ud83d")
        for resolve in ("never", "retry", "session")
    }
    assert len(odd) == 18
    assert not any(TOKEN in one or len(one) > 255 for one in odd)


@pytest.mark.req("G-22")
def test_cloudevents() -> None:
    said = body("cloudevents", event(host="büro 1"))
    assert {name: said[name] for name in said if name != "data"} == {
        "specversion": "1.0",
        "id": "e01",
        "source": "/fleethook/b%C3%BCro%201",
        "subject": "s1",
        "type": "dev.fleethook.tool.pre_execute",
        "time": "2023-11-14T22:13:20.123Z",
        "datacontenttype": "application/json",
    }
    assert said["data"] == body("fleethook", event(host="büro 1"))["data"]
    assert content_type("cloudevents") == "application/cloudevents+json"
    assert {content_type(name) for name in FORMATS if name != "cloudevents"} == {"application/json"}


# --- for all -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("G-22")
@pytest.mark.parametrize("name", FORMATS)
def test_a_thin_body_has_ids_and_facts_and_the_way_to_the_rest(name: Format) -> None:
    told = event(type="tool:post_execute", output="the plans", data={"prompt": "a secret wish"})
    raw = json.dumps(body(name, told, DENIED, "thin"))
    for absent in ("rm -rf", "the plans", "wish", "deletes", "Name the folder"):
        assert absent not in raw
    for present in ("s1", "bash", "deny", "guard-delete", "fleethook events show e01"):
        assert present in raw
    assert "rm -rf" in json.dumps(body(name, told))


@pytest.mark.req("G-22")
@pytest.mark.parametrize("name", ["fleethook", "cloudevents"])
def test_a_body_above_the_limit_goes_thin(name: Format) -> None:
    fits = body(name, event(output=["word "] * (MOST_BODY // 8 - 200)))
    assert "thin" not in fits["data"]
    data = body(name, event(output=["word "] * (MOST_BODY // 8)))["data"]
    assert data["thin"].startswith("the full event has 26")
    assert (data["get"], data["session"]) == ("fleethook events show e01", "s1")
    assert not {"input", "output", "data"} & set(data)


@pytest.mark.req("G-22")
@rows("name", FORMATS)
@rows("payload", ["full", "thin"])
@rows("where", ["session", "cwd", "host", "tool", "type", "id", "source", "native", "call"])
def test_no_secret_leaves_in_a_fact(name: Format, payload: Payload, where: str) -> None:
    verdict = Verdict(
        decision="deny", fallback=f"x {TOKEN}", version=f"x {TOKEN}", parts=(Part(hook=TOKEN, decision="deny"),)
    )
    assert TOKEN not in json.dumps(body(name, event(**{where: f"x {TOKEN}"}), verdict, payload))


@pytest.mark.req("G-22")
@rows("name", FORMATS)
@rows(
    "inside",
    [
        {"command": f"curl -H 'Authorization: Bearer {TOKEN}'"},
        {"path": "x" * 7_990 + f" {TOKEN}"},
        {"odd": {"password": TOKEN}},
        {TOKEN: [TOKEN]},
    ],
)
def test_no_secret_leaves_in_what_the_agent_did(name: Format, inside: dict[str, Any]) -> None:
    verdict = Verdict(decision="deny", reason=f"it holds {TOKEN}", instead=f"not {TOKEN}")
    for told in (event(input=inside), event(input={}, data=inside), event(input=inside, output=inside)):
        raw = json.dumps(body(name, told, verdict))
        assert TOKEN not in raw
        assert TOKEN[:20] not in raw, "nor the part of one before a cut"


@pytest.mark.parametrize(
    ("told", "verdict", "title"),
    [
        (event(), DENIED, "bash denied"),
        (event(), ASKED, "bash needs an answer"),
        (event(), ALLOWED, "bash allowed"),
        (event(type="permission:request"), OPEN, "bash waits for a permission"),
        (event(type="permission:request"), DENIED, "bash denied"),
        (event(type="tool:error", tool=""), None, "A tool failed"),
        (event(type="session:end", tool=""), None, "A session ended"),
        (event(), OPEN, "tool:pre_execute bash"),
        (event(type="claude:Pre.Odd", tool=""), None, "claude:Pre.Odd"),
        (Event(type=""), None, "event"),
        (Event(type=""), DENIED, "event denied"),
        (event(tool="a\nb\x00"), DENIED, "a b\ufffd denied"),
    ],
)
def test_the_title(told: Event, verdict: Verdict | None, title: str) -> None:
    assert card_of(told, verdict, "full").title == title


@pytest.mark.parametrize(
    ("told", "detail"),
    [
        (event(), "rm -rf build"),
        (event(input={"path": "/a", "command": "b"}), "b"),
        (event(input={"n": 1}), '{"n": 1}'),
        (event(input={}, data={"message": "hi"}), "hi"),
        (event(input={}, data={"x": [1]}), '{"x": [1]}'),
        (event(input={"command": "  "}, data={"prompt": "p"}), "p"),
        (event(input={}), ""),
        (event(input={"command": "a\nb"}), "a\nb"),
    ],
)
def test_the_detail_is_what_says_most(told: Event, detail: str) -> None:
    assert card_of(told, None, "full").detail == detail
