"""The description of a gateway is what it does (issue 12, item 4)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.fleet import Fleet
from tests.support.gateway import Gateway
from tests.support.schedule import ROOT
from tests.support.waiting import wait_until
from workers.delivery.deliveries import Delivery
from workers.gateway.records.record_types import EventRecord, HookRecord, TraceRecord
from workers.records.sessions import SessionRecord
from workers.records.status import Role

pytestmark = [pytest.mark.flow, pytest.mark.req("G-19")]

CALL = {"type": "tool:pre_execute", "tool": "bash", "session": "described", "input": {"command": "rm x"}}
RULES = """
version: 1
guards: {destructive-commands: true}
hooks: [{id: no-rm, on: 'tool:pre_execute:bash', rule: {reason: no rm, commands: [{program: [rm]}]}}]
"""


@pytest.fixture(scope="module")
def client(world: Fleet, gateway: Gateway) -> Iterator[httpx.Client]:
    world.publish_hooks(RULES)
    with gateway.tcp(gateway.token("all", "publish", "observe", "operate", "admin")) as one:
        yield one


@pytest.fixture(scope="module")
def document(gateway: Gateway) -> Any:
    with gateway.tcp() as anybody:
        response = anybody.get("/openapi.json")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    return response.json()


def test_every_path_is_described_with_its_scope_and_its_errors(document: Any) -> None:
    assert document["openapi"] == "3.1.0"
    events = document["paths"]["/v1/events"]
    assert events["get"]["security"] == [{"token": ["observe"]}]
    assert {one["name"] for one in events["get"]["parameters"]} >= {"type", "where", "since", "limit", "cursor"}
    assert {"200", "400", "401", "403", "503"} <= set(events["get"]["responses"])
    assert set(events["post"]["responses"]) >= {"202", "413", "415"}
    assert events["post"]["security"] == [{"token": ["publish"]}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            assert [one["name"] for one in operation["parameters"] if one["in"] == "path"] == re.findall(
                r"\{(\w+)\}", path
            )
    assert set(re.findall(r"#/components/schemas/(\w+)", str(document))) == set(document["components"]["schemas"])


def test_answers_have_the_types_that_describe_them(world: Fleet, client: httpx.Client) -> None:
    name = client.post("/v1/requests", json=CALL).json()["event"]
    kinds: dict[str, Any] = {
        "/v1/events": EventRecord,
        "/v1/deliveries": Delivery,
        "/v1/hooks": HookRecord,
        "/v1/sessions": SessionRecord,
        "/v1/workers": Role,
    }
    wait_until(lambda: client.get("/v1/hooks").json()["items"], "the list has the published hooks")
    for path, kind in kinds.items():
        items = client.get(path).json()["items"]
        assert items or path == "/v1/deliveries"
        for item in items:
            msgspec.convert(item, kind)
    trace = msgspec.convert(client.get(f"/v1/events/{name}").json(), TraceRecord)
    assert (trace.event.id, trace.event.decision, trace.complete) == (name, "deny", True)


@pytest.mark.timeout(3000)  # it computes all the time, and the machine may be busy
@pytest.mark.parametrize("examples", [0, pytest.param(50, marks=pytest.mark.slow)])
def test_no_generated_call_finds_a_server_error_or_an_undocumented_answer(
    examples: int, client: httpx.Client, gateway: Gateway, tmp_path: Path
) -> None:
    """Calls made from the description, valid and invalid, against the real process.

    Every path gets all cases that its description has by itself (phase `coverage`), and up to this many random ones.
    """
    assert client.post("/v1/requests", json=CALL).status_code == 200  # so that there is something to list
    token = gateway.token(f"schemathesis-{examples}", "publish", "observe", "operate")
    checks = (
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
        "response_headers_conformance,ignored_auth,unsupported_method"
    )
    program = Path(sys.executable).parent / "schemathesis"
    command = [str(program), "run", f"{gateway.url}/openapi.json", "--checks", checks]
    random = ["--phases", "examples,coverage,fuzzing", "--max-examples", str(examples)]
    phases = random if examples else ["--phases", "examples,coverage"]
    more = ["--header", f"Authorization: Bearer {token}", "--continue-on-failure", "--seed", "1", "--no-color"]
    done = subprocess.run(
        [*command, *more, *phases, "--exclude-path", "/v1/live/sse"],  # it has no end
        cwd=tmp_path,
        env=os.environ
        | {"HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis")},  # a table there takes 2.4 s to make
        capture_output=True,
        text=True,
        check=False,
        timeout=2900,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
