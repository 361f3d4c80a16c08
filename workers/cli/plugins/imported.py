"""The rows of plugins of pigo, Claude Code and ion in `plugins list`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from workers.admin.plugins import Listed

IMPORTED_COLUMNS: Final = ("PLUGIN", "ENABLED", "HOOKS", "DIALECT", "LAYER", "VERSION", "COMMANDS", "SKILLS", "FROM")


def imported_rows(plugins: Iterable[Listed]) -> list[tuple[object, ...]]:
    """A row for each plugin of an imported hook file."""
    from workers.cli.formatting import plain
    from workers.cli.hooks.listing import short_origin

    return [
        (
            plain(plugin.name),
            "yes" if plugin.enabled else "no",
            plugin.hooks,
            plugin.dialect,
            plugin.layer,
            plugin.version or "-",
            plain(", ".join(plugin.commands)) or "-",
            plain(", ".join(plugin.skills)) or "-",
            short_origin(plugin.origin) or "-",
        )
        for plugin in plugins
    ]
