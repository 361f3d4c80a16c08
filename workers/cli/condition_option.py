"""`--where`: a condition in CEL that is checked before anything is read."""

from __future__ import annotations

from typing import Any, Final

import click

from bus.errors import ConditionError, ConfigError, NotBoolean


class ConditionParam(click.ParamType[str]):
    """A CEL condition; gives its text."""

    name = "CEL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; a usage error that names the place of a mistake."""
        text = str(value)
        if not text:
            return text
        from bus.events import Event
        from bus.matching.conditions import compile_condition

        try:
            condition = compile_condition(text)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        nothing = Event(type="", source="generic")
        try:
            condition({"event": nothing.facts(), "verdict": {"decision": "", "reason": ""}})
        except NotBoolean as error:
            self.fail(str(error), param, ctx)
        except ConditionError:  # this event lacks a field that others have
            pass
        return text


CONDITION: Final = ConditionParam()
