"""The views of what is recorded, in a real headless Chromium, with what a person does there (issue 12, item 11)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.beside import beside
from tests.support.browser import PERSON, Tab
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.waiting import wait_until
from workers.approvals.questions import QuestionFilter, question_page

pytestmark = [pytest.mark.flow, pytest.mark.req("G-22", "G-19")]

HOOKS = """
version: 1
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - {{id: chat, url: "http://127.0.0.1:{port}/chat", events: "turn:end", retry: []}}
  - {{id: log, url: "http://127.0.0.1:{port}/log", events: "session:end"}}
hooks:
  - {{id: no-rm, on: 'tool:pre_execute:bash', rule: {{reason: no rm here, commands: [{{program: [rm]}}]}}}}
  - id: look-at-push
    on: 'tool:pre_execute:bash'
    rule: {{decision: ask, reason: pushes are looked at, commands: [{{program: [git]}}]}}
    hold: {{timeout: 0.2}}
  - {{id: tell, on: 'agent:end', command: 'exit 3', blocking: false, retry: []}}
"""
HTML = "rm <img src=x onerror=alert(1)>"
VIEWS = ("history", "approvals", "sessions", "hosts", "hooks", "endpoints", "deliveries", "dead")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as one:
        yield one


@pytest.fixture(scope="module")
def world(browser: Browser, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The browser comes first: without one nothing else is started."""
    with fleet(tmp_path_factory.mktemp("records"), "evaluator", "dispatcher", "carrier", "chores") as one:
        one.publish_hooks(HOOKS.format(port=receiver.port))
        yield one


@pytest.fixture(scope="module", autouse=True)
def past(world: Fleet, gateway: Gateway) -> None:
    """Sixty turns of one session, 120 hosts, a denied call, a held call that nobody answered, a background hook that failed."""
    bash = {"type": "tool:pre_execute", "source": "claude", "tool": "bash", "host": "build-3", "cwd": "/work/shop"}
    with gateway.unix() as client:
        prompts = [
            {"type": "prompt:submit", "source": "codex", "session": "many", "data": {"prompt": f"p{n}"}}
            for n in range(60)
        ]
        client.post("/v1/events", json=prompts)
        wide = [{"type": "prompt:submit", "source": "pigo", "session": "wide", "host": f"h-{n:03}"} for n in range(120)]
        for half in (wide[:60], wide[60:]):
            assert client.post("/v1/events", json=half).is_success
        assert (
            client.post("/v1/requests", json={**bash, "session": "s-1", "input": {"command": HTML}}).json()["decision"]
            == "deny"
        )
        push = {**bash, "session": "s-1", "input": {"command": "git push"}}

        def is_asked() -> bool:
            """Send the call, and return whether a question waits. A late evaluator means the failure policy answers."""
            client.post("/v1/requests", json=push)
            return bool(question_states(world))

        wait_until(is_asked, "the question is asked")
        wait_until(lambda: set(question_states(world)) == {"timed_out"}, "nobody has answered it")
        client.post("/v1/events", json={"type": "agent:end", "source": "codex", "session": "many"})
    wait_until(lambda: [letter.hook for letter in world.dead()] == ["tell"], "the background hook has failed")


def question_states(world: Fleet) -> list[str]:
    """The states of all questions."""
    page = world.ask(lambda connections: question_page(connections, world.keys, QuestionFilter(), 10))
    return [question.state for question in page.items]


def dead_letter(world: Fleet, gateway: Gateway, receiver: Receiver, session: str) -> str:
    """The id of a new dead letter of the endpoint `chat`, which takes webhooks again from now on."""
    receiver.by_path["/chat"] = Answer(400)
    with gateway.unix() as client:
        event = client.post("/v1/events", json={"type": "turn:end", "source": "codex", "session": session}).json()["id"]
    world.dead_letter(f"{event}.chat")
    receiver.by_path.clear()
    return f"{event}.chat"


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text)


