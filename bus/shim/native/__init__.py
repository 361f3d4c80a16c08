"""The hook command as one small program: where it is, whether it is the right one, and how it is built from `hook.c`.

Wheels have it beside this file (`bus/shim/native/build_hook.py`). Elsewhere `fleethook install` builds it if there is a
compiler: in a checkout beside this file, else in this user's own directory. Without it agents run the hook command in Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from bus.errors import FleethookError

NAME: Final = "fleethook-hook"
FOLDER: Final = Path(__file__).parent
SOURCE: Final = FOLDER / "hook.c"
OFF: Final = "FLEETHOOK_NATIVE_HOOK"
"""With the value 0 in an agent's environment, the program starts the hook command in Python instead."""

COMPILE_S: Final = 120.0
CHECK_S: Final = 10.0

_WARNINGS: Final = ("-Wall", "-Wextra", "-Wpedantic")
_FLAGS: Final = ("-std=c11", "-O2", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2")
_STATIC: Final = (("-static-pie", "-fPIE"), ("-static",))
"""A program without shared libraries starts in half the time, and runs on every Linux of its processor."""


class NotBuilt(FleethookError):
    """Why the program could not be built."""


class Native(NamedTuple):
    """The program for the hook commands of an install."""

    path: str = ""
    """Where it is; empty: there is none."""
    built: bool = False
    """Whether it was built just now."""
    why: str = ""
    """Why it could not be built, for people; empty if nobody tried."""


@cache
def source_hash() -> str:
    """The hash of the source that a program of this version says."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]


def compiler() -> str:
    """The C compiler's path: `CC` of the environment, else the first of cc, gcc and clang; empty if there is none."""
    named = os.environ.get("CC", "")
    return next((found for name in (named, "cc", "gcc", "clang") if name and (found := shutil.which(name))), "")


def build(target: Path, *more: str, static: bool = False) -> None:
    """Compiles the program; raises NotBuilt, OSError.

    Without shared libraries where the C library allows it; `static` requires it. `more` are further flags of the compiler.
    """
    found = compiler()
    if not found:
        raise NotBuilt("there is no C compiler")
    ways: list[tuple[str, ...]] = [()]
    if sys.platform == "linux" and not more:
        ways = [*_STATIC, *([] if static else [()])]
    elif sys.platform == "darwin":
        ways = [("-mmacosx-version-min=11.0",)]
    words = [found, *_FLAGS, *_WARNINGS, f'-DSOURCE="{source_hash()}"', *more, str(SOURCE), "-o", str(target)]
    said = ""
    for way in ways:
        try:
            done = subprocess.run(
                [*words, *way], capture_output=True, timeout=COMPILE_S, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired as error:
            raise NotBuilt(f"{found} did not end within {COMPILE_S:.0f} s") from error
        said = done.stderr.decode("utf-8", "replace").strip()
        if not done.returncode and (more or is_current(target)):
            return
    raise NotBuilt(f"{found} failed: {said.splitlines()[-1] if said else 'the program does not run'}")


def is_current(path: Path | str) -> bool:
    """Whether there is a program that runs on this machine and was made from this source."""
    try:
        done = subprocess.run(
            [str(path), "--version"], capture_output=True, timeout=CHECK_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and done.stdout.split()[2:3] == [source_hash().encode()]


def home(data: Path) -> Path:
    """Where `install` puts a program that it builds: in a checkout beside the source, else in the user's data directory."""
    in_checkout = (FOLDER.parents[2] / "pyproject.toml").exists() and os.access(FOLDER, os.W_OK)
    return (FOLDER if in_checkout else data / "native") / NAME


def find(data: Path) -> str:
    """The path of a program that can be used: of the package, else of this user; empty if there is none."""
    return next((str(path) for path in dict.fromkeys((FOLDER / NAME, home(data))) if is_current(path)), "")


def prepare(data: Path) -> Native:
    """The program that an install can use; if there is none and there is a compiler, it is built, in one step."""
    found = find(data)
    if found:
        return Native(found)
    if not compiler():
        return Native()
    target = home(data)
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        build(new)
        new.replace(target)
    except (NotBuilt, OSError) as error:
        return Native(why=str(error))
    finally:
        new.unlink(missing_ok=True)
    return Native(str(target), built=True)


def forget(native: Native) -> None:
    """Removes a program that was built just now and is not wanted after all."""
    if native.built:
        Path(native.path).unlink(missing_ok=True)
