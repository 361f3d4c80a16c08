"""One-time links in webhooks: a GET asks and changes nothing, a POST decides, and the token is in no record (X-03)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bus.events import Event
from bus.transport import event_entry
from bus.wire.connections import sync_client
from tests.support.beside import beside
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import PLAIN, Gateway, start_gateway
from tests.support.held import HOOKS, Held
from tests.support.receivers import Receiver, receiving
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-03")]

PUBLIC = "http://approve.example"
TOKEN = re.compile(rb"fha_[A-Za-z0-9_-]+")
FORMATS = ("fleethook", "cloudevents", "slack", "discord", "teams", "ntfy")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as one:
        yield one


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    rows = [
        f'{{id: e-{name}, url: "{receiver.url(f"/{name}")}", format: {name}, events: "approval:*"}}' for name in FORMATS
    ]
    rows.append(f'{{id: everything, url: "{receiver.url("/everything")}", events: "*"}}')
    hooks = f'{HOOKS}\nnetwork: {{allow: ["127.0.0.1:{receiver.port}"]}}\nendpoints: [{", ".join(rows)}]\n'
    with fleet(tmp_path_factory.mktemp("links"), hooks=hooks) as one:
        one.start("evaluator", "dispatcher", "carrier", FLEETHOOK_PUBLIC_URL=PUBLIC)
        yield one


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    return start_gateway(world, FLEETHOOK_PUBLIC_URL=PUBLIC)


@pytest.fixture(scope="module")
def held(world: Fleet) -> Held:
    return Held(world)


@pytest.fixture
def browser(gateway: Gateway) -> Iterator[httpx.Client]:
    """A browser that comes from a chat's page, by the public name."""
    headers = {"Host": "approve.example"}
    with httpx.Client(base_url=gateway.url, headers=headers, timeout=PATIENCE, verify=PLAIN) as client:
        yield client


def content(client: Any, name: bytes) -> object:
    """What is in a key."""
    reads: dict[str, tuple[Any, ...]] = {
        "string": ("GET",),
        "hash": ("HGETALL",),
        "list": ("LRANGE", 0, -1),
        "zset": ("ZRANGE", 0, -1),
        "set": ("SMEMBERS",),
        "stream": ("XRANGE", "-", "+"),
    }
    command, *more = reads.get(client.type(name).decode(), ("EXISTS",))  # it has expired meanwhile
    return client.execute_command(command, name, *more)


def links(receiver: Receiver, question: str) -> dict[str, str]:
    """The path of the link that each endpoint got, without the public address."""

    def found() -> dict[str, str]:
        return {
            got.path.lstrip("/") or "ntfy": token[0].decode()
            for got in receiver.got
            if question.encode() in got.body and (token := TOKEN.search(got.body))
        }

    wait_until(lambda: len(found()) == len(FORMATS), f"every named endpoint got links: {set(found())}")
    return {name: f"/answer/{token}" for name, token in found().items()}


def test_every_format_has_its_links(held: Held, receiver: Receiver) -> None:
    call = held.call("deploy formats")
    question = held.question("deploy formats")
    found = links(receiver, question.id)
    assert set(found) == {"fleethook", "cloudevents", "slack", "discord", "teams", "ntfy"}
    assert len(set(found.values())) == len(FORMATS), "each delivery has a token of its own"
    got = {one.path.lstrip("/") or "ntfy": one.json for one in receiver.got if question.id.encode() in one.body}
    address = {name: f"{PUBLIC}{path}?answer=approve" for name, path in found.items()}
    assert got["fleethook"]["data"]["answer"]["approve"] == address["fleethook"]
    assert got["cloudevents"]["data"]["answer"]["approve"] == address["cloudevents"]
    (actions,) = [block for block in got["slack"]["blocks"] if block["type"] == "actions"]
    assert [button["url"] for button in actions["elements"]] == [
        address["slack"],
        address["slack"].replace("approve", "deny").replace("deny.example", "approve.example"),
        f"{PUBLIC}/#/approvals/{question.id}",
    ]
    assert got["discord"]["components"][0]["components"][0]["url"] == address["discord"]
    assert f"[Approve]({address['discord']})" in got["discord"]["embeds"][0]["description"]
    assert got["teams"]["attachments"][0]["content"]["actions"][0]["url"] == address["teams"]
    assert (got["ntfy"]["topic"], got["ntfy"]["actions"][0]["url"]) == ("ntfy", address["ntfy"])
    assert got["slack"]["blocks"][0]["text"]["text"] == "bash waits for your answer"
    held.answer(question, "deny")
    call.result(PATIENCE)


