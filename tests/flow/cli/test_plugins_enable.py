"""`plugins enable` on the command line, beside an evaluator that loads what it enables."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, workers
from tests.support.plugins import DENIES, plugin
from tests.support.servers import Server


@pytest.mark.req("G-13", "G-17")
def test_enabling_says_whether_workers_run_the_plugin(
    server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A plugin that no worker can load is enabled and exits with 5, so that a script does not count on it."""
    home = tmp_path / "home"
    for name, value in (
        ("FLEETHOOK_REDIS_URL", server.url), ("FLEETHOOK_NAMESPACE", namespace(keys)), ("FLEETHOOK_HOME", str(home)),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    folder = home / "config" / "plugins"
    folder.mkdir(parents=True)
    (folder / "good.py").write_text(plugin(DENIES, "good"))
    (folder / "bad.py").write_text(plugin("def on_load(self, config):\n    raise RuntimeError('no database')\n", "bad"))
    with workers(server.url, keys, home, "evaluator"):
        good = fleethook("plugins", "enable", "good", "--yes")
        assert good.code == 0, good.err
        assert "good runs in 1 worker" in good.out
        bad = fleethook("plugins", "enable", "bad", "--yes")
        assert bad.code == 5, bad.err
        assert "bad is on, and no worker can load it: RuntimeError: no database (" in bad.err
