"""Which ports and broadcasts a gateway reads from Gobby's configuration, and when it listens on those ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.config.settings import Settings
from bus.hooksets.hookfile import load_hook_file
from bus.hooksets.layers import Layered
from workers.gateway.gobby.config import BROADCAST, GobbyConfig, gobby_config

pytestmark = pytest.mark.req("G-05", "G-23")

DEFAULTS = Settings()


def config(folder: Path, text: str, *, bootstrap: str = "", settings: Settings = DEFAULTS) -> GobbyConfig | None:
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    if bootstrap:
        (folder / "bootstrap.yaml").write_text(bootstrap, encoding="utf-8")
    own = folder / "fleethook.yaml"
    own.write_text("import: [{path: config.yaml, dialect: gobby}]\n", encoding="utf-8")
    return gobby_config(settings, [Layered("user", "1", load_hook_file(own, "user"))])


def test_the_ports_are_those_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WS", "8799")
    text = "daemon_port: 8765\nwebsocket: {enabled: true, port: '${WS:-1}'}\n"
    found = config(tmp_path, text)
    assert found is not None
    assert (found.port, found.websocket_port, found.broadcast_events) == (8765, 8799, BROADCAST)
    later = config(tmp_path, text, bootstrap="daemon_port: 60999\n")
    assert later is not None
    assert later.port == 60999, "Gobby's last releases read bootstrap.yaml"
    mine = config(tmp_path, text, settings=Settings(gobby_port=1234, gobby_websocket_port=1235))
    assert mine is not None
    assert (mine.port, mine.websocket_port) == (1234, 1235)


def test_without_ports_they_are_gobbys_own_and_a_websocket_can_be_off(tmp_path: Path) -> None:
    bare = config(tmp_path, "hook_extensions: {}\n")
    assert bare is not None
    assert (bare.port, bare.websocket_port, bare.include_payload) == (60887, 60888, True)
    off = config(tmp_path, "hook_extensions: {websocket: {enabled: false}}\n")
    assert off is not None
    assert off.websocket_port == 0
    chosen = config(tmp_path, "hook_extensions: {websocket: {broadcast_events: [stop], include_payload: false}}\n")
    assert chosen is not None
    assert (chosen.broadcast_events, chosen.include_payload) == (("stop",), False)


def test_it_is_on_where_something_of_gobby_is_imported(tmp_path: Path) -> None:
    assert gobby_config(Settings(), []) is None
    assert gobby_config(Settings(gobby="on"), []) == GobbyConfig()
    assert config(tmp_path, "daemon_port: 8765\n", settings=Settings(gobby="off")) is None
    broken = config(tmp_path, "daemon_port: [\n")
    assert broken is None or broken.port == 60887, "a file that cannot be read raises nothing"


def test_the_pings_are_those_of_the_configuration(tmp_path: Path) -> None:
    for text, wanted in (
        ("websocket: {ping_interval: 5, ping_timeout: 2.5}\n", (5.0, 2.5)),
        ("websocket: {ping_interval: 0, ping_timeout: often}\n", (30.0, 10.0)),
    ):
        found = config(tmp_path, text)
        assert found is not None
        assert (found.ping_interval, found.ping_timeout) == wanted
