"""Regular expressions that are compiled at their first use: a process starts with several hundreds and needs few of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, Final, cast

_METHODS: Final = ("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, compiled when one of its methods is used; a wrong pattern raises `re.error` there.

    It has the methods and `pattern`, and is no instance of `re.Pattern`. Compiling ours takes 60 ms (X-14).
    """
    return cast("re.Pattern[AnyStr]", _Uncompiled(pattern, flags))


class _Lazy:
    """An expression and its flags; once it is compiled, its methods are those of the compiled expression."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags


class _Uncompiled(_Lazy):
    """Compiles itself at the first use of a method. Later uses of its methods are as fast as those of `re.compile`."""

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        self.__class__ = _Lazy  # type: ignore[assignment]  # a class without `__getattr__` has faster attributes
        return self.__dict__[name]
