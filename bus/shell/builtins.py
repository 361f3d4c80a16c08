"""Applies a shell's own commands, which change the rest of a script: `x=1`, `export`, `set --`, `read`, `cd -`, `pushd`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, names, read_options
from bus.shell.words import MAYBE_EMPTY, UNKNOWN, UNSET, Output, WordScope, read_text, read_word

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node

_READ: Final = names("-p -d -n -N -t -u -a -i")
_MOST: Final = 64
_REFERENCE: Final = lazy_regex(r"-\w*n\w*")
_BUILTINS: Final = frozenset({"set", "setenv", "shift", "read", "mapfile", "readarray", "printf"})
STATEFUL: Final = _BUILTINS | {"cd", "pushd", "popd", "pwd", "alias", "hash"}
"""The commands whose effect on the rest of the script is known."""


def apply_builtin(program: str, args: Sequence[Arg], stdin: Output, printed: str | None, scope: WordScope) -> None:
    """Change the variables of `scope` as a builtin does."""
    if program not in _BUILTINS:
        return
    if program == "set":
        options = read_options(args, frozenset({"-o"}))
        if any(arg.text == "--" for arg in args[: options.end]) or (args and not args[0].text.startswith(("-", "+"))):
            set_parameters(scope, [arg.text for arg in args[options.end :]])
        _set_elsewhere(args, scope)
    elif program == "setenv":
        _set_elsewhere(args, scope)
    elif program == "shift":
        count = int(args[0].text) if args and args[0].text.isdigit() and len(args[0].text) < 4 else 1
        set_parameters(scope, [text for text in scope.variables.get("@", ()) if text][count:])
    elif program == "read":
        _read(args, stdin, scope)
    elif program in ("mapfile", "readarray"):
        operands = args[read_options(args, names("-d -n -O -s -u -C -c")).end :]
        name = operands[0].text if operands else "MAPFILE"
        scope.variables[name] = tuple(scope.budget.cut(stdin.text.splitlines())) if stdin.text else (UNKNOWN,)
        scope.origins[name] = stdin.programs
    elif program == "printf" and len(args) > 2 and args[0].text == "-v":
        scope.variables[args[1].text.partition("[")[0]] = (printed if printed is not None else UNKNOWN,)


def _set_elsewhere(args: Sequence[Arg], scope: WordScope) -> None:
    """Set a variable as fish (`set -l d /etc`) and csh (`set d = /etc`) do, where no other value is known."""
    words = [arg.text for arg in args]
    while words and words[0][:1] == "-":
        del words[0]
    name, values = (words[0], [word for word in words[1:] if word != "="]) if words else ("", [])
    if values and name.isidentifier() and name not in scope.variables:
        scope.variables[name] = tuple(scope.budget.cut(values))


def parameters(words: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The variables of a script or function that was called with these words, its own name first; none without words."""
    rest = words[1:] or ("",)
    own = {str(place): (text,) for place, text in enumerate(words)}
    return {"1": ("",), **own, "@": rest, "*": (" ".join(rest),)} if words else {}


def set_parameters(scope: WordScope, words: Sequence[str]) -> None:
    """Make `words` what `$1`, `$2` … and `$@` are."""
    for name in [name for name in scope.variables if name.isdigit() and name != "0"]:
        del scope.variables[name]
    scope.variables |= {str(place): (text,) for place, text in enumerate(words[:_MOST], 1)}
    scope.variables |= {"@": tuple(words) or ("",), "*": (" ".join(words),)}


