"""`fleethook watch`: a full-screen view of events, held calls, sessions, endpoints and dead letters, with keys to act."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import sys
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.formatting import short
from workers.cli.screens.rows import short_id
from workers.cli.screens.watch import View, frame
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.approvals.decisions import Verb
    from workers.approvals.questions import Question

_REFRESH_SECONDS: Final = 2.0
_FRAME_SECONDS: Final = 0.1
_FIRST_EVENTS: Final = 200
_MOST_DEAD: Final = 100
_MOST_QUESTIONS: Final = 100

_ARROWS: Final = {"\x1b[A": "k", "\x1b[B": "j", "\x1b[Z": "shift-tab"}


@click.command()
@common_options
@pass_fleet
def watch(fleet: Context) -> None:
    """Watch the fleet on the whole terminal: events as they happen, held calls, sessions, endpoints and dead letters.

    Keys: Tab changes the list, j and k (or arrows) move, Enter opens the trace of an event, r tries a dead letter again,
    p pauses an endpoint or lets it go on, a approves a held call and d denies it (y confirms), q ends.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("watch needs a terminal; `fleethook tail` works in a pipe, with --json too")
    with contextlib.suppress(KeyboardInterrupt), _keys_at_once():  # Ctrl-C is the usual end, and no failure
        fleet.run(lambda connections: _Watch(fleet, connections).run())


