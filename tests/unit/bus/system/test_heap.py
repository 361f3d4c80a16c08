"""Freed memory goes back to the kernel, also from the middle of the heap."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import re
from bus.system.heap import release_heap

def kilobytes():
    return int(re.search(r"Anonymous: +([0-9]+)", open("/proc/self/smaps_rollup").read())[1])

blocks = [bytes(5_000) for _ in range(8_000)]
kept = blocks[::100]
before = kilobytes()
del blocks
freed = kilobytes()
release_heap()
print(before, freed, kilobytes())
"""


@pytest.mark.req("X-14")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such call")
def test_pages_between_objects_that_are_kept_go_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    before, freed, after = map(int, done.stdout.split())
    assert freed > before - 10_000, "the C library keeps them"
    assert after < before - 30_000, "of 40 MB"
