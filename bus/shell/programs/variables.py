"""Variables that hold a command, or options of a program: `PAGER`, `GIT_SSH_COMMAND`, `LESSOPEN`, `TAR_OPTIONS`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from bus.shell.inner import Arg, Inner, names
from bus.shell.programs.compiled_code import other_calls

VARIABLES: Final = names(
    "EDITOR VISUAL PAGER MANPAGER BROWSER FCEDIT HGMERGE CVS_RSH SVN_SSH RSYNC_RSH GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF"
    " GIT_PROXY_COMMAND LESSOPEN LESSCLOSE MANOPT PROMPT_COMMAND RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER FZF_DEFAULT_COMMAND"
    " FZF_CTRL_T_COMMAND FZF_ALT_C_COMMAND RESTIC_PASSWORD_COMMAND BORG_PASSCOMMAND BORG_RSH MAKESHELL GREP_COMMAND"
    " SSH_ASKPASS SUDO_ASKPASS GIT_ASKPASS CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER"
)
"""Variables whose value is a command that a program runs."""
_ENDINGS: Final = ("EDITOR", "_PAGER")
"""The endings of further such variables: `KUBE_EDITOR`, `AWS_PAGER`."""
_FILLED_IN: Final = frozenset({"PS0", "PS1", "PS2", "PS4", "ENV", "BASH_ENV"})
"""Variables whose value a shell fills in as if it were in double quotes."""
_OPTIONS: Final = {"TAR_OPTIONS": "tar", "RSYNC_OPTIONS": "rsync", "ZIPOPT": "zip"}
"""Variables whose value is more options of a program, by name."""
_CODE: Final = {"PERL5DB": "perl", "RUBYOPT": "ruby", "PYTHONINSPECT": "python3"}


def variable_script(name: str, value: str, texts: Mapping[str, str] | None = None) -> Iterator[Inner]:
    """The commands in the value of a variable; `texts` are the files that the line has made, by path."""
    if name in VARIABLES or name.endswith(_ENDINGS):
        yield from side_script(value.lstrip("|") if name == "LESSOPEN" else value)
    elif name.startswith("GIT_CONFIG_") and "!" in value:
        yield Inner(script=value.partition("!")[2].rstrip("'"))
    elif name in _FILLED_IN:
        if "$(" in value or "`" in value:
            yield Inner(script=': "{}"'.format(value.replace('"', "")))
        elif texts and value in texts:
            yield Inner(script=texts[value])
    elif name in _OPTIONS and " " in value:
        yield Inner(script=f"{_OPTIONS[name]} {value}")
    elif name in _CODE and " " in value:
        yield Inner(argv=(Arg(_CODE[name]), Arg("-e"), Arg(value)))
    elif name == "NODE_OPTIONS" and "data:" in value:
        yield from other_calls(value)


def side_script(text: str, sources: tuple[str, ...] = ()) -> Iterator[Inner]:
    """The script in the value of such a variable or setting; nothing for the plain name of a program."""
    plain = text.strip()
    if " " in plain and not plain.startswith(("ssh ", "sed -i", "less ", "code ", "vim ", "nvim ")):
        yield Inner(script=plain, sources=sources)
