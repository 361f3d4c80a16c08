"""Commands in files of tasks that the line has written and whose runner it then starts: justfiles, Taskfiles, playbooks."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import RUN_NAMES, Arg, Inner

_MOST: Final = 256
_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml"),
    "go-task": ("Taskfile.yml", "Taskfile.yaml"),
    "mise": ("mise.toml", ".mise.toml"),
    "foreman": ("Procfile",),
    "honcho": ("Procfile",),
    "overmind": ("Procfile",),
    "act": (),
    "ansible-playbook": (),
    "earthly": ("Earthfile",),
    "docker-compose": ("compose.yml", "docker-compose.yml", "compose.yaml"),
    "poe": ("pyproject.toml",),
    "tox": ("tox.ini",),
    "pre-commit": (".pre-commit-config.yaml",),
    "lefthook": ("lefthook.yml",),
    "gitlab-runner": (".gitlab-ci.yml",),
    "terraform": (),
    "tofu": (),
}
"""By program, the files that it reads without being told their names."""
_YAML: Final = (".yml", ".yaml", ".toml", ".ini", "Procfile", "justfile", "Justfile", ".just", "Earthfile")
_LINE: Final = lazy_regex(
    r"""^[ \t]*(?:-[ \t]+)?(?:[\w.-]+[ \t]*[:=][ \t]*)?(?:RUN[ \t]+)?["'\[@-]*((?:sudo[ \t]+)?[\w./-]+)(?=[ \t])([^\n]*)$""",
    re.MULTILINE,
)
_ABSENT: Final = lazy_regex(
    r"""\bpath[:=][ \t]*["']?([^\s"'},]+)[^#]{0,200}?\bstate[:=][ \t]*["']?absent"""
    r"""|\bstate[:=][ \t]*["']?absent[^#]{0,200}?\bpath[:=][ \t]*["']?([^\s"'},]+)"""
)
_QUOTED: Final = lazy_regex(r'''\bcommand\s*=\s*"((?:\\.|[^"\\\n]){1,512})"''')
"""Terraform's `local-exec`."""
_PLACEHOLDER: Final = lazy_regex(r"\{\{\s*\.?([A-Za-z_]\w*)[^{}]{0,80}\}\}")
_SETTING: Final = lazy_regex(
    r"""^[ \t]*([A-Za-z_]\w*)[ \t]*:?[:=][ \t]*["']?([^"'\s{}\[\]]+)["']?[ \t]*$""", re.MULTILINE
)


def task_files(program: str, words: tuple[str, ...], texts: Mapping[str, str]) -> list[str]:
    """The paths among `texts` of the files of tasks that a program with these words runs."""
    known = _FILES.get(program)
    if known is None:
        return []
    named = {posixpath.basename(word) for word in words if word.endswith(_YAML)}
    if program in ("terraform", "tofu"):
        return [path for path in texts if path.endswith(".tf")] if "apply" in words else []
    return [path for path in texts if (name := posixpath.basename(path)) in named or (not named and name in known)]


def task_scripts(text: str) -> Iterator[Inner]:
    """The commands in the lines of such a file that begin with the name of a program which deletes or runs."""
    settings = dict(islice(((one[1], one[2]) for one in _SETTING.finditer(text)), _MOST))
    text = _PLACEHOLDER.sub(lambda match: settings.get(match[1], "${_}"), text)
    for match in islice(_LINE.finditer(text), _MOST):
        first = match[1].split()[-1]
        if first in RUN_NAMES or first.rpartition("/")[2] in RUN_NAMES:
            yield Inner(script=f"{match[1]}{match[2]}".rstrip("\"'] "))
    for match in islice(_QUOTED.finditer(text), _MOST):
        yield Inner(script=match[1])
    for match in islice(_ABSENT.finditer(text), _MOST):
        yield Inner(argv=(Arg("rm"), Arg("-r"), Arg(match[1] or match[2])))
