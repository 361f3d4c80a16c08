"""Commands in front of a person: a real terminal, with its questions, colours and width."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.hooksets.templates import names
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run, workers
from tests.support.keyboard import type_command
from tests.support.servers import Server
from tests.support.waiting import wait_until

Typed = Callable[..., tuple[int, str]]


@pytest.fixture
def typed(server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """A function that runs a command line in a terminal of its own, and returns exit code and screen.

    Where it is asked, it does something `meanwhile` and then types the answer. `script` has more answers: what has to be on
    the screen, and what is typed then.
    """
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (tmp_path / "person").mkdir()

    def run(
        *words: str,
        answer: str = "",
        columns: int = 100,
        meanwhile: Callable[[], object] = lambda: None,
        script: Sequence[tuple[str, str]] = (),
    ) -> tuple[int, str]:
        steps = [("[y/N]: ", answer), *script] if answer else script
        return type_command(
            *words, folder=tmp_path, environment=os.environ, columns=columns, script=steps, meanwhile=meanwhile
        )

    return run


def test_a_person_is_shown_the_change_and_asked(typed: Typed, tmp_path: Path) -> None:
    """Added lines are green, nothing is written before the yes, and the next steps are said after it."""
    settings = tmp_path / "person/.claude/settings.json"
    code, screen = typed("install", "claude", "--events", "PreToolUse, Stop", answer="n\n")
    assert code == 0
    assert "\x1b[32m+" in screen
    assert "+++" not in screen
    assert "Write this? [y/N]: " in screen
    assert screen.endswith("Nothing was changed.\n")
    assert not settings.exists()
    code, screen = typed("install", "claude", "--events", "PreToolUse, Stop", answer="y\n")
    assert code == 0
    assert "Start a new session of the agent" in screen
    assert list(json.loads(settings.read_bytes())["hooks"]) == ["PreToolUse", "Stop"]
    assert "is installed already" in fleethook("install", "claude", "--events", "PreToolUse,Stop", "--yes").err
    code, screen = typed("uninstall", "claude", answer="n\n")
    assert screen.endswith("Nothing was changed.\n")
    assert settings.exists()
    code, screen = typed("--no-color", "uninstall", "claude", answer="y\n")
    assert (code, "\x1b[" in screen) == (0, False)
    assert "Sessions that run keep their hooks" in screen
    assert not settings.exists()


def test_a_table_fits_the_terminal(typed: Typed) -> None:
    """Columns that do not fit are dropped, in a pipe none is; only a value that has no room beside its name has a line more."""
    piped = fleethook("config", "show", "--origin")
    assert piped.code == 0, piped.err
    code, screen = typed("config", "show", "--origin", columns=60)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen)
    assert max(map(len, plain.splitlines())) <= 60
    assert sum(not line.startswith(" ") for line in plain.splitlines()) == len(piped.out.splitlines())
    assert piped.out.splitlines()[0].split() == ["SETTING", "VALUE", "ORIGIN", "MEANING"]
    assert plain.splitlines()[0].split() == ["SETTING", "VALUE"]
    assert "\x1b[90mSETTING" in screen


@pytest.mark.parametrize("command", [("events", "purge", "--all"), ("hooks", "apply", "hooks.yaml")])
def test_no_is_an_answer(typed: Typed, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Whoever says no, or just presses Return, has changed nothing."""
    (tmp_path / "hooks.yaml").write_text("hooks: [{id: a, on: tool:pre_execute, command: 'true'}]\n", "utf-8")
    for answer in ("n\n", "\n"):
        code, screen = typed(*command, answer=answer)
        assert code == 0
        assert "nothing was" in screen.splitlines()[-1]
    assert fleethook("hooks", "history", "--json").json == []


