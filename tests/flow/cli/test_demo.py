"""`make demo`, as somebody runs it who has never seen the project: real processes, a real server, every scene holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.reference.costs import DemoRecord

ROOT = Path(__file__).parents[3]


_LEFT_OUT = re.compile(r"\[fleethook: [^\]]*\]|killed .*|\|")


def plain(text: str) -> str:
    """The text with every number as 0, on one line, without what the README leaves out."""
    return " ".join(re.sub(r"\d+(?:[.,]\d+)*", "0", _LEFT_OUT.sub("", text)).split())


@pytest.mark.req("B-01", "B-02", "B-03", "B-05", "B-06")
def test_the_demo_shows_what_it_says_and_leaves_nothing(tmp_path: Path) -> None:
    """It exits 0 only where every scene held; nothing of it stays, not even a key of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    # No home at all: what the demo keeps, it keeps in a folder of its own.
    environment |= {"HOME": "/nonexistent", "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    environment.pop("XDG_RUNTIME_DIR", None)
    done = subprocess.run(
        [sys.executable, "-m", "workers.cli", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (ROOT / "README.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("\n```")[0]
    assert plain(page) in plain(done.stdout), "README.md shows the demo as it is, but for the figures"
    DemoRecord().add(done.stdout)  # what `make costs` reads is there
    for shown in (
        "blocked before it ran",
        "the folder is still there",
        "let through; bus time",
        "runs in the background",
        "attempts answered 503, 503, 204",
        "200 requests: 200 verdicts, 0 fallbacks",
        "400 delivered, 0 lost",
        "All five scenes passed",
    ):
        assert shown in done.stdout, done.stdout
    assert list(tmp_path.iterdir()) == []
