"""Lets plain handlers run event loops of their own, although they are called while the process's loop runs.

In Gobby, handlers were called without a running loop, so they may use `asyncio.run` or a new loop. While one runs, the
process's own loop stands still, as it does for any plain handler.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


@contextmanager
def loops_inside() -> Iterator[None]:
    """A context in which `asyncio.run` and `run_until_complete` of another loop also work while a loop runs."""
    run, until_complete = asyncio.run, asyncio.BaseEventLoop.run_until_complete
    changed: Any = asyncio.BaseEventLoop
    asyncio.run, changed.run_until_complete = _standing_still(run), _standing_still(until_complete)
    try:
        yield
    finally:
        asyncio.run, changed.run_until_complete = run, until_complete


def _standing_still(run: Callable[_P, _T]) -> Callable[_P, _T]:
    @functools.wraps(run)
    def runs(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        outer = asyncio._get_running_loop()  # noqa: SLF001 - documented for those who write event loops
        if outer is None or outer in args:
            return run(*args, **kwargs)
        asyncio._set_running_loop(None)  # noqa: SLF001 - as above
        try:
            return run(*args, **kwargs)
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001 - as above

    return runs
