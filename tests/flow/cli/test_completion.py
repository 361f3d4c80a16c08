"""What a shell completes: commands, options, ids of events and deliveries, endpoints, versions; and the words for help."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run
from tests.support.quick_program import quick_program
from tests.support.servers import Server
from tests.support.waiting import PATIENCE

ENDPOINTS = """
endpoints:
  - {id: audit, url: "https://audit.example/hook"}
  - {id: chat, url: "https://chat.example/hook"}
"""


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """The folder of a program `fleethook` that is there at once."""
    with quick_program() as quick:
        yield quick


@pytest.fixture
def shell(server: Server, keys: Keys, program: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a person's shell with `fleethook` on PATH and a fleet with two endpoints."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    run(server.url, lambda connections: apply(connections, keys, parse_hook_file(ENDPOINTS, "fleet")))
    return {**os.environ, "PATH": f"{program}:{os.environ['PATH']}"}


def completed(shell: dict[str, str], *words: str) -> list[str]:
    """What bash offers for the last of these words, by the script that `fleethook completion bash` prints."""
    script = """eval "$(fleethook completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_fleethook_completion fleethook; printf '%s\\n' "${COMPREPLY[@]}" """
    done = subprocess.run(
        ["bash", "-c", script, "bash", "fleethook", *words],
        env=shell,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    return sorted(filter(None, done.stdout.splitlines()))


@pytest.mark.req("X-05")
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_ids_endpoints_and_versions(shell: dict[str, str]) -> None:
    published = fleethook("publish", stdin='{"type": "session:start"}')
    event = published.out.strip()
    assert event, published.err
    assert completed(shell, "webh") == ["webhooks"]
    assert completed(shell, "webhooks", "pause", "") == ["audit", "chat"]
    assert completed(shell, "webhooks", "pause", "c") == ["chat"]
    assert completed(shell, "trace", event[:4]) == [event]
    assert completed(shell, "trace", event[6:12]) == [event[6:]], "as a list shows it"
    assert completed(shell, "hooks", "rollback", "") == ["1"]


@pytest.mark.req("X-05")
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_without_a_server_nothing_is_offered_and_nothing_said(shell: dict[str, str]) -> None:
    assert completed({**shell, "FLEETHOOK_REDIS_URL": "redis://127.0.0.1:1"}, "trace", "e") == []


@pytest.mark.req("X-05")
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(name: str) -> None:
    script = fleethook("completion", name)
    assert script.code == 0
    assert "_FLEETHOOK_COMPLETE" in script.out
    assert fleethook("completion", name, "--json").json["script"].strip() == script.out.strip()


@pytest.mark.req("X-05")
def test_a_mistyped_choice_is_answered_with_the_nearest() -> None:
    wrong = fleethook("completion", "bsh")
    assert wrong.code == 2
    assert "did you mean bash" in wrong.err


@pytest.mark.req("X-05")
def test_help_and_version_are_words_too() -> None:
    assert fleethook("help", "webhooks", "add").out == fleethook("webhooks", "add", "--help").out
    assert fleethook("help").out == fleethook("--help").out
    assert fleethook("version").out == fleethook("--version").out
    unknown = fleethook("help", "webhoks")
    assert (unknown.code, "did you mean webhooks" in unknown.err) == (2, True)


@pytest.mark.req("X-05")
def test_the_namespace_may_stand_before_the_command(
    server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    name = namespace(keys)
    event = fleethook("-n", name, "publish", stdin='{"type": "session:start"}').out.strip()
    assert event in fleethook("events", "list", "-n", name, "--json").out
    assert event in fleethook("-n", "nobody", "events", "list", "-n", name, "--json").out
