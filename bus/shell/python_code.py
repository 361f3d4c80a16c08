"""Python code given on a command line: which files it deletes or writes, and which commands it runs, as far as literals tell.

Read with `ast`, never run. A call becomes the command of a shell that does the same: `shutil.rmtree(x)` is `rm -r x`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell import code_functions as functions
from bus.shell.inner import Arg, Inner
from bus.shell.programs.python_values import MOST, NODES, PythonValues
from bus.shell.programs.service_calls import LIBRARIES, deleted_address, library_call
from bus.shell.programs.unsaid_calls import unsaid_calls
from bus.shell.scanned_code import programs_named
from bus.shell.words import UNKNOWN

_MOST_CALLS: Final = 512
_LONGEST: Final = 64 * 1024
_LONGEST_CHAIN: Final = 400
_MOST_FORWARDED: Final = 32
_CONNECTED: Final = lazy_regex(r"""\bconnect\(\s*['"]([^'"]*)""")
_PROGRAM: Final = lazy_regex(r"(?:sh|plumbum\.cmd)\.(\w+)")
"""Libraries whose functions are programs: `sh.rm("-rf", x)`."""
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
    reader = PythonCode(operands)
    reader.in_memory = bool(found := _CONNECTED.findall(code)) and all(name == ":memory:" for name in found)
    calls = reader.calls(tree)
    yield from (found := list(islice(calls, _MOST_CALLS)))
    yield from unsaid_calls(code, found)
    if "get_method" in code and "DELETE" in code:
        yield from _own_method(tree)
    if reader.cut or next(calls, None) is not None:
        yield Inner(unread=programs_named(code, functions.PYTHON_PROGRAMS))


class PythonCode(PythonValues):
    """State while one text is read from its beginning to its end."""

    def calls(self, tree: ast.AST) -> Iterator[Inner]:
        for one in getattr(tree, "body", ()) if isinstance(tree, ast.Module) else ():
            if isinstance(one, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom):
                self._note(one)  # a call may use it in a function above it
        self._bind_parameters(tree)
        nodes = 0
        left: list[ast.AST] = [tree]
        while left:
            node = left.pop()
            nodes += 1
            if nodes > NODES:
                self.cut = True
                return
            self._note(node)
            for one in getattr(node, "generators", ()):  # of a comprehension; what they bind is used before them
                self._note(one)
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and (forwards := self.forwarding.get(node.func.id)) is not None:
                    yield from self._forwarded(forwards, node)
                yield from self._call(node)
                yield from self._handed_over(node)
            elif isinstance(node, ast.With) and all(isinstance(one, ast.Pass) for one in node.body):
                yield from (path for item in node.items for path in self._emptied(item.context_expr))
            left.extend(
                one for one in reversed(list(ast.iter_child_nodes(node))) if not isinstance(one, ast.expr_context)
            )

    def _bind_parameters(self, tree: ast.AST) -> None:
        """Give the parameters of functions the values of their calls: `def f(p): …` and then `f("/etc")`."""
        nodes = list(islice(ast.walk(tree), NODES))
        functions = {one.name: one.args.args for one in nodes if isinstance(one, ast.FunctionDef)}
        for one in nodes:
            if isinstance(one, ast.FunctionDef) and one.args.vararg is not None:
                self.forwarding[one.name] = one
            elif isinstance(one, ast.ClassDef):
                made = next((part for part in one.body if getattr(part, "name", "") == "__init__"), None)
                if isinstance(made, ast.FunctionDef):
                    functions[one.name] = made.args.args[1:]
        for one in nodes:
            if isinstance(one, ast.Call):
                named = functions.get(one.func.id) if isinstance(one.func, ast.Name) else None
                for parameter, value in zip(
                    one.func.args.args if isinstance(one.func, ast.Lambda) else named or (), one.args, strict=False
                ):
                    self.values[parameter.arg] = [*self.values.get(parameter.arg, ()), *self.texts(value)][:MOST]
                    if isinstance(value, ast.Call | ast.Name) and (dotted := self.dotted(value)):
                        self.names.setdefault(parameter.arg, dotted)

    def _handed_over(self, node: ast.Call) -> Iterator[Inner]:
        """What a function runs that gets another one: `map(os.remove, …)`, `partial(os.system, …)`, `Thread(target=…)`."""
        for place, one in enumerate(node.args[:-1][:4]):
            if isinstance(one, ast.Name | ast.Attribute) and self.dotted(one) in functions.KNOWN:
                yield from self._call(ast.Call(func=one, args=node.args[place + 1 :], keywords=[]))
        target = self._keyword(node, "target") if node.keywords else None
        if target is not None and self.dotted(target) in functions.KNOWN:
            given = self._keyword(node, "args")
            yield from self._call(ast.Call(func=target, args=list(getattr(given, "elts", ())), keywords=[]))

    def _forwarded(self, function: ast.FunctionDef, call: ast.Call) -> Iterator[Inner]:
        """What a function with `*args` runs when it is called so: `def sh(*a): run(a)` and then `sh("rm", "x")`."""
        if function.args.vararg is None or self.forwards == _MOST_FORWARDED:
            return
        name = function.args.vararg.arg
        self.forwards += 1
        self.values[name] = [text for arg in call.args[len(function.args.args) :] for text in self.texts(arg)][:MOST]
        self.lists.add(name)
        for parameter, value in zip(function.args.args, call.args, strict=False):
            self.values[parameter.arg] = self.texts(value)
        for statement in function.body:
            for one in islice(ast.walk(statement), _MOST_CALLS):
                if isinstance(one, ast.Call):
                    yield from self._call(one)

    def _emptied(self, opened: ast.expr) -> Iterator[Inner]:
        """The file that `open(…, "w")` empties."""
        if isinstance(opened, ast.Call) and self.dotted(opened.func) in ("open", "io.open") and opened.args:
            mode = self._keyword(opened, "mode")
            if (self.texts(mode)[0] if mode is not None else self.argument(opened, 1))[:1] == "w":
                yield _argv(("truncate", "-s", "0", *self.texts(opened.args[0])), self.directory)

    def _note(self, node: ast.AST) -> None:
        """Apply an import, an assignment or a loop."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            whole = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            self.libraries.update(LIBRARIES.intersection(name.partition(".")[0] for name in whole))
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
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):  # `self.folder = folder`
                    self.values[f"{target.value.id}.{target.attr}"] = self.texts(node.value)
                self._bind(target, self.texts(node.value), self._sources(node.value))
                self._bind_chain(target, node.value)
                dotted = self.dotted(node.value)
                if isinstance(target, ast.Name) and self.is_list(node.value):
                    self.lists.add(target.id)
                if isinstance(target, ast.Name) and isinstance(node.value, ast.Dict):
                    self.keyed[target.id] = {
                        self.argument_of(key): self.texts(value)
                        for key, value in zip(node.value.keys, node.value.values, strict=True)
                        if key is not None
                    }
                if isinstance(target, ast.Name) and dotted:
                    self.names[target.id] = dotted
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            if node.func.attr in ("append", "extend", "insert") and node.args and node.func.value.id in self.values:
                held, more = self.values[node.func.value.id], self.texts(node.args[-1])
                first = node.func.attr == "insert" and self.argument(node) == "0"
                self.values[node.func.value.id] = ([*more, *held] if first else [*held, *more])[:MOST]
            elif node.func.attr == "add_argument" and (default := self._keyword(node, "default")) is not None:
                self.values[f"--{self.argument(node).lstrip('-').replace('-', '_')}"] = self.texts(default)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            before, more = self.values.get(node.target.id, [UNKNOWN]), self.texts(node.value)
            listed = not before or len(before) > 1 or self.is_list(node.value) or self.is_list(node.target)
            joined = [*before, *more] if listed else [old + new for old in before for new in more[:8]]
            self.values[node.target.id] = joined[:MOST]
        elif isinstance(node, ast.For | ast.comprehension):
            self._bind(node.target, self.texts(node.iter), self._sources(node.iter))
            self._bind_chain(node.target, node.iter)
            items = getattr(node.iter, "elts", ())
            if (
                isinstance(node.target, ast.Name)
                and items
                and all(isinstance(one, ast.List | ast.Tuple) for one in items)
            ):
                self.rows[node.target.id] = [self.texts(one) for one in items[:_MOST_FORWARDED]]
        elif isinstance(node, ast.With):
            for item in node.items:
                if item.optional_vars is not None:
                    self._bind_chain(item.optional_vars, item.context_expr)
                    self._bind(item.optional_vars, self.texts(item.context_expr), self._sources(item.context_expr))

    def _bind(self, target: ast.expr, texts: list[str], sources: tuple[str, ...]) -> None:
        for name in [target] if isinstance(target, ast.Name) else getattr(target, "elts", []):
            if isinstance(name, ast.Name):
                self.values[name.id] = texts
                self.sources[name.id] = sources

    def _bind_chain(self, target: ast.expr, value: ast.expr) -> None:
        """Note which calls a variable comes from, where a library of services is imported."""
        if self.libraries and isinstance(target, ast.Name) and len(chain := self.chain(value)) <= _LONGEST_CHAIN:
            self.chains[target.id] = chain

    def _lists_keys(self, node: ast.expr) -> bool:
        """Whether an argument has what a client of Redis found: `*r.keys()`, `k` of `for k in r.scan_iter()`."""
        chain = self.chain(node.value if isinstance(node, ast.Starred) else node)
        return "redis" in self.libraries and chain.endswith((".keys", ".scan_iter"))

    def _keyword(self, node: ast.Call, name: str) -> ast.expr | None:
        return next((word.value for word in node.keywords if word.arg == name), None)

    def _sources(self, node: ast.AST) -> tuple[str, ...]:
        """The sources of a text that was fetched or decoded, as program names."""
        found: dict[str, None] = {}
        for one in islice(ast.walk(node), 100):
            if isinstance(one, ast.Call):
                name = self.dotted(one.func)
                if name in functions.FETCHERS or name.endswith((".urlopen", ".recv")):
                    found[_NETWORK] = None
                elif name in functions.DECODERS:
                    found["base64"] = None
            elif isinstance(one, ast.Name):
                found |= dict.fromkeys(self.sources.get(one.id, ()))
        return tuple(found)

    def _call(self, node: ast.Call) -> Iterator[Inner]:
        name, method = self.dotted(node.func), node.func.attr if isinstance(node.func, ast.Attribute) else ""
        directory = self.directory
        if (where := self._keyword(node, "cwd")) is not None:
            directory = next(iter(self.texts(where)), "")
        if name == "os.chdir":
            self.directory = self.argument(node)
        elif name in functions.COMMANDS:
            command = functions.COMMANDS[name]
            given = [*node.args, *(one.value for one in node.keywords if one.arg in ("path", "src", "dst"))]
            paths = [text for arg in given[: 2 if command[0] in functions.TWO else 1] for text in self.texts(arg)]
            yield _argv((*command, *paths), directory)
        elif name in functions.SHELLS or method == "system":
            texts = self.texts(node.args[0]) if node.args else [UNKNOWN]
            for text in texts[:_MOST_FORWARDED] or [UNKNOWN]:
                yield Inner(script=text, sources=self._sources(node), directory=directory)
        elif name in functions.SPAWNS or name in functions.EXECS:
            yield from self._spawn(node, name, directory)
        elif name == "os.open" and len(node.args) > 1:
            flags = {one.attr for one in ast.walk(node.args[1]) if isinstance(one, ast.Attribute)}
            if flags & {"O_TRUNC", "O_WRONLY", "O_RDWR"}:
                emptied = "O_TRUNC" in flags
                yield _argv((*(("truncate", "-s", "0") if emptied else ("tee",)), *self.texts(node.args[0])), directory)
        elif (program := _PROGRAM.fullmatch(name)) is not None:
            yield _argv((program[1], *(text for arg in node.args for text in self.texts(arg))), directory)
        elif name == "urllib.request.urlretrieve" and len(node.args) > 1:
            yield _argv(("curl", "-o", self.argument(node, 1), self.argument(node)), directory)
        elif name.endswith("control.purge"):
            yield _argv(("celery", "purge", "-f"), directory)
        elif name in ("open", "io.open", "codecs.open"):
            mode = self._keyword(node, "mode")
            text = self.texts(mode)[0] if mode is not None else self.argument(node, 1)
            if any(sign in text for sign in "wax+") and UNKNOWN not in text and node.args:
                yield _argv(("tee", *(["-a"] if "a" in text else []), *self.texts(node.args[0])), directory)
        elif name in ("exec", "eval", "compile") and node.args:
            yield from self._executed(node)
        elif name in ("os.kill", "os.killpg") and len(node.args) > 1:
            signal = self.argument(node, 1).rpartition(".")[2].removeprefix("SIG")
            yield _argv(("kill", "-9" if signal == UNKNOWN else f"-{signal}", self.argument(node)), directory)
        elif name in ("os.chmod", "os.chown") and len(node.args) > 1:
            mode = node.args[1]
            number = mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, int) else None
            value = f"{number:o}" if number is not None and name == "os.chmod" else UNKNOWN
            yield _argv((name.removeprefix("os."), value, *self.texts(node.args[0])), directory)
        elif (request := self._deletion(node, name, method)) is not None:
            yield request._replace(directory=directory)
        elif method in functions.REMOTE and isinstance(node.func, ast.Attribute) and node.args:
            if not functions.REMOTE[method].isdisjoint(one.partition(".")[0] for one in self.names.values()):
                yield Inner(script=self.argument(node), remote=True)
        elif method == "extractall" or name == "shutil.unpack_archive":
            folders = node.args[-1:] or [one.value for one in node.keywords if one.arg in ("path", "extract_dir")]
            yield _argv(("tar", "-x", "-C", *(text for one in folders for text in self.texts(one)[:1])), directory)
        elif method in ("execute", "executescript") and node.args:
            yield _argv(("sqlite3", ":memory:" if self.in_memory else "database", self.argument(node)), directory)
        elif method in ("delete", "unlink") and any(self._lists_keys(arg) for arg in node.args):
            yield _argv(("redis-cli", "FLUSHDB"), directory)
        elif method == "reset" and self._keyword(node, "working_tree") is not None:
            yield _argv(("git", "reset", "--hard"), directory)
        elif method in ("execute_command", "send_command") and node.args:
            yield _argv(("redis-cli", *(text for arg in node.args for text in self.texts(arg))), directory)
        elif method in functions.SERVICES:
            yield _argv(functions.SERVICES[method], directory)
        elif method.startswith(("delete_", "terminate_", "deregister_")) and "boto3" in self.names:
            yield _argv(("aws", "service", method.replace("_", "-")), directory)
        elif isinstance(node.func, ast.Attribute) and getattr(node.func.value, "attr", "") == "git":
            words = [text for arg in node.args for text in self.texts(arg)]
            yield _argv(("git", method.replace("_", "-"), *words), directory)
        elif method == "write" and isinstance(node.func, ast.Attribute) and node.args and self.argument(node) == "":
            yield from self._emptied(node.func.value)
        elif (
            method in ("write_text", "write_bytes")
            and isinstance(node.func, ast.Attribute)
            and self.argument(node) == ""
        ):
            yield _argv(("truncate", "-s", "0", *self.texts(node.func.value)), directory)
        elif method in functions.METHODS and isinstance(node.func, ast.Attribute):
            yield _argv((*functions.METHODS[method], *self.texts(node.func.value)), directory)
        elif method in ("rename", "replace") and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            yield _argv(("mv", *self.texts(node.func.value), self.argument(node)), directory)
        elif name == "os.dup2" and "socket" in self.names:
            yield Inner(sources=("nc",))

    def _deletion(self, node: ast.Call, name: str, method: str) -> Inner | None:
        """The command that does the same as an HTTP request with the method DELETE, or as a call of a service's library."""
        given = [*node.args, *(one.value for one in node.keywords if one.arg in ("method", "url", "fullurl"))]
        method = method or name.rpartition(".")[2]
        if method == "delete" or method in functions.REQUESTS or name in functions.REQUESTS:
            texts = [text for one in given[:4] for text in self.texts(one)]
            host = self.texts(node.func.value)[0] if isinstance(node.func, ast.Attribute) else ""
            if method == "delete" and host.startswith("http") and texts[:1] and texts[0].startswith("/"):
                texts = [host + texts[0]]
            if request := deleted_address([*texts, *(["DELETE"] if method == "delete" else [])], host):
                return request
        if method == "delete" and not node.args and self.chain(node.func).endswith(".query.delete"):  # SQLAlchemy
            return _argv(("sqlite3", "database", "DELETE FROM x"), "")
        command = library_call(self.libraries, self.chain(node.func)) if self.libraries else None
        return None if command is None else _argv(command, "")

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
        rows = self._rows(first) if name in functions.SPAWNS else []
        if rows:
            yield from (_argv(row, directory) for row in rows if row)
            return
        shell = self._keyword(node, "shell")
        given = self._keyword(node, "input")
        if given is not None and words[:1]:
            yield Inner(script=self.texts(given)[0], sources=self._sources(given), directory=directory)
        listed = len(words) != 1 or self.is_list(first)
        if (isinstance(shell, ast.Constant) and shell.value) or not listed:
            for text in (words[:1] if self.is_list(first) else words[:_MOST_FORWARDED]) or [""]:
                yield Inner(script=text, sources=self._sources(first), directory=directory)
        elif words:
            yield _argv(words, directory)

    def _rows(self, given: ast.expr) -> list[list[str]]:
        """The commands that one call runs in turn: `for c in [["rm", "x"], …]: run(c)`, or of texts with `run(c.split())`."""
        if isinstance(given, ast.Name):
            return self.rows.get(given.id, [])
        if isinstance(given, ast.Call):
            split = self.dotted(given.func) == "shlex.split"
            if not split and getattr(given.func, "attr", "") != "split":
                return []
            whole = given.args[0] if split and given.args else getattr(given.func, "value", given)
            return [text.split() for text in self.texts(whole)[:_MOST_FORWARDED]]
        return []

    def _executed(self, node: ast.Call) -> Iterator[Inner]:
        """`exec("…")` and `exec(urlopen(…).read())`."""
        text = self.argument(node)
        if UNKNOWN not in text and len(text) < _LONGEST:
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                tree = None
            if tree is not None and tree.body:
                inside = PythonCode()
                inside.names, inside.values = dict(self.names), dict(self.values)
                inside.libraries = self.libraries
                yield from (one for one in inside.calls(tree) if one.argv or one.script)
                self.cut = self.cut or inside.cut
        yield Inner(sources=self._sources(node))


def _own_method(tree: ast.AST) -> Iterator[Inner]:
    """The requests of code whose `get_method` returns DELETE: to each address in it."""
    texts = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    for text in texts[:_MOST_CALLS]:
        if request := deleted_address([text, "DELETE"]):
            yield request


def _argv(words: Sequence[str], directory: str) -> Inner:
    return Inner(argv=tuple(Arg(word) for word in words), directory=directory)
