"""What the hook command needs before it runs: imports of the files beside it, from bytecode alone, and open descriptors.

The launcher loads this before `main`. It is beside the launcher and not in it because Python compiles the launcher at every
hook: with these lines in it that took a fifth of the instructions of an empty program, without them an eighth (measured).
"""

import posix
import sys
from _frozen_importlib import ModuleSpec

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType


class BytecodeFinder:
    """Finds the files beside the hook command when it imports them, in a third of the time that Python's own finder takes."""

    def __init__(self, folder: str, bytecode: "Callable[[str], CodeType]") -> None:
        """`bytecode` gives the code of a module by its path."""
        self.folder, self.bytecode = folder, bytecode

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        """The spec of a module of `bus.shim`; None for every other one."""
        return ModuleSpec(name, self) if name.startswith("bus.shim.") else None  # type: ignore[arg-type]  # it is a loader, without its base class

    def create_module(self, _spec: ModuleSpec) -> None:
        """Python makes the module."""

    def exec_module(self, module: "ModuleType") -> None:
        """Fill the module."""
        path = f"{self.folder}/{module.__name__.rpartition('.')[2]}.py"
        module.__file__ = path
        exec(self.bytecode(path), module.__dict__)  # noqa: S102 - the file beside this one


def prepare(bus_folder: str, bytecode: "Callable[[str], CodeType]") -> None:
    """Make `import bus.shim.…` find its files without running `bus/__init__.py`, which would import much more.

    Also opens the standard descriptors that the agent has closed.
    """
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        # Otherwise the connection to Redis would get the number of the closed descriptor, and the answer would go there.
        while posix.open("/dev/null", posix.O_RDWR) < 3:
            pass
    for package, folder in (("bus", bus_folder), ("bus.shim", bus_folder + "/shim")):
        bare = type(sys)(package)
        bare.__path__ = [folder]  # which makes a module a package
        sys.modules.setdefault(package, bare)
    sys.meta_path.insert(0, BytecodeFinder(bus_folder + "/shim", bytecode))
