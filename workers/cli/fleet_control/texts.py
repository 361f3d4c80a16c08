"""Stops on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from workers.cli.common import Context
from workers.cli.formatting import plain, when
from workers.fleet_control.messages import Message
from workers.fleet_control.reach import AgentOnHost, Missing, ReachedAgents
from workers.fleet_control.stops import ActiveStop, StopChange
from workers.runtime.wording import counted

_MOST_PLACES: Final = 20


def stop_text(stop: ActiveStop) -> str:
    """A stop in force in one line."""
    scope = f"where {stop.where}" if stop.where else "every agent"
    why = f": {stop.reason}" if stop.reason else ""
    return plain(f"{stop.id}  {scope}, since {when(stop.at)}, by {stop.by}{why}", 600)


def show_placed(fleet: Context, stop: ActiveStop, reached: ReachedAgents) -> None:
    """Print what a stop does, and which hosts have not got it yet."""
    if fleet.json:
        places = msgspec.to_builtins(reached.not_reached)
        fleet.data({"stop": msgspec.to_builtins(stop), "not_reached": places, "evaluator": reached.evaluator})
        return
    fleet.data(stop_text(stop))
    when_denied = "from now on" if reached.evaluator else "as soon as an evaluator runs"
    fleet.say(f"Prompts, tool calls and permission questions are denied {when_denied}. `fleethook resume` lifts it.")
    _say_places(fleet, reached)


def show_lifted(fleet: Context, lifted: Sequence[ActiveStop], reached: ReachedAgents) -> None:
    """Print which stops were lifted, and which hosts have not heard of it yet."""
    if fleet.json:
        fleet.data({"lifted": [stop.id for stop in lifted], "kept": msgspec.to_builtins(reached.kept)})
    else:
        for stop in lifted:
            fleet.data(stop_text(stop))
        fleet.say(f"{counted(len(lifted), 'stop')} lifted; agents go on." if lifted else "No stop was in force.")
        _say_places(fleet, reached)


def show_stops(fleet: Context, reached: ReachedAgents, history: Sequence[StopChange]) -> None:
    """Print the stops in force, which hosts they have not reached, and the last changes."""
    if fleet.json:
        fleet.data({**msgspec.to_builtins(reached), "history": msgspec.to_builtins(history)})
        return
    for stop in reached.stops:
        fleet.data(stop_text(stop))
    if not reached.stops:
        fleet.say("No stop is in force.")
    _say_places(fleet, reached)
    for change in history:
        scope = f", where {change.where}" if change.where else ""
        why = f": {change.reason}" if change.reason else ""
        names = ", ".join(change.stops)
        fleet.say(plain(f"{when(change.at)}  {change.what} {names} by {change.by}{scope}{why}", 600))


def _say_places(fleet: Context, reached: ReachedAgents) -> None:
    if reached.stops and not reached.evaluator:
        fleet.say(
            "No evaluator runs: until one does, only gateways and the hosts that keep the stop deny by it. `fleethook status` "
            "says what is missing."
        )
    if reached.not_reached:
        fleet.say(
            f"Not reached yet: {_missing(reached.not_reached)}. Their next call is denied; while they cannot reach the fleet, "
            "their failure policy decides."
        )
    if reached.kept:
        fleet.say(
            f"Still kept for an outage: {_names(reached.kept)}. Their next call that reaches the fleet lifts the stop there."
        )


def _missing(places: Sequence[Missing]) -> str:
    shown = ", ".join(f"{one.source} on {one.host} (last event {when(one.last)})" for one in places[:_MOST_PLACES])
    more = len(places) - _MOST_PLACES
    return plain(f"{shown} and {more} more" if more > 0 else shown, 2000)


def _names(places: Sequence[AgentOnHost]) -> str:
    shown = ", ".join(f"{place.source} on {place.host}" for place in places[:_MOST_PLACES])
    more = len(places) - _MOST_PLACES
    return plain(f"{shown} and {more} more" if more > 0 else shown, 2000)


def message_lines(message: Message) -> list[str]:
    """A message, and what came of it for each session."""
    got = sum(bool(one.event) for one in message.to)
    lines = [plain(f"{message.id}  {when(message.at)}  by {message.by}: {message.text}", 600)]
    lines.append(f"  {got} of {counted(len(message.to), 'session')} got it" if message.to else "  it is for nobody")
    for one in message.to[:_MOST_PLACES]:
        state = f"got it {when(one.at)} with {one.event}" if one.event else "waits for an event that can carry it"
        lines.append("  " + plain(f"{one.session}  {one.source} on {one.host}: {state}", 600))
    if len(message.to) > _MOST_PLACES:
        lines.append(f"  and {counted(len(message.to) - _MOST_PLACES, 'more session')}")
    why = "cannot get it: its agent has no event that carries a text to the model"
    return lines + ["  " + plain(f"{one.session}  {one.source}: {why}", 600) for one in message.cannot[:_MOST_PLACES]]
