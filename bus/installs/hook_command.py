"""The hook command of an agent for one event, and the line of the answer file for that event."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from bus.agents import find
from bus.agents.base import AgentDialect, Capability
from bus.errors import ConfigError
from bus.events import GATES
from bus.installs.http_hooks import HttpHooks
from bus.shim import answer_file
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import EventLine
from bus.shim.native import NAME
from bus.verdicts import Policy, failed

MARK: Final = "# fleethook"
"""Every command that we install ends with this, so that we recognise our commands."""

BUDGET_S: Final = 10.0
"""The most seconds that a request may take; fewer if the agent's own timeout is short."""

LEAST_TIMEOUT_S: Final = 30.0
"""The least timeout of a hook command in the agent's settings: far below the agents' defaults of minutes."""

CLOSED: Final = "closed"
"""The mark of a command that fails closed."""

LATER: Final = "later"
"""The mark of a command that the agent does not wait for."""

GONE: Final = "fleethook is gone and this hook fails closed; install fleethook again, or remove this hook"
_OUTLIVE: Final = "trap '' TERM; "
_WHY: Final = "no verdict in time, or the bus is away"


class Setup(NamedTuple):
    """The choices from which the hook commands of one install are made."""

    python: str
    """The interpreter, by its absolute path."""
    answer_file: str
    events: tuple[str, ...]
    """The agent's own event names."""
    fail_closed: bool = False
    budget: float = BUDGET_S
    """Seconds."""
    http: HttpHooks | None = None
    """The gateway for hooks of type `http`; None: every hook is a command."""
    native: str = ""
    """The native hook command (`bus/shim/native`), which is called in front of the interpreter; empty: there is none."""
    later: frozenset[str] = frozenset()
    """The events that the agent announces without waiting for the hook command."""


def default_events(dialect: AgentDialect, quiet: Iterable[str] = ()) -> tuple[str, ...]:
    """The events that are subscribed by default: all except the `quiet` ones."""
    return tuple(native for native in dialect.capabilities if native not in set(quiet))


def chosen_events(dialect: AgentDialect, names: Iterable[str], never: Iterable[str] = ()) -> tuple[str, ...]:
    """The agent's events that these names mean: its own names or canonical types; raises ConfigError for other names."""
    chosen: dict[str, None] = {}
    for name in names:
        meant = [native for native, can in dialect.capabilities.items() if name in (native, can.type)]
        if not meant:
            raise ConfigError(f"{dialect.name} has no event {name!r}", hint=f"it has {', '.join(dialect.capabilities)}")
        chosen |= dict.fromkeys(native for native in meant if native not in set(never))
    return tuple(chosen)


def answer_events(
    dialect: AgentDialect, events: Iterable[str], *, fail_closed: bool = False, budget: float = BUDGET_S
) -> tuple[EventLine, ...]:
    """The answer file's line of each event: request or publish, deadline, and the bytes of its fallback.

    For an event that is only published, the fallback is always the answer: nothing, or an object without an opinion.

    The deadline is the agent's own timeout minus max(0.5 s, 10 %), at most the budget. Only gates fail closed.
    """
    # Events that a later version of the agent adds are published, and answered without an opinion.
    most = max(1, int(min(budget, BUDGET_S) * 1000))
    lines = [EventLine(name="*", mode="publish", deadline_ms=most, fallback=silence(dialect.name))]
    for native in events:
        can = dialect.capabilities[native]
        policy = policy_of(can, fail_closed=fail_closed)
        lines.append(
            EventLine(
                name=native,
                mode="request" if can.waits else "publish",
                deadline_ms=deadline_ms(timeout_of(can, budget), budget),
                fallback=dialect.render(native, failed(policy, _WHY)) if can.waits else silence(dialect.name),
                policy=policy,
                patience_ms=patience_ms(dialect, can, budget),
            )
        )
    return tuple(lines)


def patience_ms(dialect: AgentDialect, can: Capability, budget: float = BUDGET_S) -> int:
    """How long the hook command may wait for a hook that declares more than the budget; 0 if that is not longer."""
    granted = granted_timeout(dialect.name, can, budget)
    longest = deadline_ms(granted, granted)
    return longest if can.waits and longest > deadline_ms(granted, budget) else 0


def granted_timeout(agent: str, can: Capability, budget: float = BUDGET_S) -> float:
    """The timeout in the agent's settings for one event's hook command: the most that the agent allows if it waits.

    An agent that trusts hooks by their content (`KEEPS_TIMEOUT` in its dialect) keeps what earlier versions wrote.
    """
    module = importlib.import_module(f"bus.agents.{find(agent).name}")
    timeout = timeout_of(can, budget)
    if not can.waits or getattr(module, "KEEPS_TIMEOUT", False):
        return timeout
    return max(timeout, can.timeout, float(getattr(module, "GRANTS", 0.0)) if can.timeout >= LEAST_TIMEOUT_S else 0.0)