def _read(args: Sequence[Arg], stdin: Output, scope: WordScope) -> None:
    options = read_options(args, _READ)
    targets = [arg.text for arg in args[options.end :]] or ["REPLY"]
    array = options.value("-a")
    lines = scope.budget.cut([line for line in (stdin.text or "").splitlines() if line.strip()])
    if array is not None:
        scope.origins[array.text] = stdin.programs
        scope.variables[array.text] = tuple(word for line in lines[:1] for word in line.split()) or (UNKNOWN,)
        return
    for place, name in enumerate(targets):
        last = place == len(targets) - 1
        found = [fields for line in lines if (fields := _field(line, place, last=last))]
        scope.variables[name] = tuple(found) or ((UNKNOWN,) if not lines else ("",))
        scope.origins[name] = stdin.programs


def _field(line: str, place: int, *, last: bool) -> str:
    fields = line.split(None, place) if last else line.split()
    return fields[place].strip() if len(fields) > place else ""


def enter(now: str, target: str) -> str:
    """The directory that `target` is, seen from the line's own, for a shell that is in `now`."""
    return target if now == "." or target.startswith(("/", "~", UNKNOWN, UNSET)) else f"{now}/{target}"


_ANYWHERE: Final = UNKNOWN + MAYBE_EMPTY
"""A directory that was entered before this line: it may be the root or the home directory too."""


class DirectoryStack:
    """The directories that `cd -` and `popd` go back to."""

    def __init__(self) -> None:
        self.previous = _ANYWHERE
        self.stack: list[str] = []

    def change(self, program: str, words: Sequence[str], now: str) -> str | None:
        """The directory to go back to for `cd -`, `popd` and a bare `pushd`; None where the words name another."""
        target = next((word for word in words if word == "-" or not word.startswith("-")), "")
        back: str | None = None
        if program == "popd":
            back = self.stack.pop() if self.stack else _ANYWHERE
        elif program == "pushd" and not target:
            back = self.stack.pop() if self.stack else _ANYWHERE
            self.stack.append(now)
        elif target == "-":
            back = self.previous
        elif target.startswith("+"):
            back = _ANYWHERE
        elif program == "pushd":
            self.stack.append(now)
        self.previous = now
        return back


def assign(node: Node, scope: WordScope) -> tuple[tuple[str, str], ...]:
    """Apply `x=1`, `export x=1` or `unset x` to `scope`. Returns the names and values that are set."""
    if node.type != "variable_assignment":
        if node.type == "unset_command":
            for child in node.named_children:
                scope.variables.pop(scope.text(child), None)
            return ()
        children = node.named_children
        if any(child.type == "word" and _REFERENCE.fullmatch(scope.text(child)) for child in children[:1]):
            scope.named |= {name: text for child in children for name, text in _declare(child, scope) if name != text}
            return ()
        return tuple(pair for child in children for pair in _declare(child, scope))
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None:
        return ()
    written = scope.text(name.named_children[0] if name.type == "subscript" else name)
    key = scope.named.get(written, written)
    texts, sources = read_text(value, scope) if value is not None else (("",), ())
    scope.origins[key] = sources
    # Emptied or cleared by the line itself is the very case where `rm -rf "$x/"` means `/`.
    texts = texts or ("",)
    if scope.text(node)[len(written) : len(written) + 2] == "+=":
        before = scope.variables.get(key, ("",))
        if value is not None and value.type == "array":
            texts = tuple(old for old in before if old) + texts
        else:  # cut below, where they are too many
            texts = tuple(old + new for old in before[: scope.budget.limits.word // len(texts) + 1] for new in texts)
    elif name.type == "subscript":
        texts = scope.variables.get(key, ()) + texts
    scope.variables[key] = tuple(scope.budget.cut(texts))
    return ((key, texts[0]),)


def _declare(node: Node, scope: WordScope) -> tuple[tuple[str, str], ...]:
    """One argument of `export` and its like, also where it is quoted: `export "x=/"`."""
    if node.type == "variable_assignment":
        return assign(node, scope)
    if node.type in ("string", "raw_string", "concatenation"):
        for text in read_word(node, scope).texts[:1]:
            name, equals, value = text.partition("=")
            if equals:
                scope.variables[name] = (value,)
                return ((name, value),)
    return ()
