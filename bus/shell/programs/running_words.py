"""The words with which common programs run others: without any of them, their arguments need not be read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.shell.inner import RUN_NAMES, names


class RunningWords(NamedTuple):
    """What is in every call of a program that runs another program."""

    words: frozenset[str]
    """Whole words, one of which is in such a call."""
    parts: tuple[str, ...] = ()
    """Or one of these is part of a word."""


GIT_RUNNING: Final = names("config submodule bisect rebase filter-branch difftool")
"""The subcommands of git that run what their arguments name."""
EXECS: Final = names("exec rsh node-shell ssh")
CONTAINERS_RUNNING: Final = EXECS | names("debug run create cp unshare")
"""Subcommands that run something in a container or copy from it; a line without any of them does neither."""
BY_UNKNOWN: Final = RunningWords(RUN_NAMES, (" ",))
"""Those of an unknown program: the name of a program, or a text with blanks."""
NEVER: Final = RunningWords(frozenset())
"""Those of a program that runs none, whatever its arguments are."""

_IN_CONTAINERS: Final = RunningWords(CONTAINERS_RUNNING)
RUNNING_WORDS: Final[dict[str, RunningWords]] = {
    "git": RunningWords(GIT_RUNNING | {"archive", "-u", "--upload-pack", "--receive-pack"}, ("=", "-O", "ext::")),
    **dict.fromkeys(
        names("docker podman nerdctl kubectl oc crictl k docker-compose podman-compose"),
        _IN_CONTAINERS,
    ),
    "aws": RunningWords(names("execute-command start-session send-command")),
    "gh": RunningWords(names("alias ssh config")),
    "gcloud": RunningWords(names("ssh"), ("-command",)),
}
"""By program; a program that is not here has none, or its arguments are always read."""


def hands_over(words: Sequence[str], running: RunningWords = BY_UNKNOWN) -> bool:
    """Whether a program that has these running words may run another one with these arguments."""
    if not running.words.isdisjoint(words):
        return True
    if running.parts:
        text = "".join(words)
        for part in running.parts:
            if part in text:
                return True
    return False
