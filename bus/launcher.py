"""Starts the hook command from cached bytecode, since compiling its source at every hook would cost 3 ms more.

Python compiles this file itself at every hook, so it is short: `bus/shim/imports.py` has all that can be compiled before.
Agents' settings call it: `PY -I -S /abs/bus/launcher.py AGENT EVENT ANSWERFILE [closed | later | open TEXT]`. If the hook
command cannot start, this file answers itself: with `closed` exit code 2 and a text, else exit code 0 and TEXT or nothing.
"""

import posix
import sys
from _frozen_importlib_external import MAGIC_NUMBER
from marshal import loads

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from types import CodeType


def bytecode(path: str) -> "CodeType":
    """The code of a module, from its cached bytecode. If the source is newer than the bytecode, it is compiled."""
    folder, _, file_name = path.rpartition("/")
    stat = posix.stat(path)
    code = None
    try:
        with open(f"{folder}/__pycache__/{file_name[:-3]}.{sys.implementation.cache_tag}.pyc", "rb", 0) as file:
            raw = file.readall()
        stamp = int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF
        if raw[:16] == b"".join((MAGIC_NUMBER, bytes(4), *(part.to_bytes(4, "little") for part in stamp))):
            code = loads(memoryview(raw)[16:])  # noqa: S302 - Python's own cache, which `import` trusts too
    except (OSError, ValueError, EOFError, TypeError):
        pass  # the bytecode is missing or damaged, so the source is compiled
    if code is None:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    return code


def load(path: str, name: str) -> "dict[str, object]":
    """The globals of a module, from its bytecode."""
    names: dict[str, object] = {"__name__": name, "__file__": path}
    exec(bytecode(path), names)  # noqa: S102 - the file beside this one
    return names


def main(argv: "list[str]") -> int:
    """Run one hook call and return its exit code. It never raises, because agents do not read tracebacks."""
    try:
        bus_folder = __file__.rpartition("/")[0]
        load(bus_folder + "/shim/imports.py", "bus.shim.imports")["prepare"](bus_folder, bytecode)  # type: ignore[operator]  # a function
        status = load(bus_folder + "/shim/main.py", "bus.shim.main")["main"](argv)  # type: ignore[operator]  # its main
    except BaseException as error:  # noqa: BLE001 - no failure may look like a block, or leave a traceback
        if argv[4:5] != ["closed"]:
            answer, fd, code = "".join(argv[5:6]), 1, 0
        else:
            answer = f"fleethook: this hook fails closed and cannot be answered ({type(error).__name__}: {error}).\n"
            answer, fd, code = answer + "Run `fleethook doctor`.\n", 2, 2
        try:  # noqa: SIM105 - contextlib costs more than the rest of this file
            posix.write(fd, answer.encode("utf-8", "replace"))
        except OSError:
            pass  # the agent has closed the pipe; the exit code still counts
        return code
    return int(status)


if __name__ == "__main__":
    posix._exit(main(sys.argv))  # noqa: SLF001 - a public function in spite of its name; saves 2 ms of Python's clean-up
