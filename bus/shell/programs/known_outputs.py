"""What a few calls print on every machine: a place outside the project (`brew --prefix`), SQL (`manage.py sqlflush`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bus.shell.inner import names

_SQL: Final = "TRUNCATE TABLE x;"
_FLUSHED: Final = ((names("sqlflush"), _SQL), (names("sqlclear"), _SQL), (names("sqlreset"), _SQL))
_USER_SITE: Final = (names("-m site --user-site"), "~/.local/lib/python")
_OUTPUTS: Final[Mapping[str, Sequence[tuple[frozenset[str], str]]]] = {
    "brew": (
        (names("--cache"), "~/Library/Caches/Homebrew"),
        (names("--prefix"), "/opt/homebrew"),
        (names("--cellar"), "/opt/homebrew/Cellar"),
        (names("--caskroom"), "/opt/homebrew/Caskroom"),
        (names("--repository"), "/opt/homebrew"),
    ),
    "npm": (
        (names("root -g"), "/usr/lib/node_modules"),
        (names("root --global"), "/usr/lib/node_modules"),
        (names("prefix -g"), "/usr"),
        (names("config get prefix"), "/usr"),
        (names("config get cache"), "~/.npm/_cacache"),
    ),
    "pnpm": ((names("root -g"), "~/.local/share/pnpm/global"), (names("store path"), "~/.local/share/pnpm/store/v3")),
    "yarn": ((names("global dir"), "~/.config/yarn/global"), (names("cache dir"), "~/.cache/yarn/v6")),
    "go": (
        (names("env GOPATH"), "~/go"),
        (names("env GOROOT"), "/usr/local/go"),
        (names("env GOBIN"), "~/go/bin"),
        (names("env GOMODCACHE"), "~/go/pkg/mod/cache"),
        (names("env GOCACHE"), "~/.cache/go-build/x"),
    ),
    "rustc": ((names("--print sysroot"), "~/.rustup/toolchains/stable"),),
    "rbenv": ((names("root"), "~/.rbenv"), (names("prefix"), "~/.rbenv/versions/current")),
    "pyenv": ((names("root"), "~/.pyenv"), (names("prefix"), "~/.pyenv/versions/current")),
    "gem": ((names("environment gemdir"), "/var/lib/gems"), (names("env gemdir"), "/var/lib/gems")),
    "pip": ((names("cache dir"), "~/.cache/pip/x"),),
    "pip3": ((names("cache dir"), "~/.cache/pip/x"),),
    "uv": ((names("cache dir"), "~/.cache/uv/x"), (names("tool dir"), "~/.local/share/uv/tools")),
    "conda": ((names("info --base"), "~/miniconda3"),),
    "xdg-user-dir": ((frozenset(), "~/Documents"),),
    "pg_config": ((frozenset(), "/usr/lib/postgresql"),),
    "python": (_USER_SITE, *_FLUSHED),
    "python3": (_USER_SITE, *_FLUSHED),
    "manage.py": _FLUSHED,
    "django-admin": _FLUSHED,
    "alembic": ((names("downgrade --sql"), "DROP TABLE x;"),),
}
HAVE_OUTPUT: Final = frozenset(_OUTPUTS)
"""The programs with such calls."""

_HANDS_ON: Final = names("sudo doas env command nice ionice nohup timeout gtimeout time stdbuf busybox builtin")
_FOR_EACH: Final = names("xargs gxargs find gfind")
_NAMES_PATHS: Final = names("dirname realpath readlink echo printf")


def prints_for(program: str, inner: str) -> bool:
    """Whether the output of a wrapper is that of the command inside: `sudo find`, `xargs dirname`."""
    return program in _HANDS_ON or (program in _FOR_EACH and inner in _NAMES_PATHS)


def known_output(program: str, words: Sequence[str]) -> str | None:
    """What a program with these arguments prints, as it is on most machines; None if it is not known."""
    for needed, output in _OUTPUTS[program]:
        if needed.issubset(words):
            return output
    return None