def test_dead_letters_are_tried_again_by_hand(tab: Tab, world: Fleet, gateway: Gateway, receiver: Receiver) -> None:
    name = dead_letter(world, gateway, receiver, "retried")
    page = tab.sign_in("dead")
    letter = row(page, "retried")
    expect(letter).to_contain_text("receiver answered 400")
    letter.get_by_role("checkbox").check()
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.get_by_role("button", name="Try again", exact=True).click()
    expect(page.locator("#status")).to_have_text("1 are tried again.")
    expect(letter).to_have_count(0)
    world.delivered(name.partition(".")[0])


def test_a_dead_letter_shows_why_and_what_was_sent_and_is_dropped_after_a_question(
    tab: Tab, world: Fleet, gateway: Gateway, receiver: Receiver
) -> None:
    name = dead_letter(world, gateway, receiver, "dropped")
    page = tab.sign_in("dead")
    row(page, "dropped").get_by_role("rowheader").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Dead letter\b"))  # the list says letters
    expect(row(page, "receiver answered 400")).to_contain_text("dead 400")
    expect(page.get_by_text(f"POST http://127.0.0.1:{receiver.port}/chat")).to_be_visible()
    expect(page.get_by_text('"session": "dropped"')).to_be_visible()
    drop = page.get_by_role("button", name="Drop …")
    drop.click()
    dialog = page.get_by_role("dialog", name="Delete this dead letter for good?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert name in {letter.id for letter in world.dead()}
    drop.click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Dead letters", level=1)).to_be_visible()
    assert name not in {letter.id for letter in world.dead()}


def test_all_dead_letters_of_a_reason_are_tried_again(
    tab: Tab, world: Fleet, gateway: Gateway, receiver: Receiver
) -> None:
    names = [dead_letter(world, gateway, receiver, f"all-{number}") for number in range(3)]
    page = tab.sign_in("dead")
    page.get_by_role("button", name="receiver answered 400").click()
    expect(row(page, "failed: exit 3")).to_have_count(0)
    page.get_by_role("button", name="Try all 3 again …").click()
    page.get_by_role("dialog").get_by_role("button", name="Try all again").click()
    expect(page.locator("#status")).to_have_text("3 are tried again.")
    for name in names:
        world.delivered(name.partition(".")[0])
    assert [letter.hook for letter in world.dead()] == ["tell"], "what the filter leaves out stays"


def test_an_endpoint_is_paused_with_a_reason_and_resumed(tab: Tab, world: Fleet, gateway: Gateway) -> None:
    page = tab.sign_in("endpoints")
    page.get_by_role("button", name="Pause log").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("moving house")  # the dialog's field has the focus
    page.keyboard.press("Enter")
    expect(row(page, "/log")).to_contain_text("paused")
    expect(row(page, "/log")).to_contain_text("moving house")
    expect(row(page, "/log")).to_contain_text(PERSON)
    with gateway.unix() as client:
        event = client.post("/v1/events", json={"type": "session:end", "session": "later"}).json()["id"]
    wait_until(lambda: [one.state for one in world.deliveries(event)] == ["parked"], "the delivery waits")
    tab.go(f"deliveries/{event}.log")
    expect(page.get_by_text("its endpoint is paused")).to_be_visible()
    tab.go("endpoints/log")
    expect(row(page, "session:end")).to_contain_text("parked")
    page.get_by_role("button", name="Resume log").click()
    expect(page.get_by_role("button", name="Pause log")).to_be_visible()
    world.delivered(event)


def test_an_endpoint_is_tested_after_a_question_and_its_answer_is_shown(tab: Tab, receiver: Receiver) -> None:
    page = tab.sign_in("endpoints")
    for answer, title in (Answer(503, b"closed <b>today</b>"), "did not accept"), (Answer(204), "accepted"):
        receiver.by_path["/log"] = answer
        page.get_by_role("button", name="Test … log").click()
        question = page.get_by_role("dialog", name="Send a test event to log?")
        expect(question).to_contain_text(f"http://127.0.0.1:{receiver.port}/log")
        question.get_by_role("button", name="Send the test").click()
        result = page.get_by_role("dialog", name=f"log {title} the test")
        expect(result).to_contain_text(f"Status{answer.status}")
        expect(result).to_contain_text(answer.body.decode())
        result.get_by_role("button", name="Close").click()
    receiver.by_path.clear()


def test_an_event_is_sent_to_endpoints_again(tab: Tab, world: Fleet, gateway: Gateway, receiver: Receiver) -> None:
    with gateway.unix() as client:
        event = client.post("/v1/events", json={"type": "session:end", "session": "again"}).json()["id"]
    world.delivered(event)
    page = tab.sign_in(f"events/{event}")
    page.get_by_role("button", name="Send to endpoints again …").click()
    dialog = page.get_by_role("dialog", name="Send this event again?")
    expect(dialog.get_by_label("To").get_by_role("option")).to_have_text(["log"])
    dialog.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("heading", name="Deliveries", level=1)).to_be_visible()
    expect(row(page, "log webhook").filter(has_text="delivered")).to_have_count(2)
    tab.go(f"events/{world.events(session='s-1', decision='deny')[0].event.id}")
    page.get_by_role("button", name="Send to endpoints again …").click()
    expect(page.get_by_role("dialog", name="No endpoint gets this event")).to_be_visible()


