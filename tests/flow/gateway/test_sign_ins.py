"""A browser's sign-in: one-time codes, tokens, and what ends it (issue 12, items 9 and 11)."""

from __future__ import annotations

import contextlib
import getpass
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from bus.wire.connections import sync_client
from tests.cli_kit import Result, fleethook_in
from tests.support.fleet import HOST, Fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.waiting import PATIENCE
from workers.cli.common import Context
from workers.cli.up import _pages
from workers.gateway.pages.sign_ins import hashed, sign_in_token

pytestmark = [pytest.mark.flow, pytest.mark.req("G-02", "G-22")]

PERSON = f"{getpass.getuser()}@{HOST}"


def fleethook(world: Fleet, *words: str, **more: str) -> Result:
    """A command of a person with the admin's rights."""
    env = {**world.environment, "FLEETHOOK_REDIS_URL": world.url("admin"), "FLEETHOOK_TEST_CONFIRMS": "1", **more}
    return fleethook_in(env, world.folder, *words)


def one_time_code(world: Fleet, gateway: Gateway, *flags: str) -> str:
    done = fleethook(world, "open", *flags)
    assert done.code == 0, done.err
    address, found, code = done.out.strip().partition("/#sign-in=")
    assert (address, bool(found)) == (gateway.url, True)
    return code


