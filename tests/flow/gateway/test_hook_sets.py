"""Hook sets, replays and tests over HTTP, with the rights that each needs (issue 12, item 4: "Doing")."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.beside import beside
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-19", "G-22")]

HOOKS = """
version: 1
network: {{allow: ["127.0.0.1:{port}"]}}
hooks:
  - {{id: no-rm, on: 'tool:pre_execute:bash', rule: {{reason: no rm, commands: [{{program: [rm]}}]}}}}
  - {{id: tell, on: 'tool:pre_execute:bash', command: 'touch {folder}/ran', timeout: 5}}
endpoints: [{{id: log, url: "http://127.0.0.1:{port}/log", events: ["turn:end", "notification"], retry: []}}]
"""
WEAKER = """
version: 1
hooks: [{id: no-mv, on: 'tool:pre_execute:bash', rule: {reason: no mv, commands: [{program: [mv]}]}}]
"""
SECRET = "ghp_" + "a1B2" * 9
CALL: dict[str, Any] = {"type": "tool:pre_execute", "tool": "bash", "session": "s", "input": {"command": "rm x"}}
WITHOUT: dict[str, str] = {}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as one:
        yield one


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> str:
    return HOOKS.format(port=receiver.port, folder=tmp_path_factory.mktemp("told"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, hooks: str) -> Iterator[Fleet]:
    kinds = ("evaluator", "dispatcher", "carrier", "chores")
    with fleet(tmp_path_factory.mktemp("sets"), *kinds, hooks=hooks) as one:
        yield one


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    """A gateway that may publish."""
    return start_gateway(world, FLEETHOOK_OPERATOR_URL=world.url("admin"))


@pytest.fixture(scope="module")
def admin(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.tcp(gateway.token("ana", "publish", "observe", "operate", "admin")) as client:
        yield client


def tag(client: httpx.Client) -> dict[str, str]:
    """The header that names the version in force."""
    return {"If-Match": client.get("/v1/hookset").headers["etag"]}


def put(client: httpx.Client, text: str, headers: dict[str, str], query: str = "") -> httpx.Response:
    return client.post(
        f"/v1/hookset/apply{query}", content=text, headers={**headers, "Content-Type": "application/yaml"}
    )


def test_a_gateway_without_rights_says_what_to_set(world: Fleet) -> None:
    """Its credentials are a worker's; nothing is changed."""
    one = start_gateway(world)
    with one.tcp(one.token("nobody", "observe", "admin")) as client:
        seen = tag(client)
        refused = put(client, WEAKER, seen)
        assert (refused.status_code, refused.json()["code"]) == (409, "no-operator"), refused.text
        assert "FLEETHOOK_OPERATOR_URL" in refused.json()["detail"]
        assert put(client, WEAKER, {}, "?dry_run=true").json()["published"] is False
        assert tag(client) == seen
    (worker,) = (worker for worker in world.workers if worker.kind == "gateway")
    worker.process.terminate()
    assert worker.process.wait(PATIENCE) == 0


def test_a_set_is_published_against_the_version_that_was_seen(world: Fleet, admin: httpx.Client) -> None:
    seen = tag(admin)
    state = admin.get("/v1/hookset").json()
    assert (state["hooks"], state["endpoints"]) == (2, 1)
    dry = put(admin, WEAKER, seen, "?dry_run=true").json()
    assert (dry["published"], dry["version"], dry["weakened"]) == (
        False,
        state["version"],
        ["no-rm removed", "tell removed"],
    )
    assert '-      "id": "no-rm"' in dry["diff"]
    assert tag(admin) == seen, "a dry run changes nothing"
    assert put(admin, WEAKER, WITHOUT).json()["code"] == "version-missing"
    assert put(admin, WEAKER, {"If-Match": "what"}).json()["code"] == "version-invalid"
    late = put(admin, WEAKER, {"If-Match": '"999"'})
    assert (late.status_code, late.json()["code"], late.headers["etag"]) == (412, "version-moved", seen["If-Match"])
    done = put(admin, WEAKER, seen, f"?message=less {SECRET}")
    assert (done.status_code, done.json()["published"]) == (200, True), done.text
    assert tag(admin)["If-Match"] == done.headers["etag"] == f'"{state["version"] + 1}"'
    newest = admin.get("/v1/hookset/history").json()["items"][0]
    assert (newest["by"], newest["message"], newest["hooks"]) == (
        "token ana",
        "less [redacted:github-token]",
        1,
    )
    world.in_force(state["version"] + 1)
    assert admin.post("/v1/requests", json=CALL).json()["decision"] == "abstain"
    wait_until(
        lambda: any(one.event.data["by"] == "token ana" for one in world.events(types=("guard:changed",))),
        "who weakened the guards is announced",
    )
    same = put(admin, WEAKER, tag(admin)).json()
    assert (same["published"], same["diff"]) == (False, ""), "the same set is no new version"
    back = admin.post("/v1/hookset/rollback?dry_run=true", json={}, headers=tag(admin)).json()
    assert '+      "id": "no-rm"' in back["diff"]
    assert admin.post("/v1/hookset/rollback", json={}).json()["code"] == "version-missing"
    rolled = admin.post("/v1/hookset/rollback", json={"to": state["version"]}, headers=tag(admin)).json()
    assert (rolled["version"], rolled["hooks"], rolled["published"]) == (state["version"] + 2, 2, True)
    world.in_force(rolled["version"])
    assert admin.post("/v1/requests", json=CALL).json()["decision"] == "deny"
    missing = admin.post("/v1/hookset/rollback", json={"to": 999}, headers=tag(admin))
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")


