"""The supervisor of `fleethook up` gives back the pages of libraries that only their import needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bus.system.library_pages import unchanged

MAPPINGS = """\
7f0000000000-7f0000002000 r--p 00000000 fe:00 260850                     /usr/lib/libone.so.3
Rss:                   8 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me sd
7f0000002000-7f0000006000 r-xp 00002000 fe:00 260850                     /usr/lib/libone.so.3
Rss:                  16 kB
Anonymous:             0 kB
KSM:                   0 kB
Swap:                  0 kB
"""
OTHERS = """\
7f0000006000-7f0000007000 r--p 00006000 fe:00 260850                     /usr/lib/libone.so.3
Rss:                   4 kB
Anonymous:             4 kB
Swap:                  0 kB
7f0000007000-7f0000008000 r--p 00007000 fe:00 260850                     /usr/lib/libone.so.3
Rss:                   0 kB
Anonymous:             0 kB
Swap:                  4 kB
7f0000008000-7f0000009000 rw-p 00008000 fe:00 260850                     /usr/lib/libone.so.3
Anonymous:             0 kB
Swap:                  0 kB
7f0000009000-7f000000a000 r--p 00000000 00:00 0                          [heap]
Anonymous:             0 kB
Swap:                  0 kB
7f000000a000-7f000000b000 r--s 00000000 fe:00 26085                      /usr/lib/gconv/gconv-modules.cache
Anonymous:             0 kB
Swap:                  0 kB
"""
PROGRAM = """
import hashlib, ssl
from bus.system.library_pages import release_library_pages

def mapped():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssFile:"))

before, digest = mapped(), hashlib.sha256(b"text").hexdigest()
release_library_pages()
after = mapped()
assert hashlib.sha256(b"text").hexdigest() == digest
ssl.create_default_context()
print(before, after)
"""


def test_only_what_is_as_in_the_file_is_given_back() -> None:
    assert unchanged(MAPPINGS + OTHERS) == [(0x7F0000000000, 0x7F0000002000), (0x7F0000002000, 0x7F0000006000)]
    assert unchanged(OTHERS) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is given back")
def test_a_program_goes_on_without_those_pages() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < before
