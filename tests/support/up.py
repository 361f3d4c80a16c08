"""`fleethook up` for a script or a test session: it ends with what started it, however that ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from workers.runtime.lifeline import VARIABLE, lifeline

ROOT = Path(__file__).parents[2]
READY_SECONDS = 60


@contextmanager
def up(environment: Mapping[str, str], folder: Path, log: Path) -> Iterator[None]:
    """Run `fleethook up` in `folder`, ready, until the block ends; its output goes to `log`.

    Should this process be killed in between, the kernel closes the lifeline and everything that runs ends by itself.
    """
    own = {**environment, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-m", "workers"]
    with lifeline() as held, log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "up"],
            cwd=folder,
            env={**own, VARIABLE: str(held)},
            pass_fds=(held,),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for us: we end it in order
        )
        try:
            waits = [*command, "status", "--wait", str(READY_SECONDS)]
            status = subprocess.run(waits, cwd=folder, env=own, capture_output=True, text=True, check=False)
            if status.returncode:
                raise RuntimeError(f"`fleethook up` is not ready: {status.stderr}\n{log.read_text('utf-8')}")
            yield
        finally:
            process.terminate()
            process.wait()
