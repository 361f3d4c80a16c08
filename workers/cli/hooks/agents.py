"""`fleethook hooks agents`: what each agent's events can carry, from the tables of its dialect."""

from __future__ import annotations

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.screens.columns import wrapped_lines
from workers.cli.screens.rows import no_trunc_option


@click.command()
@click.argument("names", nargs=-1, metavar="[AGENT]...")
@click.option("--markdown", is_flag=True, help="Print the whole page docs/agents.md.")
@no_trunc_option
@common_options
@pass_fleet
def agents(fleet: Context, names: tuple[str, ...], markdown: bool, whole: bool) -> None:
    """Show which answers each agent can read: where a deny blocks, where an ask works, and what is lost.

    Events at which no answer changes anything are only in --json and --markdown.
    """
    from difflib import get_close_matches

    from bus.agents.capability_table import HEAD, about, page, record, rows
    from bus.events import SOURCES, source_name

    chosen = tuple(dict.fromkeys(map(source_name, names))) or SOURCES
    unknown = [name for name in chosen if name not in SOURCES]
    if unknown:
        near = get_close_matches(unknown[0], SOURCES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SOURCES)}"
        raise click.UsageError(f"no agent is called {unknown[0]!r}; {hint}")
    if fleet.json:
        fleet.data({"agents": [record(name) for name in chosen]})
    elif markdown:
        fleet.data(page(chosen))
    else:
        for number, name in enumerate(chosen):
            fleet.data(("\n" if number else "") + wrapped_lines([fleet.style(about(name), "cyan")]))
            fleet.table(HEAD, rows(name), whole=whole)