def test_of_two_operators_with_the_same_version_one_publishes(admin: httpx.Client) -> None:
    seen = tag(admin)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: put(admin, f"{WEAKER}guards: {{fleethook-itself: true}}\n", seen), range(6)))
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [200, *[412] * 5], [answer.text for answer in answers]
    assert admin.post("/v1/hookset/rollback", json={}, headers=tag(admin)).status_code == 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hooks: [{on: 'tool:*'}]", "the body:1:9: a hook has exactly one of"),
        ("version: 7", "version has to be 1"),
        ("import: [{path: /etc/passwd}]", "imports others"),
        ("a: [", "the body"),
        ("what: 1", "what"),
        ("\n", "the body is empty"),
    ],
)
def test_a_set_with_mistakes_is_refused_with_their_places(admin: httpx.Client, text: str, said: str) -> None:
    refused = put(admin, text, tag(admin))
    assert (refused.status_code, refused.json()["code"]) == (400, "set-invalid")
    assert said in refused.json()["detail"]


def test_each_needs_its_scope(gateway: Gateway, admin: httpx.Client) -> None:
    with gateway.tcp(gateway.token("operator", "publish", "observe", "operate")) as one, gateway.unix() as local:
        for path in ("/v1/hookset/apply", "/v1/hookset/rollback"):
            assert one.post(path, content="{}").json()["code"] == "scope-missing"
            assert local.post(path, content="{}").json()["code"] == "token-missing"
    with gateway.tcp(gateway.token("reader", "publish", "observe")) as one:
        for path in (
            "/v1/hooks/test",
            "/v1/endpoints/log/test",
            "/v1/replays",
            "/v1/events/x/replay",
            "/v1/jobs/x/stop",
        ):
            assert one.post(path, json={}).json()["code"] == "scope-missing"


def test_an_event_is_tried_and_nothing_runs(world: Fleet, admin: httpx.Client, hooks: str) -> None:
    world.publish_hooks(hooks)
    wait_until(
        lambda: admin.post("/v1/hooks/test", json={"event": CALL}).json()["matched"],
        "the gateway has read the hooks: it looks for them every half second",
    )
    before = len(world.events())
    tried = admin.post("/v1/hooks/test", json={"event": CALL}).json()
    assert tried["verdict"]["decision"] == "deny"
    assert tried["verdict"]["reason"].startswith("no rm")
    assert tried["matched"][0] == {"id": "no-rm", "layer": "fleet", "kind": "rule", "ran": True}
    native = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    own = admin.post("/v1/hooks/test", json={"event": native, "source": "claude", "native": "PreToolUse"}).json()
    assert [(hook["id"], hook["ran"]) for hook in own["matched"]] == [("tell", False)]
    ended = admin.post("/v1/hooks/test", json={"event": {"type": "turn:end"}}).json()
    assert ended["endpoints"] == ["log"]
    assert len(world.events()) == before, "nothing is recorded"
    assert admin.post("/v1/hooks/test", json={"event": {}, "source": "claud"}).json()["code"] == "agent-unknown"
    assert admin.post("/v1/hooks/test", json={"event": {"type": 7}}).json()["code"] == "body-invalid"


def test_an_endpoint_is_tested(admin: httpx.Client, receiver: Receiver) -> None:
    good = admin.post("/v1/endpoints/log/test", json={}).json()
    assert (good["ok"], good["status"], good["resolved"]) == (True, 200, None)
    assert receiver.got[-1].json["data"]["data"] == {"test": True, "message": "a test by token ana"}
    receiver.by_path["/log"] = Answer(500, b"broken")
    bad = admin.post("/v1/endpoints/log/test").json()
    receiver.by_path.clear()
    assert (bad["ok"], bad["status"], bad["response"]) == (False, 500, "broken")
    assert admin.post("/v1/endpoints/nothing/test", json={}).status_code == 404


def test_events_are_sent_again(world: Fleet, admin: httpx.Client, receiver: Receiver) -> None:
    name = admin.post("/v1/events", json={"type": "turn:end", "session": "again"}).json()["id"]
    world.delivered(name)
    asked = {"since": "1h", "where": f'event.session == "again" && event.cwd != "{SECRET}"'}
    dry = admin.post("/v1/replays", json={**asked, "dry_run": True}).json()
    assert (dry["job"], dry["events"], dry["matching"], dry["endpoints"]) == ("", 1, 1, {"log": 1})
    begun = admin.post("/v1/replays", json=asked).json()
    job = f"/v1/jobs/{begun['job']}"
    wait_until(lambda: admin.get(job).json()["state"] == "done", "the job is done")
    assert admin.get(job).json()["done"] == 1
    assert admin.get("/v1/jobs").json()["items"][0]["id"] == begun["job"]
    assert SECRET not in admin.get(job).text + admin.get("/v1/jobs").text, "the condition of a job is redacted"
    assert admin.post(f"{job}/stop").json()["code"] == "job-ended"
    one = admin.post(f"/v1/events/{name}/replay", json={"endpoint": "log"}).json()
    assert (one["events"], one["matching"]) == (1, 1)
    world.delivered(name, 3)
    again = [got for got in receiver.got if got.headers.get("fleethook-replay-of") == name]
    assert len(again) == 2
    for body in ({}, {"since": "never"}, {"since": "1h", "where": "event."}):
        assert admin.post("/v1/replays", json=body).status_code == 400
    nowhere = admin.post("/v1/replays", json={**asked, "endpoint": "nothing"})
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "not-found")
