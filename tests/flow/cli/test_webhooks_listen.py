"""One's own webhooks received on a local port: shown, checked, handed on, and an exit code for scripts."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bus.http.address_policy import policy
from bus.http.signing import generate_secret, headers
from bus.http.webhook_client import Reply, WebhookClient
from tests.cli_kit import fleethook
from tests.support.beside import beside
from tests.support.receivers import Answer, receiving
from tests.support.waiting import PATIENCE

SECRET = generate_secret()
BODY = b'{"type": "session.start", "password": "hunter2hunter2"}'


@contextmanager
def listening(*args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A listener in a process of its own, and its URL."""
    command = [sys.executable, "-m", "workers.cli", "listen", "--port", "0", *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/", said)
            assert found, said + process.stderr.read()
            yield process, found[0]
        finally:
            process.kill()


def post(url: str, body: bytes = BODY, secret: str = SECRET, message: str = "msg_1") -> Reply:
    """One signed webhook, and what was answered."""

    async def whole() -> Reply:
        async with WebhookClient(policy(["localhost"])) as client:
            return await client.post(url, body, headers([secret], message, int(time.time()), body), seconds=20)

    return asyncio.run(whole())


def ended(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, object]]]:
    """The exit code, and the records that were printed."""
    out, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, [json.loads(line) for line in out.splitlines()]


@pytest.mark.flow
@pytest.mark.req("G-10")
def test_a_verified_webhook_is_handed_on_and_its_answer_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with beside(receiving) as service:
        service.usual = Answer(503, b"later", ["Retry-After: 7", "X-Own: 1"])
        args = (
            "--secret",
            "env:HOOK_SECRET",
            "--forward-to",
            f"http://127.0.0.1:{service.port}",
            "--count",
            "3",
            "--json",
        )
        with listening(*args) as (process, url):
            first = post(f"{url}in?x=1")
            assert (first.status, first.body, first.retry_after) == (503, b"later", "7")
            refused = post(f"{url}in", secret=generate_secret(), message="msg_2")
            assert (refused.status, b"no signature" in refused.body) == (401, True)
            service.usual = Answer(200, b"fine")
            assert post(f"{url}in?x=1").status == 200
            code, records = ended(process)
        assert [one.path for one in service.got] == ["/in?x=1", "/in?x=1"], "an unsigned one is not handed on"
        assert {one.body for one in service.got} == {BODY}
        assert service.got[0].headers["webhook-id"] == "msg_1"
    assert code == 1, "one signature did not hold"
    assert [(one["verified"], one["status"], one["repeat"]) for one in records] == [
        (True, 503, False),
        (False, 401, False),
        (True, 200, True),
    ]
    assert "hunter2" not in json.dumps(records)
    assert records[0]["body"] == {"type": "session.start", "password": "[redacted]"}


@pytest.mark.flow
def test_its_exit_code_says_whether_all_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with listening("--secret", "env:HOOK_SECRET", "--count", "1", "--status", "202") as (process, url):
        assert post(url).status == 202
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, "verified" in out, "1 arrived of 1, 0 with" in err) == (0, True, True)
    with listening("--count", "2", "--json") as (process, url):
        assert post(url).status == 204
        process.send_signal(signal.SIGINT)
        code, records = ended(process)
        assert (code, [one["verified"] for one in records]) == (1, [None])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = fleethook("listen", "--port", str(taken.getsockname()[1]))
        assert (busy.code, "choose another --port" in busy.err) == (1, True)
    nobody = fleethook("listen", "--port", "0", "--count", "1", "--timeout", "0.05")
    assert (nobody.code, "0 arrived of 1" in nobody.err) == (1, True)
    assert fleethook("listen", "--port", "0", "--timeout", "0.05").code == 0
    never = fleethook("listen", "--port", "0", "--forward-to", "http://169.254.169.254/", "--timeout", "0.05")
    assert (never.code, "can never be allowed" in never.err) == (4, True)


@pytest.mark.flow
def test_a_service_that_is_not_there_is_a_bad_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with listening("--forward-to", f"http://localhost:{port}/own", "--count", "1", "--json") as (process, url):
        assert post(url).status == 502
        code, (record,) = ended(process)
    assert (code, record["status"], "gave no answer: connect" in str(record["reason"])) == (0, 502, True)
