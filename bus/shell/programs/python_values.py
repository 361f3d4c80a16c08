"""The values that expressions of Python code may have, as far as literals tell. Read with `ast`, never run."""

from __future__ import annotations

import ast
import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from itertools import islice, product
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell import code_functions as functions
from bus.shell.words import UNKNOWN

MOST: Final = 256
"""Values that one expression may have."""
NODES: Final = 32 * 1024
"""Of the syntax tree, without the contexts of names; no text below 32 KB has more."""
_MOST_JOINED: Final = 16
"""The most texts that one f-string becomes."""
_ADDRESS: Final = ("https://", "http://")
_LONGEST_TEXT: Final = 64 * 1024
"""Of one value: `x = x + x` over and over must not fill the memory."""


class PythonValues:
    """What the names of one text mean so far, and the values of its expressions."""

    def __init__(self, operands: Sequence[str] = ()) -> None:
        self.operands = operands
        """`sys.argv` without its first item."""
        self.names: dict[str, str] = {}
        """Names of modules and functions, as imported."""
        self.values: dict[str, list[str]] = {}
        """The texts that each variable may hold; several for a list or a loop."""
        self.sources: dict[str, tuple[str, ...]] = {}
        """Variables that hold fetched or decoded text."""
        self.keyed: dict[str, dict[str, list[str]]] = {}
        """The texts in dictionaries of literals, by the names of their variables and by key."""
        self.directory = ""
        self.cut = False  # whether it has more nodes, or an expression more values, than are read
        self.steps = 0
        self.lists: set[str] = set()
        """Variables that hold a list, also one with a single text."""
        self.libraries: set[str] = set()
        """The libraries of services that are imported (`bus.shell.programs.service_calls`)."""
        self.chains: dict[str, str] = {}
        """The calls and attributes that a variable comes from: `docker.from_env.containers.list`."""
        self.in_memory = False
        """Whether every database that it names ends with it."""
        self.forwarding: dict[str, ast.FunctionDef] = {}
        """The functions that take any number of arguments, by name."""
        self.forwards = 0
        self.rows: dict[str, list[list[str]]] = {}
        """The texts of each list in turn, by the variable of a loop over lists."""
        self.stars: list[str] = []
        """The modules that the code imports with `from module import *`."""

    def dotted(self, node: ast.expr) -> str:
        """The full name of a function: `os.system`, also by alias, `__import__('os')` and `getattr(os, 'system')`."""
        if isinstance(node, ast.Name):
            known = self.names.get(node.id)
            whole = (f"{module}.{node.id}" for module in self.stars)
            return known or next((name for name in whole if name in functions.KNOWN), node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call) and node.args:
            function, first = self.dotted(node.func), node.args[0]
            if function in ("__import__", "importlib.import_module") and isinstance(first, ast.Constant):
                return str(first.value)
            if function == "getattr" and len(node.args) > 1:
                return f"{self.dotted(first)}.{self.texts(node.args[1])[0]}"
            if function == "vars":
                return f"{self.dotted(first)}.__dict__"
        if isinstance(node, ast.Subscript):
            base, key = self.dotted(node.value), self.texts(node.slice)[0]
            if base == "sys.modules":
                return key
            if base.endswith(".__dict__"):
                return f"{base.removesuffix('.__dict__')}.{key}"
        return ""

    def is_list(self, node: ast.expr) -> bool:
        """Whether an expression is a list or a tuple, as far as literals tell."""
        if isinstance(node, ast.BinOp):
            return self.is_list(node.left) or self.is_list(node.right)
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple", "sorted")
        return isinstance(node, ast.List | ast.Tuple) or (isinstance(node, ast.Name) and node.id in self.lists)

    def chain(self, node: ast.expr) -> str:
        """The names of a call's function in order, also behind other calls: `docker.from_env().volumes.prune`."""
        parts: list[str] = []
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Call):
                node = node.func
            elif isinstance(node, ast.Subscript):
                node = node.value
            else:
                return ".".join(["", *reversed(parts)])
        first = self.names.get(node.id) or self.chains.get(node.id, node.id)
        return ".".join([first, *reversed(parts)])

    def texts(self, node: ast.expr, depth: int = 0) -> list[str]:
        """The texts that an expression may have as its value; UNKNOWN for a part that only running it can tell."""
        self.steps += 1
        if depth > 40 or self.steps > NODES * 4:
            self.cut = True
            return [UNKNOWN]
        found = self._texts(node, depth)[:MOST]
        if any(len(text) > _LONGEST_TEXT for text in found):
            self.cut = True
            return [text if len(text) <= _LONGEST_TEXT else UNKNOWN for text in found]
        return found

    def _texts(self, node: ast.expr, depth: int) -> list[str]:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bytes):
                return [node.value.decode("utf-8", "replace")]
            return [node.value if isinstance(node.value, str) else str(node.value)]
        if isinstance(node, ast.Name):
            return self.values.get(node.id, [UNKNOWN])
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            self.cut = self.cut or len(node.elts) > MOST
            return [text for item in node.elts[:MOST] for text in self.texts(item, depth + 1)][:MOST]
        if isinstance(node, ast.Dict):
            return [text for item in node.values[:MOST] for text in self.texts(item, depth + 1)[:1]][:MOST]
        if isinstance(node, ast.Starred):
            return self.texts(node.value, depth + 1)
        if isinstance(node, ast.JoinedStr):
            parts = [self.texts(part, depth + 1)[:8] or [UNKNOWN] for part in node.values]
            return ["".join(chosen) for chosen in islice(product(*parts), _MOST_JOINED)]
        if isinstance(node, ast.FormattedValue):
            return self.texts(node.value, depth + 1)[:8] or [UNKNOWN]
        if isinstance(node, ast.BinOp):
            left, right = self.texts(node.left, depth + 1), self.texts(node.right, depth + 1)
            if isinstance(node.op, ast.Add):
                if self.is_list(node.left) or self.is_list(node.right):
                    return [*left, *right][:MOST]
                return [a + b for a in left[:8] for b in right[:8]]
            if isinstance(node.op, ast.Div):
                return [_joined(a, b) for a in left[:8] for b in right[:8]]
            if isinstance(node.op, ast.Mod) and left:
                if isinstance(node.right, ast.Dict):
                    named = {
                        str(getattr(key, "value", "")): text for key, text in zip(node.right.keys, right, strict=False)
                    }
                    return [_NAMED_PLACE.sub(lambda match: named.get(match[1], UNKNOWN), left[0])]
                return [_filled(left[0], "%s", right)]
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in self.keyed:
            return self.keyed[node.value.id].get(self.texts(node.slice, depth + 1)[0], [UNKNOWN])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return [f"-{text}" for text in self.texts(node.operand, depth + 1)]
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Slice)
            and isinstance(node.slice.step, ast.UnaryOp)
        ):
            return [text[::-1] for text in self.texts(node.value, depth + 1)]
        if isinstance(node, ast.Subscript) and (chosen := self._chosen(node, depth)) is not None:
            return chosen
        if isinstance(node, ast.Subscript):  # an item of what an address returns is taken for an address there
            base = self.texts(node.value, depth + 1)
            if base and base[0].startswith(_ADDRESS):
                return base
        if isinstance(node, ast.Subscript) and self.dotted(node.value) == "sys.argv":
            return list(self.operands) or [UNKNOWN]
        if isinstance(node, ast.Subscript) and self.dotted(node.value) == "os.environ":
            return ["~"] if self.texts(node.slice, depth + 1) in (["HOME"], ["USERPROFILE"]) else [UNKNOWN]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            held = self.values.get(f"{node.value.id}.{node.attr}") or self.values.get(f"--{node.attr}")
            if held is not None:
                return held
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("__file__", "__path__")
            and (of := self.dotted(node.value))
        ):
            folder = f"/.python/site-packages/{of.replace('.', '/')}"
            return [f"{folder}/__init__.py" if node.attr == "__file__" else folder]
        if isinstance(node, ast.Attribute) and node.attr in ("parent", "path", "name"):
            return [f"{text}/.." if node.attr == "parent" else text for text in self.texts(node.value, depth + 1)]
        if isinstance(node, ast.Call):
            return self._result(node, depth)
        return [UNKNOWN]

    def _chosen(self, node: ast.Subscript, depth: int) -> list[str] | None:
        """The items of a list with several texts that an index or a slice of constants chooses; None for any other."""
        held = self.texts(node.value, depth + 1) if isinstance(node.value, ast.Name | ast.List | ast.Tuple) else []
        if len(held) < 2:
            return None
        if isinstance(node.slice, ast.Slice):
            start, end = (
                ast.literal_eval(one) if isinstance(one, ast.Constant) else None
                for one in (node.slice.lower, node.slice.upper)
            )
            return held[start:end] if node.slice.step is None else None
        place = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return held[place : place + 1] if isinstance(place, int) and 0 <= place < len(held) else None

    def _result(self, node: ast.Call, depth: int) -> list[str]:
        """The texts that a call may return, as far as literals tell."""
        name = self.dotted(node.func)
        if name in functions.HOMES or (
            name in ("os.getenv", "os.environ.get") and self.argument(node) in ("HOME", "USERPROFILE")
        ):
            return ["~"]
        if (
            name == "chr"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, int)
        ):
            return [chr(node.args[0].value % 0x110000)]
        if name in ("os.getcwd", "Path.cwd", "pathlib.Path.cwd"):
            return ["."]
        if name in functions.JOINS or (name in functions.SAME and len(node.args) > 1):
            parts = [self.texts(one, depth + 1) for one in node.args]
            found = parts[0][:8]
            for part in parts[1:]:
                found = [_joined(a, b) for a in found for b in part[:8]][:MOST]
            return found
        if name == "os.path.dirname" and node.args:
            return [f"{text}/.." for text in self.texts(node.args[0], depth + 1)]
        if name in functions.SAME and node.args:
            return self.texts(node.args[0], depth + 1)
        if name in functions.BELOW:
            return [
                f"{root.rstrip('/')}/{UNKNOWN}"
                for root in (self.texts(node.args[0], depth + 1) if node.args else ["."])
            ]
        if name in ("glob.glob", "glob.iglob") and node.args:
            return self.texts(node.args[0], depth + 1)
        if name in ("list", "sorted", "set", "reversed", "filter", "map", "shlex.split") and node.args:
            found = self.texts(node.args[-1], depth + 1)
            return [word for text in found for word in text.split()] if name == "shlex.split" else found
        if name.endswith(("HTTPSConnection", "HTTPConnection")) and node.args:
            return [f"https://{self.argument(node)}"]
        if name in functions.WRAPPERS and node.args:
            return self.texts(node.args[0], depth + 1)
        if name.endswith((".Client", ".ClientSession", ".AsyncClient")) and node.keywords:
            return [text for word in node.keywords if word.arg == "base_url" for text in self.texts(word.value)] or [
                UNKNOWN
            ]
        if name == "base64.b64decode" and node.args:
            try:
                return [base64.b64decode(self.texts(node.args[0], depth + 1)[0]).decode("utf-8", "replace")]
            except (ValueError, binascii.Error, IndexError):
                return [UNKNOWN]
        if isinstance(node.func, ast.Attribute):
            receiver = self.texts(node.func.value, depth + 1)
            if node.func.attr in ("iterdir", "rglob"):
                return [f"{root.rstrip('/')}/{UNKNOWN}" for root in receiver]
            if node.func.attr in ("glob", "joinpath") and node.args:
                return [_joined(root, self.texts(node.args[0], depth + 1)[0]) for root in receiver]
            if node.func.attr == "join" and node.args:
                return [receiver[0].join(self.texts(node.args[0], depth + 1))]
            if node.func.attr == "split" and not node.args:
                return [word for text in receiver for word in text.split()]
            if node.func.attr in ("items", "values") and not node.args:
                return receiver
            if node.func.attr in functions.UNCHANGED:
                return receiver
            if node.func.attr == "json" and receiver and receiver[0].startswith(_ADDRESS):
                return receiver
            if node.func.attr in ("get", "post") and node.args and self.argument(node).startswith(_ADDRESS):
                return self.texts(node.args[0], depth + 1)
            if node.func.attr in ("substitute", "safe_substitute") and receiver:
                values = {word.arg: self.argument_of(word.value) for word in node.keywords if word.arg}
                return [_TEMPLATE.sub(lambda match: values.get(match[1], UNKNOWN), receiver[0])]
            if node.func.attr == "format" and receiver:
                given = [text for one in node.args for text in self.texts(one, depth + 1)[:1]]
                named = {word.arg: self.texts(word.value, depth + 1)[:1] for word in node.keywords if word.arg}
                return [_formatted(receiver[0], given, named)]
            if node.func.attr == "replace" and len(node.args) == 2:
                return [text.replace(self.argument(node), self.argument(node, 1)) for text in receiver]
        return [UNKNOWN]

    def argument_of(self, node: ast.expr) -> str:
        """The first text that an expression may have."""
        return next(iter(self.texts(node)), UNKNOWN)

    def argument(self, node: ast.Call, place: int = 0) -> str:
        return next(iter(self.texts(node.args[place])), UNKNOWN) if len(node.args) > place else UNKNOWN


