"""Blocking webhooks: what the receiver is sent, and what its answers amount to."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from bus.errors import ConfigError, SignatureError
from bus.events import Event
from bus.hooks import Hook, HttpCall, OldSecret
from bus.http import signing
from bus.http.address_policy import policy
from bus.http.webhook_client import WebhookClient
from bus.outcomes import Outcome
from bus.runners.http import HttpRunner
from bus.secrets.references import fill, resolve_secret
from tests.support.http_servers import Serve, answer, receiver

EVENT = Event(type="tool:pre_execute", id="e0123", tool="shell", input={"command": "ls"}, raw={"x": "\ud800"})
LOCAL = policy(["127.0.0.1"])


async def ask(
    serve: Serve, *, seconds: float = 20.0, headers: dict[str, str] | None = None, secret: str = ""
) -> Outcome:
    async with receiver(serve) as port, WebhookClient(LOCAL) as client:
        call = HttpCall(url=f"http://127.0.0.1:{port}/ask", headers=headers or {}, secret=secret)
        hook = Hook(id="remote", on=("tool:*",), http=call, origin="fleethook.yaml:7")
        return await HttpRunner(client).run(hook, EVENT, seconds)


@pytest.mark.req("F-06", "F-11", "G-08")
async def test_a_failure_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    for serve, why in (
        (answer(status="500 Broken", body=b"broken"), "was answered 500"),
        (answer(body=b'{"decision": 7}'), "got an answer that cannot be used"),
    ):
        caplog.clear()
        assert why in (await ask(serve)).failure
        (record,) = [record for record in caplog.records if record.name == "fleethook.hooks"]
        assert (record.levelname, why in record.getMessage()) == ("WARNING", True)
        assert record.getMessage().startswith("hook 'remote' (fleethook.yaml:7) ")
        assert record.getMessage().endswith(" at event e0123")
    caplog.clear()
    await ask(answer(body=b"{}"))
    assert caplog.messages == []


@pytest.mark.req("G-08")
async def test_the_event_is_posted_signed_and_with_the_hooks_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = signing.generate_secret()
    monkeypatch.setenv("HOOK_SECRET", secret)
    monkeypatch.setenv("TOKEN", "t0k")
    seen: list[bytes] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        await answer(body=b'{"decision": "allow"}')(request, reader, writer)

    got = await ask(serve, headers={"Authorization": "Bearer ${TOKEN}"}, secret="env:HOOK_SECRET")
    assert (got.decision, got.failure) == ("allow", "")
    head, _, body = seen[0].partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().splitlines()[1:])
    assert headers["Authorization"] == "Bearer t0k"
    assert headers["Content-Type"] == "application/json"
    signing.verify([secret], headers, body)
    assert headers["webhook-id"] == "e0123_remote"
    sent = json.loads(body)["event"]
    assert sent == {name: getattr(EVENT, name) for name in EVENT.__struct_fields__}


async def asked_with(payload: Literal["full", "raw"], answered: bytes) -> tuple[Outcome, str]:
    """What comes of an event with a secret, and the body that the receiver got."""
    seen: list[bytes] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        await answer(body=answered)(request, reader, writer)

    event = msgspec.structs.replace(
        EVENT, input={"command": "PGPASSWORD=hunter2 psql"}, raw={"tool_input": {"command": "PGPASSWORD=hunter2 psql"}}
    )
    async with receiver(serve) as port, WebhookClient(LOCAL) as client:
        call = HttpCall(url=f"http://127.0.0.1:{port}/ask", payload=payload)
        got = await HttpRunner(client).run(Hook(id="remote", on=("tool:*",), http=call), event, 20.0)
    return got, seen[0].decode()


async def test_a_question_has_no_secrets_unless_it_says_raw() -> None:
    got, body = await asked_with("full", b'{"decision": "deny", "reason": "no"}')
    assert (got.decision, "hunter2" in body, body.count("PGPASSWORD=[redacted] psql")) == ("deny", False, 2)
    got, body = await asked_with("raw", b'{"decision": "deny", "reason": "no"}')
    assert (got.decision, body.count("hunter2")) == ("deny", 2)


async def test_a_changed_input_that_lost_a_secret_is_a_failure() -> None:
    changed = b'{"decision": "allow", "updated_input": {"command": "PGPASSWORD=[redacted] psql -q"}}'
    got, _ = await asked_with("full", changed)
    assert got.updated_input is None
    assert "payload: raw" in got.failure
    got, _ = await asked_with("full", b'{"decision": "allow", "updated_input": {"command": "true"}}')
    assert got.updated_input == {"command": "true"}


async def test_an_unsigned_question_has_its_id_and_no_header_twice() -> None:
    seen: list[bytes] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        await answer()(request, reader, writer)

    await ask(serve, headers={"content-type": "text/plain", "WEBHOOK-ID": "mine", "X-Team": "blue"})
    names = [line.partition(": ")[::2] for line in seen[0].partition(b"\r\n\r\n")[0].decode().splitlines()[1:]]
    sent = {name.lower(): value for name, value in names}
    assert len(sent) == len(names)
    assert sent["webhook-timestamp"].isdigit()
    assert (sent["webhook-id"], sent["content-type"], sent["x-team"]) == ("e0123_remote", "application/json", "blue")
    assert "webhook-signature" not in sent


@pytest.mark.req("G-08")
async def test_while_a_secret_is_rotated_both_sign(tmp_path: Path) -> None:
    new, old, older, gone = (signing.generate_secret() for _ in range(4))
    now = datetime.now(UTC)
    olds = [(old, now + timedelta(hours=1)), (older, now - timedelta(seconds=1))]
    call = HttpCall(
        url="",
        secret=new,
        old_secrets=(
            *(OldSecret(secret=secret, until=until) for secret, until in olds),
            OldSecret(secret=f"file:{tmp_path / 'gone'}", until=now + timedelta(hours=1)),
        ),
    )
    seen: list[bytes] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        await answer()(request, reader, writer)

    async with receiver(serve) as port, WebhookClient(LOCAL) as client:
        call = msgspec.structs.replace(call, url=f"http://127.0.0.1:{port}/")
        got = await HttpRunner(client).run(Hook(id="remote", on=("*",), http=call), EVENT, 20)
    assert got.failure == ""
    head, _, body = seen[0].partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().splitlines()[1:])
    for secret in (new, old):
        signing.verify([secret], headers, body)
    for secret in (older, gone):
        with pytest.raises(SignatureError):
            signing.verify([secret], headers, body)


@pytest.mark.parametrize(
    ("body", "decision", "reason"),
    [
        (b"", "abstain", ""),
        (b"{}", "abstain", ""),
        (b'{"decision": "continue"}', "abstain", ""),
        (b'{"decision": "deny", "reason": "not today"}', "deny", "not today"),
        (b'{"decision": "ask", "reason": "sure?"}', "ask", "sure?"),
        (b'{"decision": "deny"}', "deny", "hook 'remote' says deny and gives no reason"),
    ],
)
async def test_answers(body: bytes, decision: str, reason: str) -> None:
    got = await ask(answer(body=body))
    assert (got.decision, got.reason, got.failure) == (decision, reason, "")


async def test_context_and_changed_input_come_back() -> None:
    body = b'{"context": ["a", "b"], "updated_input": {"command": "ls -l"}, "instead": "c"}'
    got = await ask(answer(body=body))
    assert (got.contexts, got.updated_input, got.instead) == (("a", "b"), {"command": "ls -l"}, "c")


UNUSABLE = "got an answer that cannot be used: "


@pytest.mark.parametrize(
    ("serve", "text"),
    [
        (answer("500 Oops", b'{"decision": "allow"}'), "was answered 500"),
        (
            answer("302 Found", b"", ["Location: http://169.254.169.254/"]),
            "was answered 302, a redirect, and none is followed",
        ),
        (answer(body=b"<html>"), f"{UNUSABLE}payload is not JSON: Expecting value at line 1 column 1"),
        (answer(body=b'["allow"]'), f"{UNUSABLE}the answer is a JSON list, not an object"),
        (
            answer(body=b'{"decision": 1}'),
            f"{UNUSABLE}the answer does not fit: Expected `str | null`, got `int` - at `$.decision`",
        ),
        (
            answer(body=b"x", headers=["Content-Encoding: gzip"]),
            "was answered in gzip encoding, which was not accepted",
        ),
    ],
)
async def test_everything_else_is_a_failure_in_words(serve: Serve, text: str) -> None:
    got = await ask(serve)
    assert got.failure == f"hook 'remote' (fleethook.yaml:7) {text}"
    assert got.decision == "abstain"


@pytest.mark.req("G-07", "G-08")
@pytest.mark.parametrize(
    ("status", "body", "decision", "failure"),
    [
        ("403 Forbidden", b'{"decision": "deny", "reason": "not here"}', "deny", ""),
        ("422 No", b'{"decision": "block", "reason": "not here"}', "deny", ""),
        ("404 Not Found", b'{"decision": "allow"}', "abstain", "was answered 404"),
        ("404 Not Found", b"<html>", "abstain", "was answered 404"),
        ("503 Later", b'{"decision": "deny", "reason": "not here"}', "abstain", "was answered 503"),
    ],
)
async def test_gobbys_webhooks_refuse_by_a_4xx_too(status: str, body: bytes, decision: str, failure: str) -> None:
    got: list[bytes] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(request)
        await answer(status, body)(request, reader, writer)

    async with receiver(serve) as port, WebhookClient(LOCAL) as client:
        hook = Hook(id="gate", on=("*",), http=HttpCall(url=f"http://127.0.0.1:{port}/"), dialect="gobby")
        outcome = await HttpRunner(client).run(hook, EVENT, 20)
    assert (outcome.decision, outcome.reason) == (decision, "not here" if decision == "deny" else "")
    assert failure in outcome.failure
    assert bool(outcome.failure) is bool(failure)
    assert b"X-Gobby-Event: before_tool\r\n" in got[0]
    assert b"User-Agent: Gobby-Webhook/1.0\r\n" in got[0]


async def test_late_unreachable_and_refused_are_failures() -> None:
    async def silent(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    assert "got no answer (timeout): no complete answer within 0.1 s" in (await ask(silent, seconds=0.1)).failure
    async with receiver(answer()) as port:
        pass
    hook = Hook(id="remote", on=("*",), http=HttpCall(url=f"http://127.0.0.1:{port}/"))
    async with WebhookClient(LOCAL) as client:
        assert "got no answer (connect)" in (await HttpRunner(client).run(hook, EVENT, 20)).failure
    async with WebhookClient(policy([])) as client:
        refused = await HttpRunner(client).run(hook, EVENT, 20)
    assert refused.failure == "hook 'remote' was not sent: the address policy refuses its target"
    assert "127.0.0.1 (loopback)" in refused.output


async def test_what_cannot_be_resolved_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ABSENT", raising=False)
    hit = asyncio.Event()

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hit.set()

    assert "the variable ABSENT is not set" in (await ask(serve, headers={"X": "${ABSENT}"})).failure
    assert "the secret env:ABSENT is not set" in (await ask(serve, secret="env:ABSENT")).failure
    assert "whsec_" in (await ask(serve, secret="pasted")).failure
    assert not hit.is_set()


def test_secrets_by_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S", " whsec_a ")
    (tmp_path / "s").write_text("whsec_b\n")
    assert resolve_secret("env:S") == "whsec_a"
    assert resolve_secret(f"file:{tmp_path / 's'}") == "whsec_b"
    assert resolve_secret("whsec_c") == "whsec_c"
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for bad in (f"file:{tmp_path / 'gone'}", f"file:{tmp_path / 'empty'}", f"file:{tmp_path / 'binary'}", "hunter2"):
        with pytest.raises(ConfigError) as caught:
            resolve_secret(bad)
        assert "hunter2" not in str(caught.value)


@pytest.mark.req("G-06")
def test_headers_are_filled_once_and_never_with_the_buss_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("A", "${B}")
    (tmp_path / "key").write_text("t0k\n")
    (tmp_path / "lines").write_text("a\r\nX: y")
    assert fill({"x": "a ${A} $A {A}", "y": "${env:A}"}) == {"x": "a ${B} $A {A}", "y": "${B}"}
    assert fill({"x": "${A:-b}"}) == {"x": "${B}"}, "as Gobby's configuration has it"
    assert fill({"Authorization": f"Bearer ${{file:{tmp_path / 'key'}}}"}) == {"Authorization": "Bearer t0k"}
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "redis://:hunter2@h")
    others = [f"${{file:{tmp_path / name}}}" for name in ("lines", "gone")]
    for bad in (
        "${FLEETHOOK_REDIS_URL}",
        "${env:FLEETHOOK_REDIS_URL}",
        "${}",
        "${:-b}",
        "${FLEETHOOK_REDIS_URL:-b}",
        "${env:}",
        "${file:}",
        *others,
    ):
        with pytest.raises(ConfigError):
            fill({"x": bad})
