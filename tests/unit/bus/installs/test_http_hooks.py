"""Hooks of type `http` in the files of the agents that have them (issue 12, item 1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus import installs
from bus.errors import ConfigError
from bus.installs.base import InstallScope
from bus.installs.hook_command import Setup
from bus.installs.http_hooks import HttpHooks, read_handler
from bus.installs.manifest import apply, undo
from bus.installs.plan import events_for, installed, plan_install, plan_uninstall

pytestmark = pytest.mark.req("B-08", "G-02")

LOCAL = HttpHooks("http://127.0.0.1:4665")
REMOTE = HttpHooks("https://gateway.example", "laptop-7")
FILES = {
    "claude": ".claude/settings.json",
    "qwen": ".qwen/settings.json",
    "copilot": ".copilot/hooks/fleethook.json",
}
CLAUDE_STAYS = {"SessionStart", "Setup", "TaskCompleted", "TeammateIdle"}


class Home:
    """One person's machine."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / "state"
        self.where = InstallScope(root / "home", root / "project", {}, root / "machine")
        for folder in ("home", "project"):
            (root / folder).mkdir()

    def plan(self, agent: str, http: HttpHooks | None, *, closed: bool = False, events: list[str] | None = None) -> Any:
        setup = Setup("/usr/bin/python", "/answers", events_for(agent, events), closed, http=http)
        return plan_install(agent, "user", self.where, setup)

    def install(self, agent: str, http: HttpHooks | None, **more: Any) -> dict[str, list[dict[str, Any]]]:
        """Our handlers by event, after the install."""
        apply(self.plan(agent, http, **more), self.state)
        hooks = json.loads((self.root / "home" / FILES[agent]).read_text())["hooks"]
        return {
            event: [one for group in groups for one in group.get("hooks", [group])] for event, groups in hooks.items()
        }

    def put(self, path: str, value: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("agent", FILES)
def test_the_hooks_post_to_the_gateway_with_a_token_from_the_environment(home: Home, agent: str) -> None:
    hooks = home.install(agent, REMOTE)
    for event, (handler,) in hooks.items():
        if agent == "claude" and event in CLAUDE_STAYS:
            assert handler["type"] == "command"
            continue
        assert handler["type"] == "http"
        assert handler["url"] == f"https://gateway.example/v1/hooks/{agent}/{event}"
        assert handler["headers"]["Authorization"] == "Bearer $FLEETHOOK_TOKEN"
        assert handler["headers"]["Fleethook-Host"] == "laptop-7"
        assert (handler["headers"]["traceparent"], handler["headers"]["tracestate"]) == ("$TRACEPARENT", "$TRACESTATE")
        assert {"FLEETHOOK_TOKEN", "TRACEPARENT", "TRACESTATE"} <= set(handler["allowedEnvVars"])
        assert "onFailure" not in handler
        assert 0 < handler.get("timeout", handler.get("timeoutSec", 0)) <= 600, "seconds, in all three"
    assert (CLAUDE_STAYS & hooks.keys() == CLAUDE_STAYS) is (agent == "claude")


@pytest.mark.parametrize("agent", FILES)
def test_hooks_that_fail_closed_say_so_in_the_url_and_by_the_agents_own_option(home: Home, agent: str) -> None:
    hooks = home.install(agent, REMOTE, closed=True)
    pre_tool = "preToolUse" if agent == "copilot" else "PreToolUse"
    stop = "agentStop" if agent == "copilot" else "Stop"
    assert hooks[pre_tool][0]["url"].endswith(f"/{pre_tool}?on_failure=deny")
    assert hooks[pre_tool][0].get("onFailure") == ("block" if agent == "claude" else None)
    assert hooks[stop][0]["url"].endswith(f"/{stop}")
    plan = home.plan(agent, REMOTE, closed=True)
    assert plan.changes == (), "a second install changes nothing"
    assert ("no failure option" in str(plan.warnings)) is (agent != "claude")


@pytest.mark.parametrize("agent", FILES)
def test_an_install_is_read_back_and_taken_back_to_the_byte(home: Home, agent: str) -> None:
    path = home.root / "home" / FILES[agent]
    mine = {"hooks": {"Stop": [{"type": "http", "url": "https://mine.example/v1/hooks/x", "headers": {}}]}}
    home.put(
        f"home/{FILES[agent]}", mine if agent == "copilot" else {"hooks": {"Stop": [{"hooks": mine["hooks"]["Stop"]}]}}
    )
    before = path.read_bytes()
    home.install(agent, REMOTE, closed=True)
    ((_, file, calls),) = installed(agent, home.where)
    assert file == path.resolve()
    by_http = [call for call in calls if call.url]
    assert {call.http for call in by_http} == {REMOTE}
    assert all(call.seconds > 0 for call in calls)
    gates = [call for call in by_http if call.closed]
    assert gates
    assert all(call.fails_open is (agent != "claude") for call in gates)
    undo(plan_uninstall(agent, home.state, where=home.where), home.state)
    assert path.read_bytes() == before


def test_an_install_changes_commands_to_http_and_back_in_place(home: Home) -> None:
    commands = home.install("claude", None)
    by_http = home.install("claude", LOCAL)
    assert all(len(handlers) == 1 for handlers in by_http.values()), "no event has two hooks of ours"
    assert by_http["PreToolUse"][0]["type"] == "http"
    assert home.install("claude", None) == commands, "without --http every hook is a command again"


@pytest.mark.parametrize(
    ("agent", "hooks", "text"),
    [
        ("codex", LOCAL, "has no hooks of type http"),
        ("cursor", LOCAL, "has no hooks of type http"),
        ("copilot", LOCAL, "sends a token only by https"),
    ],
)
def test_an_agent_that_cannot_do_it_is_refused_with_what_to_do(
    home: Home, agent: str, hooks: HttpHooks, text: str
) -> None:
    with pytest.raises(ConfigError, match=text) as raised:
        home.plan(agent, hooks)
    assert "without --http" in raised.value.hint


def test_what_stays_a_command_and_what_fails_open_is_said(home: Home) -> None:
    text = " ".join(home.plan("claude", LOCAL).warnings)
    assert "SessionStart, Setup keep command hooks: Claude Code runs no hook of type http there" in text
    assert "TaskCompleted, TeammateIdle keep command hooks" in text
    assert "--fail-closed denies" in text
    assert "not encrypted" not in text
    assert "not encrypted" in " ".join(home.plan("claude", HttpHooks("http://10.0.0.7:4665")).warnings)


@pytest.mark.parametrize(
    ("agent", "file", "settings", "text"),
    [
        (
            "claude",
            "home/.claude/settings.json",
            {"allowedHttpHookUrls": ["https://a.example/*"]},
            "does not list http",
        ),
        ("claude", "machine/etc/claude-code/managed-settings.json", {"allowedHttpHookUrls": []}, "does not list http"),
        ("claude", "project/.claude/settings.json", {"httpHookAllowedEnvVars": ["X"]}, "sends no token"),
        (
            "qwen",
            "home/.qwen/settings.json",
            {"security": {"allowedHttpHookUrls": ["https://a/*"]}},
            "does not list http",
        ),
    ],
)
def test_settings_that_keep_the_hooks_from_running_are_found(
    home: Home, agent: str, file: str, settings: dict[str, Any], text: str
) -> None:
    home.put(file, settings)
    assert text in " ".join(home.plan(agent, LOCAL).warnings)
    for name in ("allowedHttpHookUrls", "httpHookAllowedEnvVars"):
        inner = settings.get("security", settings)
        if name in inner:
            inner[name] += ["http://127.0.0.1:4665/*", "FLEETHOOK_TOKEN"]
    home.put(file, settings)
    assert text not in " ".join(home.plan(agent, LOCAL).warnings)


@pytest.mark.parametrize("agent", ["claude", "qwen"])
def test_a_private_address_may_be_refused_by_the_agent(home: Home, agent: str) -> None:
    private = HttpHooks("https://192.168.1.7")
    (found,) = installs.find(agent).http_troubles(home.where, private, [private.url(agent, "Stop", closed=False)])
    assert (found.sure, "192.168.1.7" in found.what) == (False, True)
    assert not list(installs.find(agent).http_troubles(home.where, LOCAL, []))
    home.put("home/.qwen/settings.json", {"security": {"allowPrivateNetworkHooks": True}})
    assert bool(list(installs.find(agent).http_troubles(home.where, private, []))) is (agent == "claude")


def test_the_token_may_be_in_the_settings_of_claude_code(home: Home) -> None:
    home.put("home/.claude/settings.json", {"env": {"FLEETHOOK_TOKEN": "fht_weak"}})
    home.put("project/.claude/settings.local.json", {"env": {"FLEETHOOK_TOKEN": "fht_strong"}})
    assert installs.find("claude").variables(home.where)["FLEETHOOK_TOKEN"] == "fht_strong"


@pytest.mark.parametrize(
    "handler",
    [
        {"type": "http", "url": "https://x/v1/hooks/claude/Stop", "headers": {"Authorization": "Bearer abc"}},
        {"type": "http", "url": "https://x/other", "headers": {"Authorization": "Bearer $FLEETHOOK_TOKEN"}},
        {"type": "http", "url": 7, "headers": {"Authorization": "Bearer $FLEETHOOK_TOKEN"}},
        {"type": "command", "command": "x # fleethook"},
        {"type": "http", "url": "https://x/v1/hooks/claude/Stop", "headers": ["$FLEETHOOK_TOKEN"]},
    ],
)
def test_other_handlers_are_not_ours(handler: dict[str, Any]) -> None:
    assert read_handler(handler) is None


def test_no_settings_file_has_a_secret(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_TOKEN", "fht_canary_secret")
    for agent, path in FILES.items():
        home.install(agent, REMOTE)
        text = (home.root / "home" / path).read_text()
        assert "canary" not in text
