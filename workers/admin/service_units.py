"""The texts of service files: a systemd unit or launchd property list for one process, and the environment file."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Mapping, Sequence
from typing import Final

from bus.errors import ConfigError

MARK: Final = "Written by `fleethook service install`"
"""Every file that we write contains this text, so that an uninstall touches no other file."""

DRAIN_SECONDS: Final = 30
"""How long a process may take to finish its work (seconds), before the service manager kills it."""

RETRY_SECONDS: Final = 5
"""Seconds before a process that failed is started again."""

_NO_RETRY: Final = "2 4"
"""Exit codes for a wrong command line and for wrong settings: a restart would fail in the same way."""

_UNQUOTABLE: Final = re.compile(r"['\\\x00-\x1f\x7f]")


def environment_text(variables: Mapping[str, str], before: str = "") -> str:
    """The environment file, which systemd and shells read; raises ConfigError for a value that they read differently.

    Lines of the old text `before` stay, unless they set one of the variables.
    """
    lines = before.splitlines() or [f"# {MARK}; its mode has to stay 0600."]
    lines = [line for line in lines if line.partition("=")[0].strip() not in variables]
    for name, value in variables.items():
        if _UNQUOTABLE.search(value):
            raise ConfigError(
                f"{name} has a quote, a backslash or a control character, which an environment file cannot hold safely",
                hint="write it percent-encoded in a URL, or set it in fleethook.yaml",
            )
        lines.append(f"{name}='{value}'")
    return "\n".join(lines) + "\n"


def systemd_unit(process: str, command: Sequence[str], environment: str, *, user: str = "") -> str:
    """The unit of one process (`up` or a worker type): a system unit that runs as `user`, or a user unit without it."""
    network = ("Wants=network-online.target", "After=network-online.target") if user else ()
    # Hook commands may need the rights that these options remove, so a user unit does not have them.
    restrictions = (f"User={user}", "NoNewPrivileges=yes", "ProtectSystem=full", "WorkingDirectory=~") if user else ()
    lines = (
        f"# {MARK}; `fleethook service uninstall` removes it.",
        "[Unit]",
        f"Description=Fleethook {_described(process)}",
        *network,
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"EnvironmentFile={_escaped(environment)}",
        f"ExecStart={' '.join(map(_quoted, command))}",
        "Restart=on-failure",
        f"RestartSec={RETRY_SECONDS}",
        f"RestartPreventExitStatus={_NO_RETRY}",
        # SIGTERM goes only to the main process, which lets its children finish.
        "KillMode=mixed",
        f"TimeoutStopSec={DRAIN_SECONDS}",
        "UMask=0077",
        *restrictions,
        "",
        "[Install]",
        f"WantedBy={'multi-user' if user else 'default'}.target",
    )
    return "\n".join(lines) + "\n"


def launchd_plist(label: str, command: Sequence[str], environment: str, log: str) -> str:
    """The property list of one process; a shell reads the environment file, because launchd cannot."""
    script = 'set -a; . "$0"; exec "$@"'
    value = {
        "Label": label,
        "ProgramArguments": ["/bin/sh", "-c", script, environment, *command],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": RETRY_SECONDS,
        "ExitTimeOut": DRAIN_SECONDS,
        "Umask": 0o077,
        "ProcessType": "Interactive",  # launchd slows other types down, and agents wait for these processes
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    head, _, rest = plistlib.dumps(value, sort_keys=False).decode().partition("\n")
    return f"{head}\n<!-- {MARK}; `fleethook service uninstall` removes it. -->\n{rest}"


def _described(process: str) -> str:
    return "(server, evaluators, dispatcher, carriers, gateway)" if process == "up" else process


def _escaped(text: str) -> str:
    """The text with each `%` doubled, because `%` begins a specifier in a unit."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of ExecStart, with each `$` doubled, because `$` begins a variable there."""
    text = _escaped(word).replace("$", "$$")
    return (
        text if re.fullmatch(r"[\w./:=@%$+,-]+", text) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )
