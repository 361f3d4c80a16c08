"""`fleethook worker`: one process, as a Procfile line starts it."""

from __future__ import annotations

from typing import Final

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet

KINDS: Final = {
    "evaluator": "Answer requests: run their blocking hooks and give verdicts.",
    "dispatcher": "Turn events into deliveries; start carriers; one is active, others stand by.",
    "host": "Answer for the user's and projects' hooks of this machine, where the evaluators run elsewhere.",
    "carrier": "Carry deliveries: background commands and webhooks (an RQ worker).",
    "chores": "Trim, sweep, retry and replay (an RQ worker).",
}


@click.group(cls=LazyGroup)
def worker() -> None:
    """Run one process until SIGTERM, as a Procfile line does; `fleethook up` starts all of them."""


def _command(kind: str, text: str) -> click.Command:
    @click.command(kind, help=text)
    @common_options
    @pass_fleet
    def run(fleet: Context) -> None:
        from workers.lifeline import die_with_parent

        die_with_parent()  # before the settings are read: its variable is none of them
        from workers.roles import run_role

        run_role(kind, fleet.settings())

    return run


for _kind, _text in KINDS.items():
    worker.add_command(_command(_kind, _text))
