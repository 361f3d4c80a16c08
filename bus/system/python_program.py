"""The text of a Python program for `python -c` that starts with less work."""

from __future__ import annotations


def program(imports: str) -> str:
    """A program that runs these import statements and then calls `main`, which they have to import.

    It switches the garbage collector off until they are done. What they create stays until the process ends, so a search would
    find nothing. That saves a fifth of the CPU time of the start (measured with the processes that use it).
    """
    return f"import gc, sys; gc.disable(); {imports}; gc.freeze(); gc.enable(); main()"