def test_an_endpoint_that_takes_everything_has_no_links(held: Held, receiver: Receiver) -> None:
    call = held.call("deploy everything")
    question = held.question("deploy everything")
    links(receiver, question.id)
    wait_until(
        lambda: any(one.path == "/everything" and question.id.encode() in one.body for one in receiver.got), "it came"
    )
    assert not any(TOKEN.search(one.body) for one in receiver.got if one.path == "/everything")
    held.answer(question, "deny")
    call.result(PATIENCE)


def test_a_get_asks_and_only_the_post_decides(held: Held, receiver: Receiver, browser: httpx.Client) -> None:
    call = held.call("deploy <b>by link</b>")
    question = held.question("deploy <b>by link</b>")
    path = links(receiver, question.id)["slack"]
    for _ in range(2):
        page = browser.get(path, params={"answer": "approve"}, headers={"Sec-Fetch-Site": "cross-site"})
        assert page.status_code == 200
        assert "deploy &lt;b&gt;by link&lt;/b&gt;" in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
        assert page.headers["referrer-policy"] == "same-origin"
    assert browser.head(path).status_code == 200
    assert held.question(question.summary).state == "waiting"
    elsewhere = browser.post(path, data={"answer": "approve"}, headers={"Origin": "https://evil.example"})
    assert elsewhere.status_code == 403
    assert held.question(question.summary).state == "waiting"
    done = browser.post(path, data={"answer": "approve", "comment": "fine"}, headers={"Origin": PUBLIC})
    assert (done.status_code, "approved" in done.text) == (200, True)
    approval = call.result(PATIENCE).approval
    assert approval is not None
    assert (approval.by, approval.via, approval.comment) == ("holder of the link", "link", "fine")
    assert browser.post(path, data={"answer": "deny"}, headers={"Origin": PUBLIC}).status_code == 404
    other = browser.post(links(receiver, question.id)["teams"], data={"answer": "deny"})
    assert (other.status_code, "approved" in other.text) == (409, True)


def test_links_do_not_count_for_a_group(held: Held, receiver: Receiver, gateway: Gateway) -> None:
    gateway.token("ana", "operate")
    call = held.call("release by link")
    question = held.question("release by link")
    wait_until(
        lambda: {"/slack", "/fleethook"} <= {one.path for one in receiver.got if question.id.encode() in one.body},
        "it came",
    )
    assert not any(TOKEN.search(one.body) for one in receiver.got if question.id.encode() in one.body)
    held.answer(question, "deny")
    call.result(PATIENCE)


def test_the_token_is_in_no_record(world: Fleet, held: Held, receiver: Receiver, gateway: Gateway) -> None:
    call = held.call("deploy recorded")
    question = held.question("deploy recorded")
    tokens = [path.rpartition("/")[2] for path in links(receiver, question.id).values()]
    held.answer(question, "approve")
    call.result(PATIENCE)
    world.delivered(next(one.id for one in world.events(types=("approval:requested",))), 7)
    with sync_client(world.url("admin")) as client:
        names = list(client.scan_iter(count=1000))
        everything = "".join(str(content(client, name)) for name in names)
    assert question.id in everything, "the values are read"
    logs = "".join(one.log.read_text(encoding="utf-8") for one in world.workers)
    for token in tokens:
        assert token not in everything
        assert token.encode() not in b" ".join(names)
        assert token not in logs


def test_a_made_up_announcement_gets_no_links(world: Fleet, held: Held, receiver: Receiver) -> None:
    call = held.call("deploy real")
    question = held.question("deploy real")
    links(receiver, question.id)
    before = len(receiver.got)
    data = {"question": question.id, "state": "waiting", "summary": "ls", "until": question.ends, "links": True}
    with sync_client(world.url("agent")) as client:
        entry = event_entry(Event(type="approval:requested", id="e" + "0" * 32, source="fleethook", data=data))
        client.execute_command("XADD", world.keys("events"), "*", *entry)
    wait_until(lambda: sum(b'"summary":"ls"' in one.body for one in receiver.got[before:]) >= 3, "it was sent")
    assert not any(TOKEN.search(one.body) for one in receiver.got[before:])
    held.answer(question, "deny")
    call.result(PATIENCE)