def test_a_long_list_is_drawn_in_parts(tab: Tab) -> None:
    page = tab.sign_in("hosts")
    rows = page.get_by_role("rowheader")
    expect(rows).to_have_count(100)
    expect(page.get_by_text(re.compile("^[0-9]+ more rows$"))).to_be_visible()
    page.get_by_role("button", name="More").click()
    expect(page.get_by_role("button", name="More")).to_have_count(0)
    expect(row(page, "h-119")).to_be_visible()
    assert rows.count() > 120


def test_hooks_have_their_counts_and_times(tab: Tab) -> None:
    page = tab.sign_in("hooks")
    denied = row(page, "no-rm")
    expect(denied.get_by_role("cell").nth(3)).to_have_text("1")
    expect(denied).to_contain_text(re.compile(r"< 0\.5 ms|\d ms"))  # a busy machine takes longer
    expect(denied).to_contain_text("deny")
    expect(row(page, "tell")).to_contain_text("100 %")
    page.get_by_label(re.compile("^Runs")).select_option("failed")
    expect(denied).to_have_count(0)
    page.get_by_role("link", name="tell").click()
    expect(page.get_by_role("heading", name="Hook tell")).to_be_visible()
    expect(row(page, "failed")).to_contain_text("1 100 %")
    page.get_by_role("link", name="Its deliveries").click()
    expect(row(page, "agent:end")).to_contain_text("failed: exit 3")


