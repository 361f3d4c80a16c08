"""One exact call of a tool: the same tool, input and folder. Decides whether an event is that call (X-03)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from bus.events import Event

_WORDS_ONLY: Final = {"bash": frozenset({"description"})}
"""Fields in which the model only describes a call, by tool: they may differ in the same call."""


class ExactCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One call of a tool. Nothing in it is a pattern."""

    tool: Annotated[str, Meta(min_length=1, max_length=200, description="The tool's name.", examples=["bash"])]
    input: Annotated[
        dict[str, Any],
        Meta(
            description="The whole input in canonical names. Only the `description` of a bash command may differ.",
            examples=[{"command": "make deploy"}],
        ),
    ]
    cwd: Annotated[str, Meta(max_length=4096, description="The folder that it runs in.", examples=["/srv/shop"])]
    source: Annotated[
        str, Meta(max_length=64, description="The agent; without it, every agent.", examples=["claude"])
    ] = ""
    host: Annotated[
        str, Meta(max_length=255, description="The machine; without it, every machine.", examples=["build-1"])
    ] = ""

    def fits(self, event: Event) -> bool:
        """Whether an event is about this call."""
        return (
            self.tool == event.tool
            and self.cwd == event.cwd
            and self.source in {"", event.source}
            and self.host in {"", event.host}
            and input_text(self.tool, self.input) == input_text(event.tool, event.input)
        )


def call_input(tool: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """An input without the fields in which the model only describes the call."""
    described = _WORDS_ONLY.get(tool, frozenset())
    return {name: value for name, value in fields.items() if name not in described}


def input_text(tool: str, fields: Mapping[str, Any]) -> str:
    """An input as one text that is the same for the same input, whatever the order of its fields."""
    return json.dumps(call_input(tool, fields), sort_keys=True, default=repr)
