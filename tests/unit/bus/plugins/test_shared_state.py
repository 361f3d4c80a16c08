"""What the processes of a plugin share: counts that are not lost, and bounds."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bus.errors import ConfigError
from bus.plugins import shared_state
from bus.plugins.shared_state import SharedState
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.req("G-11")


def test_no_count_of_several_processes_is_lost(tmp_path: Path) -> None:
    file = str(tmp_path / "state.sqlite")
    stores = [SharedState(file) for _ in range(4)]

    def count(store: SharedState) -> None:
        for _ in range(50):
            store.add("calls")

    threads = [threading.Thread(target=count, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert SharedState(file)["calls"] == 200
    assert (tmp_path / "state.sqlite").stat().st_mode & 0o077 == 0, "only the user reads it"


def test_it_is_a_mapping_of_plain_values_with_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SharedState()
    store["seen"] = ["a"]
    assert store.change("seen", lambda seen: [*seen, "b"]) == ["a", "b"]
    assert (store.get("none", 1), len(store), dict(store)) == (1, 1, {"seen": ["a", "b"]})
    with pytest.raises(ZeroDivisionError):
        store.change("seen", lambda _: 1 / 0)
    assert store.pop("seen") == ["a", "b"], "a change that fails changes nothing"
    with pytest.raises(KeyError):
        del store["seen"]
    with pytest.raises(ConfigError, match="is the most"):
        store["long"] = "x" * 70_000
    monkeypatch.setattr(shared_state, "MOST_KEYS", 50)
    for number in range(200):
        store[f"k{number:03}"] = number
    assert list(store)[-1] == "k199"
    assert "k000" not in store, "those that were changed longest ago are gone"
    assert len(store) < 150, "it is looked at once in 100 writes"
    store.clear()
    assert not store