_OPEN: list[httpx.Client] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the connections of all browsers of a test."""
    yield
    while _OPEN:
        _OPEN.pop().close()


class Browser:
    """What a page of the gateway has after a sign-in."""

    def __init__(self, gateway: Gateway, **by: str) -> None:
        self.gateway = gateway
        self.client = gateway.tcp("", Origin=gateway.url)
        _OPEN.append(self.client)
        self.answer = self.client.post("/v1/sign-in", json=by)
        self.said: dict[str, Any] = self.answer.json()
        self.key = self.said.get("key", "")

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path, headers={"Fleethook-Page": self.key})

    def post(self, path: str, body: Any = None) -> httpx.Response:
        return self.client.post(path, json=body, headers={"Fleethook-Page": self.key})

    @property
    def cookie(self) -> str:
        return self.client.cookies[f"fleethook-{self.gateway.port}"]

    def live(self) -> Any:
        """The live feed as a page opens it."""
        names = [Subprotocol("fleethook.v1"), Subprotocol(f"fleethook.page.{self.key}")]
        cookie = {"Cookie": f"fleethook-{self.gateway.port}={self.cookie}"}
        return connect(
            f"{self.gateway.url.replace('http', 'ws')}/v1/live", subprotocols=names, additional_headers=cookie
        )


def test_a_one_time_address_signs_one_browser_in(world: Fleet, gateway: Gateway) -> None:
    code = one_time_code(world, gateway)
    with gateway.tcp() as previewer:
        assert previewer.get("/").status_code == 200
        assert previewer.get("/v1/sign-in", params={"code": code}).status_code == 401, "only a POST uses a code"
    browser = Browser(gateway, code=code)
    assert browser.answer.status_code == 200, browser.said
    assert (browser.said["name"], browser.said["scopes"]) == (PERSON, ["observe", "operate"])
    cookie = browser.answer.headers["set-cookie"]
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
    assert browser.get("/v1/sign-in").json()["name"] == PERSON
    assert browser.get("/v1/events").status_code == 200
    again = Browser(gateway, code=code)
    assert (again.answer.status_code, again.said["code"]) == (401, "code-invalid")
    assert "fleethook open" in again.said["detail"]


def test_a_sign_in_needs_both_its_cookie_and_its_key(world: Fleet, gateway: Gateway) -> None:
    """Browsers send a cookie of 127.0.0.1 to each of its ports, so a program behind another port can have it."""
    browser = Browser(gateway, code=one_time_code(world, gateway))
    with gateway.tcp(Cookie=f"fleethook-{gateway.port}={browser.cookie}") as thief:
        assert thief.get("/v1/events").status_code == 401
        with sync_client(world.url("admin")) as client:
            kept = world.keys("signin", hashed(browser.cookie))
            assert client.pexpire(kept, 60_000)
            assert thief.get("/v1/events", headers={"Fleethook-Page": "x" * 43}).status_code == 401
            assert client.pttl(kept) <= 60_000, "the cookie alone does not keep the sign-in longer"
            assert browser.get("/v1/events").status_code == 200
            assert client.pttl(kept) > 60_000
    with gateway.tcp(**{"Fleethook-Page": browser.key}) as other:
        assert other.get("/v1/events").status_code == 401
    foreign = {"Fleethook-Page": browser.key, "Origin": "http://127.0.0.1:3000"}
    refused = browser.client.post("/v1/stop", json={}, headers=foreign)
    assert (refused.status_code, refused.json()["code"]) == (403, "origin-refused")


def test_signing_out_or_revoking_the_token_ends_a_sign_in(world: Fleet, gateway: Gateway) -> None:
    one, other = (Browser(gateway, code=one_time_code(world, gateway)) for _ in range(2))
    assert one.post("/v1/sign-out").status_code == 200
    assert one.get("/v1/events").status_code == 401
    assert other.get("/v1/events").status_code == 200
    with other.live() as feed:
        assert json.loads(feed.recv(PATIENCE))["kind"] == "position"
        assert fleethook(world, "tokens", "revoke", sign_in_token(PERSON)).code == 0
        with contextlib.suppress(ConnectionClosed):
            while True:
                feed.recv(PATIENCE)
        assert feed.close_code == 1008
    assert other.get("/v1/events").status_code == 401
    later = Browser(gateway, code=one_time_code(world, gateway))
    assert later.get("/v1/events").status_code == 200
    assert other.get("/v1/events").status_code == 401, "the new token of the same name is another"


def test_a_code_is_good_once_in_its_time_at_any_gateway(world: Fleet, gateway: Gateway, tmp_path: Path) -> None:
    other = start_gateway(world, FLEETHOOK_HOME=str(tmp_path))
    code = one_time_code(world, gateway)
    with ThreadPoolExecutor(6) as pool:  # six browsers at two gateways at the same time
        tried = list(pool.map(lambda number: Browser((gateway, other)[number % 2], code=code), range(6)))
    assert sorted(one.answer.status_code for one in tried) == [200, *[401] * 5]
    late = one_time_code(world, gateway)
    with sync_client(world.url("admin")) as client:
        assert client.delete(world.keys("signincode", hashed(late)))  # as if its ten minutes were over
    refused = Browser(other, code=late)
    assert (refused.answer.status_code, refused.said["code"]) == (401, "code-invalid")


def test_a_token_signs_in_with_its_own_scopes(world: Fleet, gateway: Gateway) -> None:
    agent = Browser(gateway, token=gateway.token("agent-only", "publish"))
    assert (agent.answer.status_code, agent.said["code"]) == (403, "scope-missing")
    wrong = Browser(gateway, token="fht_wrong")
    assert (wrong.answer.status_code, wrong.said["code"]) == (401, "token-invalid")
    viewer = Browser(gateway, token=gateway.token("viewer", "observe"))
    assert viewer.get("/v1/sign-in").json()["name"] == "viewer"
    refused = viewer.post("/v1/stop", {})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope-missing")
    looking = Browser(gateway, code=one_time_code(world, gateway, "--read-only"))
    assert looking.get("/v1/events").status_code == 200
    assert looking.post("/v1/stop", {}).status_code == 403
    assert Browser(gateway, code="a", token="b").answer.status_code == 400


def test_nothing_keeps_a_secret_of_a_sign_in(world: Fleet, gateway: Gateway) -> None:
    unused = one_time_code(world, gateway)
    used = one_time_code(world, gateway)
    browser = Browser(gateway, code=used)
    with browser.live() as feed:
        feed.recv(PATIENCE)
    with sync_client(world.url("admin")) as client:
        (name,) = [key for key in client.scan_iter(world.keys("signincode", "*")) if client.pttl(key) > 590_000]
        assert 0 < client.pttl(name) <= 600_000, "a code that nobody uses ends after ten minutes"
        stored = b"".join(client.dump(key) + key for key in client.scan_iter("*"))
    logs = b"".join(one.log.read_bytes() for one in world.workers)
    for secret in (unused, used, browser.cookie, browser.key):
        assert secret.encode() not in stored + logs


def test_an_agent_gets_no_address_that_signs_in(world: Fleet) -> None:
    done = fleethook(world, "open", CLAUDECODE="1", FLEETHOOK_TEST_CONFIRMS="")
    assert (done.code, done.out) == (1, ""), done
    assert "an agent runs it" in done.err


def test_a_feed_without_a_sign_in_is_refused(gateway: Gateway) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(f"{gateway.url.replace('http', 'ws')}/v1/live"):
        pass
    assert refused.value.response.status_code == 401


def test_the_files_of_the_pages_come_under_a_strict_policy(gateway: Gateway) -> None:
    with gateway.tcp() as client:
        page = client.get("/", headers={"Sec-Fetch-Site": "cross-site"})
        assert page.status_code == 200, "a link in a chat may lead here"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        script = client.get("/pages/app.js")
        assert script.headers["content-type"].startswith("text/javascript")
        assert client.get("/pages/app.js", headers={"If-None-Match": script.headers["etag"]}).status_code == 304
        for path in ("/pages/../pages/sign_ins.py", "/pages/vendor/README.md", "/pages/", "/pages/%2e%2e/__init__.py"):
            assert client.get(path).status_code == 404, path


def test_up_gives_a_one_time_address_to_a_person_at_a_terminal_only(
    world: Fleet, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**world.environment, "FLEETHOOK_REDIS_URL": world.url("admin")}.items():
        monkeypatch.setenv(name, value)
    assert _pages(Context()) == (gateway.url, "`fleethook open` signs a browser in")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("bus.system.calling_agent.calling_agent", lambda _: None)
    address, note = _pages(Context())
    assert "signs one browser in" in note
    assert Browser(gateway, code=address.partition("#sign-in=")[2]).said["name"] == PERSON
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", world.url("worker"))
    address, note = _pages(Context())
    assert (address, "admin" in note) == (gateway.url, True), "a worker's rights make no token"
