"""The end of a process is noticed by a descriptor, also with builds of Python that do not know of it."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

from bus.system.pidfd import open_pidfd
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are none")


@pytest.mark.req("X-14")
@pytest.mark.parametrize("known", [True, False], ids=["Python knows of it", "a portable build"])
def test_a_process_that_ends_is_noticed(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv's builds of Python for Linux have no `os.pidfd_open`: `up` did not start with them."""
    if not known:
        monkeypatch.delattr(os, "pidfd_open")
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    fd = open_pidfd(process.pid)
    try:
        assert fd >= 0
        assert not os.get_inheritable(fd)
        assert not select.select([fd], [], [], 0)[0]
        process.kill()
        assert select.select([fd], [], [], PATIENCE)[0]
    finally:
        os.close(fd)
        process.communicate()
    assert open_pidfd(process.pid) == -1, "it has been waited for"
