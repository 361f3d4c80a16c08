"""Python code given on a command line: which files it deletes or writes, and which commands it runs, as far as literals tell.

Read with `ast`, never run. A call becomes the command of a shell that does the same: `shutil.rmtree(x)` is `rm -r x`.
"""

from __future__ import annotations

import ast
import base64
import binascii
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from bus.shell import code_functions as functions
from bus.shell.inner import Arg, Inner
from bus.shell.scanned_code import programs_named
from bus.shell.words import UNKNOWN

_MOST: Final = 256
"""Values that one expression may have."""
_MOST_CALLS: Final = 512
_LONGEST: Final = 64 * 1024
_NODES: Final = 32 * 1024
"""Of the syntax tree, without the contexts of names; no text below 32 KB has more."""
_LONGEST_TEXT: Final = 8 * 1024
"""Of one value: `x = x + x` over and over must not fill the memory."""
_NETWORK: Final = "curl"
"""The source of code from the network, whichever library fetches it."""


def python_calls(code: str, operands: Sequence[str] = ()) -> Iterator[Inner]:
    """What `code`, given these operands, deletes, writes and runs; SyntaxError where it is not Python.

    The last item has `unread` where there is more than is read.
    """
    if len(code) > _LONGEST:
        yield Inner(unread=programs_named(code, functions.PYTHON_PROGRAMS))
        return
    try:
        tree = ast.parse(code)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error)) from error
    reader = _Code(operands)
    calls = reader.calls(tree)
    yield from islice(calls, _MOST_CALLS)
    if reader.cut or next(calls, None) is not None:
        yield Inner(unread=programs_named(code, functions.PYTHON_PROGRAMS))


