"""The format of one entry of `plugins:` in fleethook.yaml."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bus.config.field_types import EnvName, Seconds, Text
from bus.verdicts import Policy


class PluginEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one Python plugin is used."""

    enabled: Annotated[bool, Meta(description="`false` keeps the entry and loads nothing.", examples=[False])] = True
    path: Annotated[
        Text,
        Meta(
            description="The plugin's file, relative to this file; without it, the plugin is found by its name.",
            examples=["./plugins/guardian.py"],
        ),
    ] = ""
    config: Annotated[
        dict[str, Any],
        Meta(
            description="What `on_load` gets, checked against the plugin's own schema.", examples=[{"checks": ["ruff"]}]
        ),
    ] = msgspec.field(default_factory=dict)
    timeout: Annotated[
        Seconds, Meta(description="Seconds after which a call of a handler counts as failed.", examples=[2.5])
    ] = 10.0
    on_failure: Annotated[
        Policy | None,
        Meta(
            description="The decision when a handler fails, or the plugin is not running. Without it, the file's "
            "`on_failure` counts, then the setting of that name.",
            examples=["deny"],
        ),
    ] = None
    observe: Annotated[
        bool, Meta(description="Record what its handlers would have decided, and decide nothing.", examples=[True])
    ] = False
    env_pass: Annotated[
        list[EnvName],
        Meta(
            description="Variables of the worker's environment that the plugin gets. Without it, it gets only harmless ones "
            "such as PATH, HOME and LANG.",
            examples=[["SLACK_TOKEN"]],
        ),
    ] = msgspec.field(default_factory=list)
    memory: Annotated[
        int,
        Meta(
            ge=64,
            le=65_536,
            description="MiB that the plugin's process may use; above it, it is ended.",
            examples=[256],
        ),
    ] = 512