@contextlib.contextmanager
def _keys_at_once() -> Iterator[None]:
    """While this context lasts, the terminal passes each key on as it is pressed, without showing it."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


class _Watch:
    """The state that `watch` shows, and the tasks that update it."""

    def __init__(self, fleet: Context, connections: Connections) -> None:
        self.fleet, self.connections = fleet, connections
        self.view = View(namespace=fleet.settings().namespace)
        self.changed, self.ended = asyncio.Event(), asyncio.Event()
        self.actions: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Show it until q is pressed."""
        from rich.console import Console
        from rich.live import Live

        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(one) for one in (self._follow(), self._refresh())]
        ended: asyncio.Task[Any] = asyncio.create_task(self.ended.wait())
        loop.add_reader(sys.stdin.fileno(), self._pressed)
        coloured = self.fleet.style("x", "red") != "x"
        console = Console(highlight=False, no_color=not coloured)
        try:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                while not ended.done():
                    self.changed.clear()
                    size = shutil.get_terminal_size()
                    live.update(frame(self.view, size.columns, size.lines, self.fleet.plain_style), refresh=True)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self.changed.wait(), 1.0)
                    await asyncio.sleep(_FRAME_SECONDS)  # many events at once are drawn once
                    for task in tasks:
                        if task.done():
                            task.result()  # which raises why it ended
        finally:
            loop.remove_reader(sys.stdin.fileno())
            for task in (*tasks, ended, *self.actions):
                task.cancel()
            await asyncio.gather(*tasks, ended, *self.actions, return_exceptions=True)

    async def _follow(self) -> None:
        from workers.delivery.filters import Filter
        from workers.records.events import follow, read_recorded_event, recent

        keys = self.fleet.keys()
        for seen in reversed(await recent(self.connections, keys, Filter(), most=_FIRST_EVENTS)):
            self.view.add(seen)
        self.changed.set()
        async for entry in follow(self.connections, keys):
            self.view.add(read_recorded_event(entry, keys))
            self.changed.set()

    async def _refresh(self) -> None:
        from bus.errors import Unreachable

        while True:
            try:
                await self._look()
                self.view.away = ""
            except Unreachable as error:
                self.view.away = str(error)
            self.changed.set()
            await asyncio.sleep(_REFRESH_SECONDS)

    async def _look(self) -> None:
        """Read the held calls, endpoints and dead letters again."""
        from pathlib import Path

        from bus.ids import host_name
        from workers.admin.dry_run import hooks_here
        from workers.approvals.questions import waiting_questions
        from workers.cli.fleet_control.notice import stop_notice
        from workers.delivery.dead_letters import dead_letters
        from workers.delivery.deliveries import endpoint_target
        from workers.delivery.endpoint_health import list_health
        from workers.fleet_control.stops import stops_in_force

        keys = self.fleet.keys()
        here = await hooks_here(self.connections, keys, self.fleet.directories(), Path.cwd())
        known = [endpoint_target(one, host_name()) for one in here.endpoints.values()]
        self.view.endpoints = await list_health(self.connections, keys, known)
        self.view.dead = await dead_letters(self.connections, keys, most=_MOST_DEAD)
        self.view.questions = await waiting_questions(self.connections, keys, _MOST_QUESTIONS)
        self.view.stopped = stop_notice(await stops_in_force(self.connections, keys))
        if self.view.panel not in self.view.panels:
            self.view.panel = "events"

    def _pressed(self) -> None:
        text = os.read(sys.stdin.fileno(), 1024).decode("utf-8", "replace")
        keys = [_ARROWS[text]] if text in _ARROWS else list(text)
        for key in keys:
            self._press(key)
        self.changed.set()

    def _press(self, key: str) -> None:
        view = self.view
        if view.asked is not None:
            (verb, question), view.asked, view.message = view.asked, None, ""
            if key == "y":
                self._begin(self._answer(verb, question))
        elif key in {"q", "\x1b"}:
            if view.trace:
                view.trace = []
            elif key == "q":
                self.ended.set()
        elif key in {"j", "k"}:
            view.move(1 if key == "j" else -1)
        elif key in {"\t", "shift-tab"}:
            step = 1 if key == "\t" else -1
            view.panel = view.panels[(view.panels.index(view.panel) + step) % len(view.panels)]
        elif key in {"\r", "\n"} and (event := view.selected_event()):
            self._begin(self._trace(event))
        elif key == "r" and view.panel == "dead" and (letter := view.selected_letter()):
            self._begin(self._retry(letter.id))
        elif key == "p" and view.panel == "endpoints" and (health := view.selected_endpoint()):
            self._begin(self._pause(health.target, health.endpoint, paused=health.standing == "paused"))

        elif key in {"a", "d"} and view.panel == "questions" and (held := view.selected_question()):
            verb = "approve" if key == "a" else "deny"
            view.asked = (verb, held)
            view.message = f"{verb} {short_id(held.id)}? y yes, any other key no: {short(held.summary, 400)}"

    def _begin(self, action: Coroutine[Any, Any, str]) -> None:
        task = asyncio.create_task(self._done(action))
        self.actions.add(task)
        task.add_done_callback(self.actions.discard)

    async def _done(self, action: Coroutine[Any, Any, str]) -> None:
        """Run an action, and show its error on the screen."""
        from bus.errors import FleethookError

        try:
            message = await action
            await self._look()  # the next key acts on what is there now
            self.view.message = message
        except FleethookError as error:
            self.view.message = str(error)
        self.changed.set()

    async def _trace(self, event: str) -> str:
        from workers.cli.formatting import trace_lines
        from workers.cli.screens.line_wrap import wrap
        from workers.cli.screens.waterfall import waterfall_lines
        from workers.records.trace import trace
        from workers.records.waterfall import waterfall

        found = await trace(self.connections, self.fleet.keys(), event)
        width = shutil.get_terminal_size().columns - 1
        times = waterfall_lines(waterfall(found), self.fleet.plain_style, width)
        lines = trace_lines(self.fleet, found, times)
        self.view.trace, self.view.top = [part for line in lines for part in wrap(line, width).split("\n")], 0
        return ""

    async def _retry(self, letter: str) -> str:
        from workers.delivery.dead_letters import redrive

        done = await redrive(self.connections, self.fleet.keys(), [letter])
        return f"{counted(done, 'delivery', 'deliveries')} tried again" if done else f"{letter} cannot be tried again"

    async def _answer(self, verb: Verb, question: Question) -> str:
        from bus.system.calling_agent import calling_agent
        from workers.approvals.decisions import answer
        from workers.cli.approvals.texts import person_here, result_text

        if calling_agent() is not None:
            return "an agent runs this: only a person answers a held call"
        keys = self.fleet.keys()
        person = await person_here(self.connections, keys)
        return result_text(question, await answer(self.connections, keys, question.id, verb, person), verb)

    async def _pause(self, target: str, name: str, *, paused: bool) -> str:
        from bus.system.calling_agent import calling_agent
        from workers.delivery.endpoint_controls import pause, resume

        if paused:
            await resume(self.connections, self.fleet.keys(), target)
            return f"{name} goes on; what waited is being sent"
        if calling_agent() is not None:
            return f"an agent runs this: pause {name} with `fleethook webhooks pause`, which asks a person"
        await pause(self.connections, self.fleet.keys(), target, reason="paused in watch", by=getpass.getuser())
        return f"{name} is paused: its deliveries wait; p lets it go on"
