"""The pages in a real headless Chromium (issue 12, item 11)."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from bus.wire.connections import sync_client
from tests.support.balancer import Balancer
from tests.support.browser import PERSON, Tab
from tests.support.fleet import Agent, Fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.held import BEN, Held
from tests.support.waiting import PATIENCE, wait_until
from workers.gateway.tokens import revoke_token

pytestmark = [pytest.mark.flow, pytest.mark.req("G-22")]


def call(agent: Agent, command: str, session: str = "s-1") -> dict[str, Any]:
    """A tool call of an agent with Fleethook installed: what the agent gets back."""
    payload = {
        "session_id": session,
        "cwd": "/tmp",
        "tool_name": "Bash",
        "tool_use_id": f"call {command}",
        "tool_input": {"command": command},
    }
    with agent.start("PreToolUse") as process:
        out, _ = process.communicate(json.dumps(payload).encode(), timeout=PATIENCE)
    said: dict[str, Any] = json.loads(out or b"{}")
    return said


def test_a_denied_call_arrives_while_one_looks(tab: Tab, agent: Agent) -> None:
    call(agent, "ls -la")
    page = tab.sign_in()
    expect(page.get_by_role("row").filter(has_text="ls -la")).to_be_visible()
    assert page.url == f"{tab.gateway.url}/#/live", "the one-time code has left the address"
    call(agent, "rm -rf <b>all</b>\u202e txt")
    row = page.get_by_role("row").filter(has_text="nothing is removed here")
    expect(row).to_contain_text("deny")
    expect(row).to_contain_text("rm -rf <b>all</b>\\u202e txt")
    page.get_by_label("Decision").select_option("deny")
    expect(page.get_by_role("row").filter(has_text="ls -la")).to_have_count(0)
    expect(row).to_be_visible()
    assert page.url.endswith("#/live?decision=deny")


def test_the_trace_of_a_denied_call_shows_where_the_time_went(tab: Tab, agent: Agent) -> None:
    call(agent, "rm -rf ./traced")
    page = tab.sign_in()
    page.get_by_role("row").filter(has_text="./traced").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("tool:pre_execute · bash ✕ deny")
    time = page.get_by_role("region", name="in all")
    expect(time.get_by_role("row").filter(has=page.get_by_role("rowheader", name="verdict"))).to_contain_text("deny")
    expect(time.get_by_role("rowheader", name="no-removal")).to_be_visible()
    bar = time.locator("svg rect[data-word=deny]").first
    assert bar.evaluate("bar => bar.getBBox().width") > 0
    hooks = page.get_by_role("region", name="The hooks that took part")
    expect(hooks.get_by_role("row").filter(has_text="no-removal")).to_contain_text("nothing is removed here")
    page.get_by_text("Input", exact=True).click()
    expect(page.get_by_text('"command": "rm -rf ./traced"')).to_be_visible()


@pytest.mark.req("X-03")
@pytest.mark.parametrize(("button", "decision"), [("✓ Approve", "allow"), ("✕ Deny", "deny")])
def test_a_held_call_waits_in_the_inbox_until_its_answer(tab: Tab, agent: Agent, button: str, decision: str) -> None:
    page = tab.sign_in("inbox")
    with ThreadPoolExecutor(1) as thread:
        held = thread.submit(call, agent, f"deploy {decision}")
        form = page.get_by_role("form").filter(has_text=f"deploy {decision}")
        expect(form).to_contain_text("deploying needs a person")
        expect(page.get_by_role("link", name="Inbox")).to_contain_text("1 waiting")
        form.get_by_label("Comment").fill("said on the page")
        form.get_by_role("button", name=button).click()
        said = held.result(PATIENCE)["hookSpecificOutput"]
    assert said["permissionDecision"] == decision
    assert "said on the page" in json.dumps(said)
    row = page.get_by_role("row").filter(has_text=f"deploy {decision}")
    expect(row).to_contain_text(PERSON)
    expect(form).to_have_count(0)


@pytest.fixture(scope="module")
def held(world: Fleet) -> Held:
    return Held(world)


def question(page: Page, text: str) -> Locator:
    """The form of a question, with its buttons."""
    form = page.get_by_role("form").filter(has_text=text)
    expect(form.get_by_role("button", name="Deny")).to_be_enabled()
    return form


@pytest.mark.req("X-03")
def test_the_whole_call_is_read_before_a_yes_by_the_keyboard_alone(tab: Tab, held: Held) -> None:
    command = "deploy all\n" + "echo line\n" * 90 + "upload /\u202e\u200b"
    call = held.call(command, input={"command": command, "env": {"TOKEN": "ghp_" + "a1B2" * 9}, "run_in": "/srv"})
    page = tab.sign_in("inbox")
    form = question(page, "deploy all")
    for text in ("deploying needs a person", "run_in", "It holds a secret, which is not shown", "hook", "/srv"):
        expect(form).to_contain_text(text)
    expect(form).not_to_contain_text("upload")
    expect(form).not_to_contain_text("a1B2")
    comment = form.get_by_label("Comment")
    comment.fill("go on")
    comment.press("Enter")
    yes = form.get_by_role("button", name="Show all, to approve")
    expect(yes).to_be_focused()  # Enter in the comment has decided nothing
    page.keyboard.press("Enter")
    expect(form.get_by_text("upload /\\u202e\\u200b")).to_be_visible()
    assert form.locator("mark").all_text_contents() == ["\\u202e", "\\u200b"]
    yes = form.get_by_role("button", name="✓ Approve")
    expect(yes).to_be_focused()
    page.keyboard.press("Enter")
    verdict = call.result(PATIENCE)
    assert (verdict.decision, verdict.approval and verdict.approval.comment) == ("allow", "go on")
    expect(page.locator(".outcome").filter(has_text=f"approved by {PERSON}: “go on”")).to_be_focused()


@pytest.mark.req("X-03")
def test_what_a_person_works_at_stays_where_it_is_while_the_inbox_changes(tab: Tab, held: Held) -> None:
    calls = [held.call("deploy one")]
    held.question("deploy one")  # is asked first, so it is above the other
    calls.append(held.call("deploy two"))
    page = tab.sign_in("inbox")
    first, second = question(page, "deploy one"), question(page, "deploy two")
    comment, yes = second.get_by_label("Comment"), second.get_by_role("button", name="✓ Approve")
    comment.fill("not yet fin")
    held.answer(held.question("deploy one"), "deny", BEN, "too late")
    ended = page.get_by_role("region", name="bash in /srv").filter(has_text="denied by ben: “too late”")
    expect(ended).to_contain_text("deploy one")
    expect(first).to_have_count(0)
    expect(comment).to_be_focused()
    calls.append(held.call("deploy three"))
    third = question(page, "deploy three")
    tops = [box["y"] for one in (ended, second, third) if (box := one.bounding_box())]
    assert tops == sorted(tops), "what has ended stays in its place, and what is new comes below"
    page.keyboard.type("ished")
    expect(comment).to_have_value("not yet finished")
    # What drawing has just moved under a pointer takes no click; the page's own module is asked, because time matters.
    moves = """async (button) => {
        const { steadily } = await import("./pages/lib/steady.js");
        const space = document.createElement("hr");
        space.style.height = "90px";
        document.documentElement.style.overflowAnchor = "none";  // else the browser scrolls by as much, so nothing moves
        steadily(() => document.getElementById("main").prepend(space));
        return button.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, detail: 1 }));
    }"""
    assert yes.evaluate(moves) is False
    expect(yes).to_be_enabled()
    yes.click()
    assert calls[1].result(PATIENCE).decision == "allow"
    expect(page.locator(".outcome")).to_have_count(2)
    expect(third.get_by_role("button", name="Deny")).to_be_enabled()  # the card above it has changed
    third.get_by_role("button", name="Deny").click()
    assert calls[2].result(PATIENCE).decision == "deny"
    expect(page.locator(".outcome")).to_have_count(3)
    assert tab.violations() == [], "cards of equal calls have names of their own"
    page.get_by_role("button", name="Clear 3 that have ended").click()
    expect(page.get_by_role("region", name="bash in /srv")).to_have_count(0)


@pytest.mark.req("X-03")
def test_a_yes_is_remembered_after_its_diff_was_shown(tab: Tab, world: Fleet, held: Held) -> None:
    page = tab.sign_in("inbox")
    call = held.call("deploy often")
    question(page, "deploy often").get_by_role("button", name="Approve and remember …").click()
    dialog = page.get_by_role("dialog", name="What would be remembered")
    expect(dialog).to_contain_text('+            "command": "deploy often"')
    expect(dialog).to_contain_text("needs a sign-in by a token with the scope admin")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    tab.sign_in_by_token("observe", "operate", "admin")
    tab.go("inbox")
    question(page, "deploy often").get_by_role("button", name="Approve and remember …").click()
    dialog = page.get_by_role("dialog", name="Never ask about this call again?")
    dialog.get_by_role("button", name="Approve and remember").click()
    assert call.result(PATIENCE).decision == "allow"
    said = page.locator("#status").filter(has_text="It is remembered: version ").text_content() or ""
    world.in_force(int(re.findall(r"\d+", said)[0]))
    assert held.call("deploy often").result(PATIENCE).approval is None, "the call passes without a question"


@pytest.mark.req("X-12")
def test_a_stop_denies_calls_until_somebody_resumes(tab: Tab, agent: Agent) -> None:
    page = tab.sign_in("stop")
    page.get_by_label("Reason").fill("the disk is full")
    page.get_by_role("button", name="Stop", exact=False).last.click()
    expect(page.get_by_role("alert")).to_contain_text("A stop is in force. the disk is full")
    assert call(agent, "echo stopped")["hookSpecificOutput"]["permissionDecision"] == "deny"
    tab.go("live")
    expect(page.get_by_role("alert")).to_contain_text("the disk is full")
    expect(page.get_by_role("row").filter(has_text="fleet:stopped").first).to_contain_text("the disk is full")
    tab.go("stop")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("No stop is in force.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="resumed")).to_contain_text(PERSON)
    assert call(agent, "echo resumed") == {}


def test_the_status_shows_the_fleet_and_plots_it(tab: Tab, agent: Agent) -> None:
    page = tab.sign_in("status")
    expect(page.get_by_role("row").filter(has_text="evaluator").first).to_contain_text("ok")
    tab.go("live")
    for number in range(5):
        call(agent, f"echo {number}")
    tab.go("status")
    plot = page.get_by_role("figure", name="Time to a verdict")
    expect(plot).to_contain_text("p95")
    expect(plot.get_by_text("p50 ")).to_contain_text(" ms")
    assert plot.locator("canvas").count() == 1
    painted = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    wait_until(lambda: plot.locator("canvas").evaluate(painted), "something is drawn")


VIEWS = ("live", "inbox", "status", "stop")


def test_every_view_is_fit_for_screen_readers_dark_and_light_and_for_a_phone(tab: Tab, agent: Agent) -> None:
    call(agent, "rm -rf /a/very/long/path/" + "x" * 200)
    page = tab.sign_in()
    page.get_by_role("row").filter(has_text="xxx").first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("deny")
    event = page.url.rpartition("#/")[2]
    found: dict[str, list[str]] = {}
    for number, view in enumerate((event, *VIEWS)):
        tab.go(view)
        found |= tab.unfit(view, dark=number % 2 == 1)
    assert found == {}


def test_the_keyboard_reaches_the_content_and_the_focus_is_seen(tab: Tab) -> None:
    page = tab.sign_in()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    assert skip.evaluate("link => getComputedStyle(link).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    tab.go("hooks")
    skip.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert page.evaluate("location.hash") == "#/hooks", "the view stays"
    page.get_by_role("link", name="Inbox").press("Enter")
    expect(page.get_by_role("heading", level=1, name="Inbox")).to_be_visible()
    expect(page.locator("#main")).to_be_focused()


def test_an_address_that_was_used_leaves_the_browser_signed_in_and_tabs_sign_in_and_out_together(tab: Tab) -> None:
    page, address = tab.page, tab.address()
    other = tab.context.new_page()
    other.goto(tab.gateway.url)
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    for _ in range(2):
        page.goto("about:blank")
        page.goto(address)
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    expect(page.locator("#status")).to_contain_text("used before or is too old")
    expect(page.locator("#status")).to_contain_text("This browser is signed in already.")
    expect(other.get_by_role("button", name="Sign out")).to_be_visible()
    other.get_by_role("button", name="Sign out").click()
    expect(other.get_by_role("alert")).to_have_text("You have signed out.")
    expect(page.get_by_role("alert")).to_have_text("You have signed out in another tab.")
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_role("alert")).to_contain_text("`fleethook open` makes a new one")
    tab.troubles.clear()  # the browser notes the refused calls


def test_a_sign_in_that_ends_while_one_looks_leads_to_the_form_and_back(tab: Tab, world: Fleet) -> None:
    page = tab.sign_in("stop")
    with sync_client(world.url("admin")) as client:
        assert client.delete(*client.scan_iter(world.keys("signin", "*")))  # as if its time were over
    expect(page.get_by_role("alert")).to_have_text("The sign-in has ended.")
    expect(page.get_by_role("banner")).to_be_empty()
    page.get_by_label("token").fill(tab.gateway.token("returning", "observe", "operate"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Stop", level=1)).to_be_visible()
    expect(page.get_by_text("Live feed: live")).to_be_visible()
    tab.go("endpoints")
    expect(page.get_by_text("No endpoint is in force.")).to_be_visible()
    world.ask(lambda connections: revoke_token(connections, world.keys, "returning"))
    expect(page.get_by_role("alert")).to_have_text("The sign-in has ended.")
    tab.troubles.clear()


def test_the_page_says_that_redis_is_away_and_goes_on_when_it_is_back(tab: Tab, world: Fleet, agent: Agent) -> None:
    page = tab.sign_in("hooks")
    expect(page.get_by_role("row").filter(has_text="no-removal")).to_be_visible()
    world.server.pause()
    try:
        expect(page.get_by_text("Live feed: no data from Redis")).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("tokens cannot be checked")
        expect(page.get_by_role("row").filter(has_text="no-removal")).to_be_visible()  # what was read last stays
        page.reload()
        expect(page.get_by_text("Trying again")).to_be_visible()
    finally:
        world.server.resume()
    expect(page.get_by_role("row").filter(has_text="no-removal")).to_be_visible()
    expect(page.get_by_text("Live feed: live")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    tab.troubles.clear()


def test_gateways_behind_a_balancer_share_sign_ins_and_the_feed_goes_on_at_another_where_it_ended(
    browser: Browser, world: Fleet, agent: Agent
) -> None:
    ports = [start_gateway(world, FLEETHOOK_HOME=str(world.folder / name)).port for name in ("b1", "b2")]
    with Balancer(ports) as balancer:
        tab = Tab(browser, Gateway(world, balancer.port))
        page = tab.sign_in("live?tool=bash")
        expect(page.get_by_text("Live feed: live")).to_be_visible()
        call(agent, "echo before")
        expect(page.get_by_role("row").filter(has_text="echo before")).to_be_visible()
        assert set(balancer.carried) == set(ports), "calls of one sign-in went to both"
        for one in world.workers[-2:]:
            one.process.kill()
            one.process.wait()
        expect(page.get_by_text("Live feed: not connected")).to_be_visible()
        call(agent, "rm meanwhile")
        world.start("gateway", FLEETHOOK_GATEWAY_PORT=str(ports[1]), FLEETHOOK_HOME=str(world.folder / "b3"))
        expect(page.get_by_role("row").filter(has_text="rm meanwhile")).to_contain_text("deny")
        expect(page.get_by_role("row").filter(has_text="echo before")).to_have_count(1)
        expect(page.get_by_text("Live feed: live")).to_be_visible()
        tab.close()
