"""Doctor on a machine where a program's events wait on the disk: it names them, and `--fix` sends them (B11, B12)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace
from tests.support.servers import Server

pytestmark = pytest.mark.req("X-10")

EVENT = json.dumps({"type": "turn:end", "session": "s"})


def test_events_of_programs_that_wait_are_named_and_sent(
    server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url.replace("unix://", "unix://nobody:wrong@"))
    for _ in range(3):
        fleethook("publish", stdin=EVENT)

    def spool() -> list[str]:
        return [one["what"] for one in fleethook("doctor", "--json").json["checks"] if one["id"] == "spool"]

    (away,) = spool()
    assert away.startswith("of programs (`Bus`, `fleethook publish`) 3 events wait on this disk")
    assert "still wait: redis refused the credentials" in fleethook("doctor", "--fix").err
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    assert len(spool()) == 1
    assert "fixed: sent 3 events that waited for programs" in fleethook("doctor", "--fix").err
    assert spool() == []
    assert len(fleethook("events", "list", "--json").out.splitlines()) >= 1
