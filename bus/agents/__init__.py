"""One file for each dialect: it reads an agent's payloads as events, and writes verdicts as that agent's own answers."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import cast

from bus.agents.base import AgentDialect
from bus.events import SOURCES, source_name


def find(source: str) -> AgentDialect:
    """The dialect of an agent, by any spelling of its name; the generic dialect if it has none of its own."""
    name = source_name(source)
    return _dialect(name if name in SOURCES else "generic")


@cache
def _dialect(name: str) -> AgentDialect:
    known = importlib.util.find_spec(f"bus.agents.{name}") is not None
    return cast("AgentDialect", importlib.import_module(f"bus.agents.{name if known else 'generic'}").DIALECT)
