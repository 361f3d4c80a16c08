"""The Procfile, the image and the compose file: the same processes, nobody root, no secret inside, nothing wide open."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bus.config.settings import Settings
from workers.supervisor import process_specs

ROOT = Path(__file__).resolve().parents[3]
PROCFILE = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
DOCKERFILE = re.sub(r"\\\n\s*", " ", (ROOT / "docker/Dockerfile").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
WORKERS = [name for name in SERVICES if name != "redis"]


def instructions(stage: str) -> list[tuple[str, str]]:
    lines = [line for line in stage.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


@pytest.mark.req("B-05", "B-07")
def test_up_the_procfile_and_compose_start_the_same_processes() -> None:
    specs = {spec.name: spec.argv for spec in process_specs(Settings())}
    assert list(PROCFILE) == list(specs)
    # The machine of `host` is the one that the agents run on, which is never a container of ours.
    assert [name for name in PROCFILE if name != "host"] == WORKERS
    for name, command in PROCFILE.items():
        assert command == f"fleethook worker {name}"
        if name == "host":
            continue
        assert SERVICES[name]["command"] == command.split()[1:], "the image's entry point is fleethook"
        assert specs[name][-2:] == tuple(command.split()[1:])


@pytest.mark.req("B-05")
@pytest.mark.parametrize("name", WORKERS)
def test_workers_scale_and_wait_for_a_healthy_server(name: str) -> None:
    service = SERVICES[name]
    assert not {"container_name", "ports", "hostname"} & set(service), "two of them could not run"
    assert service["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert service["environment"]["FLEETHOOK_REDIS_URL"].endswith("@redis:6379/0")
    assert service["init"] is True


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_locked_down(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(service["user"].split(":")[0]) > 0
    assert not {"privileged", "cap_add", "network_mode", "pid", "devices"} & set(service)
    assert not any("docker.sock" in str(volume) for volume in service.get("volumes", []))


@pytest.mark.req("B-05")
def test_the_server_keeps_what_it_has_taken_and_listens_to_this_host_alone() -> None:
    redis = SERVICES["redis"]
    assert all(port.startswith("127.0.0.1:") for port in redis["ports"])
    assert "data:/data" in redis["volumes"]
    assert "data" in COMPOSE["volumes"]
    assert "ping" in redis["healthcheck"]["test"][1]
    lines = (ROOT / "docker/redis.conf").read_text().splitlines()
    config = dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    assert config == {
        "dir": "/data",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-load-truncated": "yes",
        "save": '""',
        "maxmemory-policy": "noeviction",
    }


def test_the_password_is_asked_for_and_in_no_command_line() -> None:
    for service in SERVICES.values():
        secret = [value for value in service["environment"].values() if "FLEETHOOK_REDIS_PASSWORD" in value]
        assert secret
        assert all("${FLEETHOOK_REDIS_PASSWORD:?" in value for value in secret), "without one, compose refuses"
    command = SERVICES["redis"]["command"][2]
    before, _, standard_input = command.partition("<<END\n")
    assert "PASSWORD" not in before
    assert "$$FLEETHOOK_REDIS_PASSWORD" in standard_input, "the container's shell fills it in, not compose"


@pytest.mark.req("B-07")
def test_the_image_is_built_apart_and_runs_as_nobody_special() -> None:
    build, final = (instructions(stage) for stage in re.split(r"(?m)^(?=FROM )", DOCKERFILE)[1:])
    assert build[0] == ("FROM", "python:3.13-slim AS build")
    assert final[0] == ("FROM", "python:3.13-slim")
    assert ("COPY", "--from=build /wheels /wheels") in final
    assert [text for name, text in final if name == "COPY"] == ["--from=build /wheels /wheels"], (
        "no source, no compiler"
    )
    users = [text for name, text in final if name == "USER"]
    assert users == ["10001:10001"]
    assert [name for name, _ in final].index("USER") > max(n for n, (name, _) in enumerate(final) if name == "RUN")
    last = dict(final)
    assert json.loads(last["ENTRYPOINT"]) == ["fleethook"]
    assert json.loads(last["CMD"]) == ["worker", "evaluator"]


def test_no_secret_gets_into_the_image() -> None:
    for name, text in instructions(DOCKERFILE):
        assert name in {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD"}, "ARG leaks"
        assert not re.search(r"(?i)password|secret|token|redis_url", text)
    allowed = (ROOT / "docker/Dockerfile.dockerignore").read_text().splitlines()
    assert allowed[0] == "*", "only what is named goes to the builder"
    copied = {
        word
        for name, text in instructions(DOCKERFILE)
        if name == "COPY" and "--from" not in text
        for word in text.split()[:-1]
    }
    assert copied == {line[1:] for line in allowed if line.startswith("!")}
    assert all((ROOT / path).exists() for path in copied)
