"""Who may call a gateway, and that no refusal looks like an allow (issue 12, items 1 and 9)."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any

import httpx
import pytest

from bus.agents import claude
from tests.cli_kit import Result, fleethook_in
from tests.support.fleet import Fleet
from tests.support.forked import Fleethook, run_fleethook
from tests.support.gateway import Gateway
from tests.support.servers import free_port
from tests.support.waiting import PATIENCE, wait_until
from workers.gateway.bodies import MOST_BYTES
from workers.records.status import live_gateways

pytestmark = [pytest.mark.flow, pytest.mark.req("G-02")]

CALL = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}}
HOOK = "/v1/hooks/claude/PreToolUse"
EVENT = {"type": "tool:pre_execute", "tool": "bash", "session": "s", "input": {"command": "ls"}}


def refused(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem in a response: one shape, no decision, no 2xx."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert set(problem) == {"title", "status", "code", "detail"}
    assert (problem["status"], problem["code"]) == (status, code)
    assert "access-control-allow-origin" not in response.headers
    return problem


@pytest.mark.parametrize("native", [name for name, can in claude.CAPABILITIES.items() if can.waits])
def test_every_event_is_refused_without_a_token_on_tcp(gateway: Gateway, native: str) -> None:
    with gateway.tcp() as client:
        problem = refused(client.post(f"/v1/hooks/claude/{native}", json=CALL), 401, "token-missing")
    assert "in the header `Authorization`; `fleethook tokens create NAME` makes one" in problem["detail"]


def test_a_refused_caller_gets_the_deny_of_the_failure_policy_as_a_2xx(gateway: Gateway) -> None:
    """Claude Code takes a 401 for "go on", so a hook that fails closed hears a deny instead."""
    with gateway.tcp("fht_wrong") as client:
        response = client.post(HOOK, params={"on_failure": "deny"}, json=CALL)
        stop = client.post("/v1/hooks/claude/Stop", params={"on_failure": "deny"}, json={"session_id": "s"})
    assert response.status_code == 200
    said = response.json()["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert "unknown, revoked or expired" in said["permissionDecisionReason"]
    refused(stop, 401, "token-invalid")


def test_a_token_does_what_its_scopes_say_until_it_is_revoked(world: Fleet, gateway: Gateway) -> None:
    def fleethook(*words: str) -> Result:
        env = {**world.environment, "FLEETHOOK_REDIS_URL": world.url("admin"), "FLEETHOOK_TEST_CONFIRMS": "1"}
        return fleethook_in(env, world.folder, "tokens", *words)

    made = fleethook("create", "laptop", "--expires", "90d")
    assert made.code == 0, made.err
    secret = made.out.strip()
    assert secret.startswith("fht_")
    assert "shown this once" in made.err
    with gateway.tcp(secret) as client:
        wait_until(lambda: client.post(HOOK, json=CALL).status_code == 200, "the gateway knows the new token")
        problem = refused(client.get("/metrics"), 403, "scope-missing")
        assert "observe" in problem["detail"]
        listed = fleethook("list", "--json")
        assert [(token["name"], token["scopes"]) for token in listed.json if token["name"] == "laptop"] == [
            ("laptop", ["publish"])
        ]
        assert secret not in listed.out
        stored = world.ask(lambda connections: _stored(connections, world))
        assert secret[4:].encode() not in stored
        again = fleethook("create", "laptop")
        assert (again.code, "revoke laptop" in again.err) == (4, True)
        assert fleethook("revoke", "laptop").code == 0
        wait_until(lambda: client.post(HOOK, json=CALL).status_code == 401, "the revoked token is refused", 3)
    assert fleethook("revoke", "laptop").code != 0


async def _stored(connections: Any, world: Fleet) -> bytes:
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("HGETALL", world.keys("tokens"))])
    return b" ".join(rows)


def test_an_expired_token_is_refused(world: Fleet, gateway: Gateway) -> None:
    from workers.gateway.tokens import create_token

    secret, token = world.ask(
        lambda connections: create_token(connections, world.keys, "short", ["publish"], by="a test", seconds=0.001)
    )
    assert token.expires < time.time() * 1000 + 1000
    with gateway.tcp(secret) as client:
        refused(client.post(HOOK, json=CALL), 401, "token-invalid")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:4665", ""])
def test_a_gateway_answers_to_its_own_names_only(gateway: Gateway, host: str) -> None:
    """Against DNS rebinding: the browser calls 127.0.0.1 by the attacker's name."""
    with gateway.tcp(gateway.token(f"host-{len(host)}")) as client:
        refused(client.post(HOOK, json=CALL, headers={"Host": host}), 403, "host-refused")
        refused(client.get("/livez", headers={"Host": host}), 403, "host-refused")
        named = client.post(HOOK, json=CALL, headers={"Host": f"localhost:{gateway.port}"})
    assert named.status_code == 200