_TEMPLATE: Final = lazy_regex(r"\$\{?(\w+)\}?")
_NAMED_PLACE: Final = lazy_regex(r"%\((\w+)\)s")
_PLACE: Final = lazy_regex(r"\{(\w*)(?:![rsa])?(?::[^{}]*)?\}")


def _formatted(text: str, given: Sequence[str], named: Mapping[str, Sequence[str]]) -> str:
    """The result of `text.format(…)`, as far as the values are known."""
    rest = iter(given)

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name.isdigit():
            return given[int(name)] if int(name) < len(given) else UNKNOWN
        return next(iter(named.get(name, ())), UNKNOWN) if name else next(rest, UNKNOWN)

    return _PLACE.sub(value, text)


def _filled(text: str, sign: str, values: Sequence[str]) -> str:
    """`text` with the values at its placeholders in order; the last one where there are more placeholders."""
    pieces = text.split(sign)
    filled = (
        [*values, *[values[-1] if len(values) == 1 else UNKNOWN] * len(pieces)] if values else [UNKNOWN] * len(pieces)
    )
    return "".join(part for pair in zip(pieces, [*filled[: len(pieces) - 1], ""], strict=True) for part in pair)


def _joined(left: str, right: str) -> str:
    return right if right.startswith(("/", "~")) else f"{left.rstrip('/')}/{right}"
