"""A table of small cases as one test: each case is tried, and every one that fails is named with its values.

A test of its own costs pytest 2.5 ms of a core for each case, often ten times as long as the case. What needs a fixture of its
own in each case, or awaits something, is a matter for `pytest.mark.parametrize`.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., None])
Ids = Iterable[object] | Callable[[Any], object] | None

_MOST_SHOWN = 20
"""How many failures are shown whole; the others are named."""
_LONGEST_NAME = 200


def rows(names: str | Sequence[str], values: Iterable[Any], ids: Ids = None) -> Callable[[F], F]:
    """As `pytest.mark.parametrize`, but all cases are one test, which fails with a list of those that fail."""
    words = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_values(case, len(words)) for case in values]
    named = ids if ids is None or callable(ids) else list(ids)
    assert cases, "a table without cases proves nothing"
    assert not isinstance(named, list) or len(named) == len(cases), "each case has a name"

    def decorate(test: F) -> F:
        assert not inspect.iscoroutinefunction(test), "nothing here awaits a test"

        @wraps(test)
        def every(*args: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            failed: list[tuple[str, BaseException]] = []
            for place, (given, name) in enumerate(cases):
                try:
                    test(*args, **dict(zip(words, given, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  (whatever it is, the case has failed)
                    said = name or (named[place] if isinstance(named, list) else _name(given, named))
                    failed.append((f"{test.__name__}[{said}]", error))
            if failed:
                raise AssertionError(_told(failed, len(cases)))

        signature = inspect.signature(test)
        left = [given for name, given in signature.parameters.items() if name not in words]
        assert len(left) == len(signature.parameters) - len(words), f"{test.__name__} takes {words}"
        every.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # what pytest reads
        return every  # type: ignore[return-value]  # without the parameters of the cases

    return decorate


def _values(case: Any, count: int) -> tuple[tuple[Any, ...], object]:
    """The values of a case, and its name where `pytest.param` gives one."""
    if hasattr(case, "marks"):
        assert not case.marks, "a case of a table has no marks of its own"
        return tuple(case.values), case.id
    return ((case,) if count == 1 else tuple(case)), None


def _name(given: Sequence[Any], ids: Callable[[Any], object] | None) -> str:
    said = "-".join(str((ids(value) if ids else None) or repr(value)) for value in given)
    return said if len(said) <= _LONGEST_NAME else f"{said[:_LONGEST_NAME]}…"


def _told(failed: Sequence[tuple[str, BaseException]], count: int) -> str:
    """The failures in words: each with its case, and the first ones with the place and the values."""
    shown = [f"{name}\n{''.join(traceback.format_exception(_below(error)))}" for name, error in failed[:_MOST_SHOWN]]
    more = [f"{name}: {str(error)[:_LONGEST_NAME]}" for name, error in failed[_MOST_SHOWN:]]
    return "\n".join([f"{len(failed)} of {count} cases failed:", *shown, *more])


def _below(error: BaseException) -> BaseException:
    """The failure with its traceback from the test on, without the loop around it."""
    return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