def test_a_call_with_two_names_is_refused(gateway: Gateway) -> None:
    """Two parsers in a row would each believe another one."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)
    connection.putrequest("GET", "/livez", skip_host=True)
    for host in ("localhost", "evil.example"):
        connection.putheader("Host", host)
    connection.endheaders()
    response = connection.getresponse()
    assert (response.status, json.load(response)["code"]) == (403, "host-refused")
    connection.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_origin_is_refused_with_a_token_and_on_the_socket(
    gateway: Gateway, headers: dict[str, str]
) -> None:
    with gateway.tcp(gateway.token(f"origin-{hash(str(headers))}")) as client, gateway.unix() as local:
        refused(client.post(HOOK, json=CALL, headers=headers), 403, "origin-refused")
        refused(local.post(HOOK, json=CALL, headers=headers), 403, "origin-refused")
        own = client.post(HOOK, json=CALL, headers={"Origin": gateway.url, "Sec-Fetch-Site": "same-origin"})
    assert own.status_code == 200


def test_the_socket_may_publish_and_no_more(gateway: Gateway) -> None:
    assert gateway.socket.stat().st_mode & 0o777 == 0o600
    with gateway.unix() as client:
        assert client.post(HOOK, json=CALL).status_code == 200
        refused(client.get("/metrics"), 401, "token-missing")


def test_bodies_have_a_limit_whether_their_length_is_said_or_not(gateway: Gateway) -> None:
    with gateway.unix() as client:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)
        connection.putrequest("POST", HOOK)
        connection.putheader("Authorization", f"Bearer {gateway.token('large')}")
        connection.putheader("Content-Length", str(MOST_BYTES + 1))
        connection.endheaders()
        said = connection.getresponse()
        assert (said.status, json.loads(said.read())["code"]) == (413, "body-too-large")
        connection.close()
        block = b"x" * (1 << 20)
        chunks = (block for _ in range(MOST_BYTES // len(block) + 2))
        refused(client.post(HOOK, content=chunks), 413, "body-too-large")


def test_errors_of_paths_and_methods_have_the_same_shape(gateway: Gateway) -> None:
    with gateway.unix() as client:
        refused(client.get("/no/such/path"), 404, "path")
        assert "POST" in refused(client.get(HOOK), 405, "method")["detail"]
        refused(client.post(HOOK, params={"wait": "soon"}, json=CALL), 400, "wait-invalid")
        refused(client.post(HOOK, headers={"Idempotency-Key": "a b"}, json=CALL), 400, "id-invalid")
        refused(client.post(HOOK, params={"on_failur": "deny"}, json=CALL), 400, "query-invalid")
        refused(client.post("/v1/requests", params={"on_failure": "maybe"}, json=EVENT), 400, "policy-invalid")


@pytest.mark.parametrize(
    ("params", "headers", "words"),
    [
        ([("on_failure", "deny"), ("wait", "soon")], {}, "wait has to be seconds"),
        ([("on_failure", "deny"), ("on_failure", "allow"), ("wait", "soon")], {}, "wait has to be seconds"),
        ([("on_failure", "deny"), ("wiat", "5s")], {}, "there is no parameter 'wiat'"),
        ([("on_failure", "deny")], {"Idempotency-Key": "a b"}, "the header idempotency-key"),
        ([("on_failure", "maybe")], {}, "on_failure is 'maybe'"),
    ],
)
def test_a_mistake_in_an_address_lets_no_call_pass_that_has_to_be_denied_at_failures(
    gateway: Gateway, params: list[tuple[str, str]], headers: dict[str, str], words: str
) -> None:
    """The agent would take a 400 for "go on"."""
    with gateway.unix() as client:
        response = client.post(HOOK, params=tuple(params), headers=headers, json=CALL)
    assert response.status_code == 200
    said = response.json()["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert words in said["permissionDecisionReason"]
    assert "fleethook trace" not in said["permissionDecisionReason"], "nothing was recorded"


def test_another_address_than_loopback_needs_a_token(tmp_path: Any) -> None:
    """It says what to do, and listens as soon as there is a token."""
    world = Fleet(tmp_path)
    world.home.mkdir(parents=True)
    world.server.start()
    gateway, log = Gateway(world, free_port()), tmp_path / "log"
    env = {**world.environment, "FLEETHOOK_GATEWAY_HOST": "0.0.0.0", "FLEETHOOK_GATEWAY_PORT": str(gateway.port)}
    with log.open("wb") as output:
        process = Fleethook(["worker", "gateway"], env=env, stdout=output, stderr=output)
    try:
        wait_until(lambda: "fleethook tokens create" in log.read_text("utf-8"), "it says what it needs")
        with pytest.raises(httpx.ConnectError), gateway.tcp() as client:
            client.get("/livez")
        gateway.token("first")
        wait_until(lambda: "fleethook gateway ready" in log.read_text("utf-8"), "it listens")
        with gateway.tcp() as client:
            assert client.get("/livez").status_code == 200
    finally:
        process.kill()
        process.wait()
        world.server.stop()


def test_a_second_gateway_of_this_user_is_refused_and_leaves_no_trace(world: Fleet, gateway: Gateway) -> None:
    """It says whose the gateway is; the fleet's list of processes has the first one alone."""

    def alive() -> list[str]:
        return list(world.ask(lambda connections: live_gateways(connections, world.keys)))

    before, port = alive(), free_port()
    assert before
    env = {**world.environment, "FLEETHOOK_GATEWAY_PORT": str(port)}
    second = run_fleethook(["worker", "gateway"], env=env)
    assert second.returncode != 0
    assert "this user's gateway belongs to process" in second.stderr
    assert alive() == before
    with gateway.tcp() as client:
        assert client.get("/livez").status_code == 200
