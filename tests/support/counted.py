"""Runs a hook command and counts its lines: `python -I counted.py DATA_FILE LAUNCHER WORDS…`, the rest as it always is.

Agents start the shim with `-I -S`, where no start-up file of coverage's is read, and it ends without tidying up.
"""

from __future__ import annotations

import os
import posix
import runpy
import sys
from pathlib import Path

import coverage


def main(data: str, words: list[str]) -> None:
    """Be the launcher; what was counted is saved in its last moment."""
    counter = coverage.Coverage(
        data_file=data, data_suffix=True, branch=True, config_file=False, source=[str(Path(words[0]).parent)]
    )
    really, process = posix._exit, os.getpid()

    def end(status: int) -> None:
        if os.getpid() == process:  # the fork that leaves a drainer behind holds nothing of ours
            counter.stop()
            counter.save()
        really(status)

    posix._exit = end  # type: ignore[assignment]  # it returns as little as the real one
    sys.argv = words
    counter.start()
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