class _Code:
    """State while one text is read from its beginning to its end."""

    def __init__(self, operands: Sequence[str] = ()) -> None:
        self.operands = operands
        """`sys.argv` without its first item."""
        self.names: dict[str, str] = {}
        """Names of modules and functions, as imported."""
        self.values: dict[str, list[str]] = {}
        """The texts that each variable may hold; several for a list or a loop."""
        self.sources: dict[str, tuple[str, ...]] = {}
        """Variables that hold fetched or decoded text."""
        self.directory = ""
        self.cut = False  # whether it has more nodes, or an expression more values, than are read
        self.steps = 0
        self.stars: list[str] = []
        """Modules of which all names are imported."""

    def calls(self, tree: ast.AST) -> Iterator[Inner]:
        self._bind_parameters(tree)
        nodes = 0
        left: list[ast.AST] = [tree]
        while left:
            node = left.pop()
            nodes += 1
            if nodes > _NODES:
                self.cut = True
                return
            self._note(node)
            for one in getattr(node, "generators", ()):  # of a comprehension; what they bind is used before them
                self._note(one)
            if isinstance(node, ast.Call):
                yield from self._call(node)
                if self._dotted(node.func) == "map" and len(node.args) == 2:
                    yield from self._call(ast.Call(func=node.args[0], args=node.args[1:], keywords=[]))
            elif isinstance(node, ast.With) and all(isinstance(one, ast.Pass) for one in node.body):
                yield from (path for item in node.items for path in self._emptied(item.context_expr))
            left.extend(
                one for one in reversed(list(ast.iter_child_nodes(node))) if not isinstance(one, ast.expr_context)
            )

    def _bind_parameters(self, tree: ast.AST) -> None:
        """Give the parameters of functions the values of their calls: `def f(p): …` and then `f("/etc")`."""
        nodes = list(islice(ast.walk(tree), _NODES))
        functions = {one.name: one.args.args for one in nodes if isinstance(one, ast.FunctionDef)}
        for one in nodes:
            if isinstance(one, ast.Call):
                named = functions.get(one.func.id) if isinstance(one.func, ast.Name) else None
                for parameter, value in zip(
                    one.func.args.args if isinstance(one.func, ast.Lambda) else named or (), one.args, strict=False
                ):
                    self.values[parameter.arg] = [*self.values.get(parameter.arg, ()), *self.texts(value)][:_MOST]

    def _emptied(self, opened: ast.expr) -> Iterator[Inner]:
        """The file that `open(…, "w")` empties."""
        if isinstance(opened, ast.Call) and self._dotted(opened.func) in ("open", "io.open") and opened.args:
            mode = self._keyword(opened, "mode")
            if (self.texts(mode)[0] if mode is not None else self._argument(opened, 1))[:1] == "w":
                yield _argv(("truncate", "-s", "0", *self.texts(opened.args[0])), self.directory)

    def _note(self, node: ast.AST) -> None:
        """Apply an import, an assignment or a loop."""
        if isinstance(node, ast.Import):
            for name in node.names:
                self.names[name.asname or name.name.partition(".")[0]] = (
                    name.name if name.asname else name.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                if name.name == "*":
                    self.stars.append(node.module or "")
                else:
                    self.names[name.asname or name.name] = f"{node.module}.{name.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._bind(target, self.texts(node.value), self._sources(node.value))
                dotted = self._dotted(node.value)
                if isinstance(target, ast.Name) and dotted:
                    self.names[target.id] = dotted
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            if node.func.attr in ("append", "extend") and node.args and node.func.value.id in self.values:
                self.values[node.func.value.id] = [*self.values[node.func.value.id], *self.texts(node.args[0])][:_MOST]
        elif isinstance(node, ast.For | ast.comprehension):
            self._bind(node.target, self.texts(node.iter), self._sources(node.iter))
        elif isinstance(node, ast.With):
            for item in node.items:
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, self.texts(item.context_expr), self._sources(item.context_expr))

    def _bind(self, target: ast.expr, texts: list[str], sources: tuple[str, ...]) -> None:
        for name in [target] if isinstance(target, ast.Name) else getattr(target, "elts", []):
            if isinstance(name, ast.Name):
                self.values[name.id] = texts
                self.sources[name.id] = sources

    def _dotted(self, node: ast.expr) -> str:
        """The full name of a function: `os.system`, also by alias, `__import__('os')` and `getattr(os, 'system')`."""
        if isinstance(node, ast.Name):
            known = self.names.get(node.id)
            whole = (f"{module}.{node.id}" for module in self.stars)
            return known or next((name for name in whole if name in functions.KNOWN), node.id)
        if isinstance(node, ast.Attribute):
            base = self._dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call) and node.args:
            function, first = self._dotted(node.func), node.args[0]
            if function in ("__import__", "importlib.import_module") and isinstance(first, ast.Constant):
                return str(first.value)
            if function == "getattr" and len(node.args) > 1:
                return f"{self._dotted(first)}.{self.texts(node.args[1])[0]}"
            if function == "vars":
                return f"{self._dotted(first)}.__dict__"
        if isinstance(node, ast.Subscript):
            base, key = self._dotted(node.value), self.texts(node.slice)[0]
            if base == "sys.modules":
                return key
            if base.endswith(".__dict__"):
                return f"{base.removesuffix('.__dict__')}.{key}"
        return ""

    def texts(self, node: ast.expr, depth: int = 0) -> list[str]:
        """The texts that an expression may have as its value; UNKNOWN for a part that only running it can tell."""
        self.steps += 1
        if depth > 40 or self.steps > _NODES * 4:
            return [UNKNOWN]
        return [text if len(text) <= _LONGEST_TEXT else UNKNOWN for text in self._texts(node, depth)[:_MOST]]

    def _texts(self, node: ast.expr, depth: int) -> list[str]:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bytes):
                return [node.value.decode("utf-8", "replace")]
            return [node.value if isinstance(node.value, str) else str(node.value)]
        if isinstance(node, ast.Name):
            return self.values.get(node.id, [UNKNOWN])
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            self.cut = self.cut or len(node.elts) > _MOST
            return [text for item in node.elts[:_MOST] for text in self.texts(item, depth + 1)][:_MOST]
        if isinstance(node, ast.Starred):
            return self.texts(node.value, depth + 1)
        if isinstance(node, ast.JoinedStr):
            return ["".join(self.texts(part, depth + 1)[0] for part in node.values)]
        if isinstance(node, ast.FormattedValue):
            return self.texts(node.value, depth + 1)[:1] or [UNKNOWN]
        if isinstance(node, ast.BinOp):
            left, right = self.texts(node.left, depth + 1), self.texts(node.right, depth + 1)
            if isinstance(node.op, ast.Add):
                if isinstance(node.left, ast.List) or isinstance(node.right, ast.List):
                    return [*left, *right][:_MOST]
                return [a + b for a in left[:8] for b in right[:8]]
            if isinstance(node.op, ast.Div):
                return [_joined(a, b) for a in left[:8] for b in right[:8]]
            if isinstance(node.op, ast.Mod) and left:
                return [left[0].replace("%s", right[0] if right else UNKNOWN)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return [f"-{text}" for text in self.texts(node.operand, depth + 1)]
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Slice)
            and isinstance(node.slice.step, ast.UnaryOp)
        ):
            return [text[::-1] for text in self.texts(node.value, depth + 1)]
        if isinstance(node, ast.Subscript) and self._dotted(node.value) == "sys.argv":
            return list(self.operands) or [UNKNOWN]
        if isinstance(node, ast.Subscript) and self._dotted(node.value) == "os.environ":
            return ["~"] if self.texts(node.slice, depth + 1) in (["HOME"], ["USERPROFILE"]) else [UNKNOWN]
        if isinstance(node, ast.Attribute) and node.attr in ("parent", "path", "name"):
            return [f"{text}/.." if node.attr == "parent" else text for text in self.texts(node.value, depth + 1)]
        if isinstance(node, ast.Call):
            return self._result(node, depth)
        return [UNKNOWN]

    def _result(self, node: ast.Call, depth: int) -> list[str]:
        """The texts that a call may return, as far as literals tell."""
        name = self._dotted(node.func)
        if name in functions.HOMES or (
            name in ("os.getenv", "os.environ.get") and self._argument(node) in ("HOME", "USERPROFILE")
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
                found = [_joined(a, b) for a in found for b in part[:8]][:_MOST]
            return found
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
            if node.func.attr in functions.UNCHANGED:
                return receiver
            if node.func.attr == "format":
                return [receiver[0].replace("{}", self._argument(node))]
        return [UNKNOWN]

    def _argument(self, node: ast.Call, place: int = 0) -> str:
        return next(iter(self.texts(node.args[place])), UNKNOWN) if len(node.args) > place else UNKNOWN

    def _keyword(self, node: ast.Call, name: str) -> ast.expr | None:
        return next((word.value for word in node.keywords if word.arg == name), None)

    def _sources(self, node: ast.AST) -> tuple[str, ...]:
        """The sources of a text that was fetched or decoded, as program names."""
        found: dict[str, None] = {}
        for one in islice(ast.walk(node), 100):
            if isinstance(one, ast.Call):
                name = self._dotted(one.func)
                if name in functions.FETCHERS or name.endswith((".urlopen", ".recv")):
                    found[_NETWORK] = None
                elif name in functions.DECODERS:
                    found["base64"] = None
            elif isinstance(one, ast.Name):
                found |= dict.fromkeys(self.sources.get(one.id, ()))
        return tuple(found)

    def _call(self, node: ast.Call) -> Iterator[Inner]:
        name, method = self._dotted(node.func), node.func.attr if isinstance(node.func, ast.Attribute) else ""
        directory = self.directory
        if (where := self._keyword(node, "cwd")) is not None:
            directory = next(iter(self.texts(where)), "")
        if name == "os.chdir":
            self.directory = self._argument(node)
        elif name in functions.COMMANDS:
            command = functions.COMMANDS[name]
            given = [*node.args, *(one.value for one in node.keywords if one.arg in ("path", "src", "dst"))]
            paths = [text for arg in given[: 2 if command[0] in functions.TWO else 1] for text in self.texts(arg)]
            yield _argv((*command, *paths), directory)
        elif name in functions.SHELLS or method == "system":
            yield Inner(script=self._argument(node), sources=self._sources(node), directory=directory)
        elif name in functions.SPAWNS or name in functions.EXECS:
            yield from self._spawn(node, name, directory)
        elif name in ("open", "io.open", "codecs.open"):
            mode = self._keyword(node, "mode")
            text = self.texts(mode)[0] if mode is not None else self._argument(node, 1)
            if any(sign in text for sign in "wax+") and UNKNOWN not in text and node.args:
                yield _argv(("tee", *(["-a"] if "a" in text else []), *self.texts(node.args[0])), directory)
        elif name in ("exec", "eval", "compile") and node.args:
            yield from self._executed(node)
        elif name in ("os.kill", "os.killpg") and len(node.args) > 1:
            signal = self._argument(node, 1).rpartition(".")[2].removeprefix("SIG")
            yield _argv(("kill", "-9" if signal == UNKNOWN else f"-{signal}", self._argument(node)), directory)
        elif name in ("os.chmod", "os.chown") and len(node.args) > 1:
            mode = node.args[1]
            number = mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, int) else None
            value = f"{number:o}" if number is not None and name == "os.chmod" else UNKNOWN
            yield _argv((name.removeprefix("os."), value, *self.texts(node.args[0])), directory)
        elif name in ("requests.delete", "httpx.delete"):
            yield _argv(("curl", "-X", "DELETE", self._argument(node)), directory)
        elif method in ("execute", "executescript") and node.args:
            yield _argv(("sqlite3", "database", self._argument(node)), directory)
        elif method in functions.SERVICES:
            yield _argv(functions.SERVICES[method], directory)
        elif method.startswith(("delete_", "terminate_", "deregister_")) and "boto3" in self.names:
            yield _argv(("aws", "service", method.replace("_", "-")), directory)
        elif isinstance(node.func, ast.Attribute) and getattr(node.func.value, "attr", "") == "git":
            words = [text for arg in node.args for text in self.texts(arg)]
            yield _argv(("git", method.replace("_", "-"), *words), directory)
        elif method == "write" and isinstance(node.func, ast.Attribute) and node.args and self._argument(node) == "":
            yield from self._emptied(node.func.value)
        elif (
            method in ("write_text", "write_bytes")
            and isinstance(node.func, ast.Attribute)
            and self._argument(node) == ""
        ):
            yield _argv(("truncate", "-s", "0", *self.texts(node.func.value)), directory)
        elif method in functions.METHODS and isinstance(node.func, ast.Attribute):
            yield _argv((*functions.METHODS[method], *self.texts(node.func.value)), directory)
        elif method in ("rename", "replace") and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            yield _argv(("mv", *self.texts(node.func.value), self._argument(node)), directory)
        elif name == "os.dup2" and "socket" in self.names:
            yield Inner(sources=("nc",))

    def _spawn(self, node: ast.Call, name: str, directory: str) -> Iterator[Inner]:
        first = node.args[0] if node.args else self._keyword(node, "args")
        if first is None:
            return
        words = self.texts(first)
        if name in functions.EXECS:  # a mode or a path, then the program's own name
            skip = 2 if name.startswith("os.spawn") else 1
            words = [text for arg in node.args[skip:] for text in self.texts(arg)]
        elif name == "asyncio.create_subprocess_exec":
            words = [text for arg in node.args for text in self.texts(arg)]
        shell = self._keyword(node, "shell")
        given = self._keyword(node, "input")
        if given is not None and words[:1]:
            yield Inner(script=self.texts(given)[0], sources=self._sources(given), directory=directory)
        listed = len(words) != 1 or isinstance(first, ast.List | ast.Tuple)
        if (isinstance(shell, ast.Constant) and shell.value) or not listed:
            yield Inner(script=words[0] if words else "", sources=self._sources(first), directory=directory)
        elif words:
            yield _argv(words, directory)

    def _executed(self, node: ast.Call) -> Iterator[Inner]:
        """`exec("…")` and `exec(urlopen(…).read())`."""
        text = self._argument(node)
        if UNKNOWN not in text and len(text) < _LONGEST:
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                tree = None
            if tree is not None and tree.body:
                inside = _Code()
                inside.names, inside.values = dict(self.names), dict(self.values)
                yield from (one for one in inside.calls(tree) if one.argv or one.script)
                self.cut = self.cut or inside.cut
        yield Inner(sources=self._sources(node))


def _argv(words: Sequence[str], directory: str) -> Inner:
    return Inner(argv=tuple(Arg(word) for word in words), directory=directory)


def _joined(left: str, right: str) -> str:
    return right if right.startswith(("/", "~")) else f"{left.rstrip('/')}/{right}"
