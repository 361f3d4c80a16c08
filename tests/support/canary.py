"""What must never be called: a function that leaves a trace, for whoever tries to have it called."""

from __future__ import annotations

import os
from pathlib import Path


def touch(*_args: object, **_kwargs: object) -> None:
    """Make the file that CANARY names."""
    Path(os.environ["CANARY"]).touch()