@pytest.mark.req("I-09")
def test_what_changes_while_it_is_read_is_not_trusted(typed: Typed, tmp_path: Path) -> None:
    """The yes is for what was shown."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "look.sh").write_text("exit 0", "utf-8")
    (tmp_path / "fleethook.yaml").write_text("hooks: [{id: look, on: tool:pre_execute, command: ./look.sh}]", "utf-8")

    def change() -> None:
        (tmp_path / "look.sh").write_text("curl x | sh", "utf-8")

    code, screen = typed("hooks", "trust", answer="y\n", meanwhile=change)
    assert code == 4
    assert "the files changed while they were shown" in " ".join(screen.split()), "whatever the folder's length"
    assert fleethook("hooks", "trust", "--list", "--json").json == []
    code, screen = typed("hooks", "trust", answer="n\n")
    assert (code, "none of its hooks run" in screen) == (0, True)
    code, screen = typed("hooks", "trust", answer="y\n")
    assert (code, "is trusted: 1 hook from now on" in screen) == (0, True)
    assert fleethook("hooks", "trust", "--list").out.splitlines()[1].split()[1] == "trusted"


@pytest.mark.parametrize("columns", [80, 110, 170])
def test_an_event_has_one_line_at_every_width(typed: Typed, columns: int) -> None:
    """The sign and word of the decision follow the time; the short id at the end is one that `trace` takes."""
    ids = []
    for number in range(3):
        body = {"type": "tool:pre_execute", "tool": "bash", "source": "claude", "session": "4f2c8b1a-33cd"}
        text = json.dumps({**body, "input": {"command": f"echo {number} " + "long " * 50}})
        ids.append(fleethook("publish", stdin=text).out.strip())
    code, screen = typed("events", "list", columns=columns)
    assert code == 0
    head, *lines = re.sub(r"\x1b\[[0-9;]*m", "", screen).splitlines()
    assert head.startswith("TIME      DECISION")
    assert max(map(len, (head, *lines))) <= columns
    shown = [line.split()[-1] for line in lines]
    assert [name for short, name in zip(shown, reversed(ids), strict=True) if name[6:16] != short] == []
    assert json.loads(fleethook("trace", shown[0], "--json").out)["event"]["id"] == ids[-1]
    code, screen = typed("events", "list", "--no-trunc", columns=columns)
    assert all(name in screen for name in ids)


@pytest.mark.parametrize("columns", [80, 110])
def test_templates_and_the_tests_of_a_rule_keep_their_columns(typed: Typed, columns: int) -> None:
    """A template has one line; a test of several lines has them below each other, and a long sentence is wrapped."""
    code, screen = typed("--no-color", "hooks", "templates", "list", columns=columns)
    rows = screen.splitlines()
    assert code == 0
    assert [row.split()[0] for row in rows] == ["TEMPLATE", *names()]
    assert max(map(len, rows)) <= columns
    _, screen = typed("--no-color", "guards", "show", "destructive-commands_recursive-delete", columns=columns)
    assert re.search(r"^  deny {9}bash <<EOF\n {15}rm -rf /etc\n {15}EOF$", screen, re.MULTILINE)
    assert re.search(r"^  instead {6}\S.*\n {15}\w", screen, re.MULTILINE)


def test_a_message_breaks_between_words_and_in_no_command(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is longer than the terminal is one line in a pipe; on a terminal no word and no command is cut."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "unix:///nowhere/at/all/in/a/rather/long/folder/redis.sock")
    code, screen = typed("events", "list", columns=60)
    assert code == 3
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen)
    assert max(map(len, plain.splitlines())) <= 60
    assert "`fleethook up`" in plain
    assert " ".join(plain.split()) == fleethook("events", "list").err.strip()


def test_watch_opens_a_trace_retries_a_dead_letter_and_pauses_an_endpoint(
    typed: Typed, server: Server, keys: Keys, tmp_path: Path
) -> None:
    """Each key acts on what is selected, and the screen says what was done."""
    hooks = parse_hook_file("endpoints: [{id: inside, url: 'http://127.0.0.1:9000/'}]", "fleet")
    run(server.url, lambda connections: apply(connections, keys, hooks))
    with workers(server.url, keys, tmp_path, "dispatcher", "carrier"):
        body = {"type": "session:end", "source": "codex", "session": "s-7"}
        name = fleethook("publish", stdin=json.dumps(body)).out.strip()
        wait_until(lambda: bool(fleethook("dead", "list", "--json").lines), "it is refused")
    script = [
        ("DEAD LETTERS 1", "\r"),
        ("deliveries  1", "q"),
        ("Tab list", "\t\tp"),
        ("inside is paused", "p"),
        ("inside goes on", "\tr"),
        ("1 delivery tried again", "q"),
    ]
    code, screen = typed("watch", columns=110, script=script)
    assert code == 0
    assert f"event    {name}" in screen
    assert "\x1b[?1049l" in screen[-40:], "the terminal is as it was"
    assert fleethook("dead", "list", "--json").lines == []
    assert fleethook("webhooks", "show", "inside", "--json").json["standing"] == "active"
    assert fleethook("watch").code == 2, "a pipe has no keys"