def policy_of(can: Capability, *, fail_closed: bool) -> Policy:
    """The failure policy at an event: what happens without a verdict."""
    return "deny" if fail_closed and can.waits and can.type in GATES else "allow"


def timeout_of(can: Capability, budget: float = BUDGET_S) -> float:
    """The timeout in the agent's settings in seconds; the agent's own default if that is shorter."""
    return min(can.timeout, max(LEAST_TIMEOUT_S, 3 * budget))


def deadline_ms(timeout: float, budget: float = BUDGET_S) -> int:
    """The deadline of the hook command in seconds: it answers before the agent's timeout ends it."""
    return max(1, int(min(budget, timeout - max(0.5, timeout / 10)) * 1000))


def hook_command(setup: Setup, agent: str, event: str, *, deaf: bool = False) -> str:
    """The command line that an agent runs at one event, in POSIX sh.

    It first checks that interpreter and launcher exist, because the shell's exit code for a missing file would be a block for
    some agents. If they are gone, the command does nothing. A command that fails closed blocks instead and says what to do:
    by exit code 2, or by the agent's JSON if the agent is `deaf` (ignores the code at this event).

    The native hook command gets the command in Python as its words; without it, the command in Python runs. A command that the
    agent does not wait for ignores the signal with which the agent ends such commands at its own end.
    """
    dialect = find(agent)
    can = dialect.capabilities.get(event)
    closed = can is not None and policy_of(can, fail_closed=setup.fail_closed) == "deny"
    later = not closed and event in setup.later
    silent = "" if closed or can is None else silence(agent).stdout.decode("ascii")
    words = answer_file.hook_command(
        setup.python, agent, event, setup.answer_file, closed=closed, silent=silent, later=later
    )
    there = f"[ -x {shlex.quote(words[0])} ] && [ -f {shlex.quote(words[3])} ]"
    run, first = shlex.join(words), ""
    if setup.native:
        name = shlex.quote(setup.native)
        run, first = f'"$@" {run}', f"set --; [ -x {name} ] && set -- {name}; "
    if not closed:
        otherwise = f"; else {_print(silent)}" if silent else ""
        return f"{_OUTLIVE if later else ''}if {there}; then {first}exec {run}{otherwise}; fi {MARK}"
    if deaf:  # the launcher itself may end with exit code 2, so this case comes after it
        shut = dialect.render(event, failed("deny", GONE))
        call = f"{{ {first}{run}; }}" if first else run
        return f"{there} && {call} && exit 0; {_print(shut.stdout.decode('ascii'))} {MARK}"
    call = f"{{ {first}exec {run}; }}" if first else f"exec {run}"
    return f"{there} && {call}; echo {shlex.quote(GONE)} >&2; exit 2 {MARK}"


def silence(agent: str) -> HookAnswer:
    """The output of a hook command without an opinion; for most agents it is empty."""
    module = importlib.import_module(f"bus.agents.{find(agent).name}")
    said: HookAnswer = getattr(module, "SILENT", HookAnswer())
    return said


def _print(text: str) -> str:
    return f"printf %s {shlex.quote(text)}"


def is_ours(command: object) -> bool:
    """Whether a command is one that we installed."""
    return isinstance(command, str) and command.rstrip().endswith(MARK)


def is_closed(command: str) -> bool:
    """Whether a command of ours fails closed."""
    return CLOSED in {word.rstrip(";") for word in _words(command)}


def without_later(command: str) -> str:
    """A command of ours that the agent does not wait for, as it is where the agent waits."""
    return command.removeprefix(_OUTLIVE).replace(f" {LATER};", ";", 1)


def native_path(command: str) -> str:
    """The native hook command in a command of ours; empty if it runs in Python."""
    return next((word for word in _words(command) if word.rpartition("/")[2] == NAME), "")


@lru_cache(maxsize=256)
def _words(command: str) -> tuple[str, ...]:
    """The words of a command of ours; none where the user has changed it so that a shell cannot read it.

    Settings have up to thirty such commands, and what looks at an installation reads each several times, 3 ms each time.
    """
    try:
        return tuple(shlex.split(command, comments=True))
    except ValueError:
        return ()


def closed_events(dialect: AgentDialect, setup: Setup) -> frozenset[str]:
    """The events of a setup that are blocked without a verdict."""
    can: Mapping[str, Capability] = dialect.capabilities
    return frozenset(
        name for name in setup.events if name in can and policy_of(can[name], fail_closed=setup.fail_closed) == "deny"
    )