def test_events_are_found_by_filters_pages_and_ids_and_are_only_text(tab: Tab, world: Fleet) -> None:
    page = tab.sign_in("history")
    rows = page.get_by_role("table").get_by_role("row")
    page.get_by_label("Type").fill("prompt:*, agent:end")
    page.get_by_label("Session").fill("many")
    page.get_by_label("Agent").fill("codex")
    page.get_by_label("Agent").press("Enter")
    # The list before had as many rows. From here on, "More" is disabled until the rows of these filters are there.
    expect(page.get_by_role("button", name="Clear 3 filters")).to_be_visible()
    expect(rows).to_have_count(51)
    page.get_by_role("button", name="More").click()
    expect(rows).to_have_count(62)
    expect(page.get_by_role("button", name="More")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Session")).to_have_value("many")
    page.get_by_role("button", name="Clear 3 filters").click()
    page.get_by_label("Condition").fill("event.tool ==")
    page.get_by_label("Condition").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("/openapi.json lists the parameters")
    tab.troubles.clear()  # the browser notes the refused call
    page.get_by_label("Condition").fill("event.tool == 'bash'")
    page.get_by_label("Condition").press("Enter")
    page.get_by_label("Decision").select_option("deny")
    denied = row(page, "no rm here")
    expect(denied).to_contain_text(HTML)
    expect(page.locator("main img")).to_have_count(0)
    event = world.events(session="s-1", decision="deny")[-1].event.id
    page.get_by_label("Event", exact=True).fill(event)
    page.get_by_role("button", name="Show its trace").click()
    expect(page).to_have_url(f"{tab.gateway.url}/#/events/{event}")


def test_a_session_tells_what_happened_in_it_and_its_host_lists_it(tab: Tab) -> None:
    page = tab.sign_in("sessions")
    session = row(page, "claude").filter(has_text="s-1")
    expect(session).to_contain_text("/work/shop")
    session.get_by_role("link", name="s-1").click()
    expect(page.get_by_role("heading", name="Session s-1")).to_be_visible()
    expect(row(page, "no rm here")).to_contain_text("deny")
    page.get_by_role("link", name="build-3").click()
    expect(page.get_by_role("heading", name="Host build-3")).to_be_visible()
    expect(row(page, "claude").filter(has_text="s-1")).to_be_visible()


def test_the_history_of_approvals_tells_silence_from_a_no(tab: Tab) -> None:
    page = tab.sign_in("approvals?state=timed_out")
    held = row(page, "git push")
    expect(held).to_contain_text("timed out")
    expect(held).to_contain_text("nobody")
    page.get_by_label("State").select_option("denied")
    expect(held).to_have_count(0)
    page.get_by_label("State").select_option("timed_out")
    held.get_by_role("cell").first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Held call")
    expect(row(page, "look-at-push")).to_contain_text("pushes are looked at")


def test_who_may_only_look_gets_no_buttons(tab: Tab, world: Fleet, gateway: Gateway, receiver: Receiver) -> None:
    name = dead_letter(world, gateway, receiver, "s-looked-at")
    page = tab.sign_in_by_token("observe")
    shown = {
        "dead": "s-looked-at",
        f"dead/{name}": "/chat",
        "deliveries": "chat",
        "endpoints": "/log",
        "endpoints/chat": "/chat",
        "sessions/s-1": "no rm here",
    }
    for view, text in shown.items():
        tab.go(view)
        expect(page.locator("main").get_by_text(text).first).to_be_visible()
        expect(page.locator("main").get_by_role("button", name=re.compile("Try|Drop|Pause|Say"))).to_have_count(0)
        expect(page.get_by_role("checkbox")).to_have_count(0)


def test_a_person_says_something_to_a_session(tab: Tab, world: Fleet, gateway: Gateway) -> None:
    page = tab.sign_in("sessions/s-1?source=claude&host=build-3")
    page.get_by_role("button", name="Say something to it …").click()
    page.get_by_label("Message").fill("stay on your branch")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("It is said with the next event that can carry it.")
    with gateway.tcp(gateway.token("reader", "observe")) as client:
        (message,) = client.get("/v1/messages").json()["items"]
    assert (message["text"], message["by"], message["via"]) == ("stay on your branch", PERSON, "user")


def test_every_view_is_fit_for_screen_readers_dark_and_light_and_for_a_phone(
    tab: Tab, world: Fleet, gateway: Gateway, receiver: Receiver
) -> None:
    letter = dead_letter(world, gateway, receiver, "x" * 200)
    page = tab.sign_in()
    held = world.events(session="s-1", decision="deny")[0].event.id
    details = ("sessions/s-1", "hosts/build-3", "hooks/no-rm", "endpoints/chat", f"dead/{letter}", f"approvals/{held}")
    found: dict[str, list[str]] = {}
    for number, view in enumerate((*VIEWS, *details)):
        tab.go(view)
        expect(page.get_by_text("Loading …")).to_have_count(0)
        found |= tab.unfit(view, dark=number % 2 == 1)
    assert found == {}
