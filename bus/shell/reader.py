"""Reads a script: its statements in order, from the syntax tree or from a line of plain words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from bus.lazy.regex import lazy_regex
from bus.shell.builtins import assign
from bus.shell.commands import Command, calls_itself, is_silent, printed, program_name, read_own_output
from bus.shell.inner import Arg, Inner
from bus.shell.line_state import NOTHING, CommandContext, together
from bus.shell.parsing import as_bash, syntax_tree, unread_names
from bus.shell.plain_lines import plain_statements
from bus.shell.programs.variables import variable_script
from bus.shell.quoting import first_sign, may_substitute, unseen_substitutions, without_backticks
from bus.shell.redirections import read_redirections
from bus.shell.shell_state import Shell
from bus.shell.words import UNKNOWN, Output, bare_words, clean, read_text, read_word, unescaped

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node

_CHANGES_DIRECTORY: Final = lazy_regex(r"\b(?:cd|pushd)\s")
_MOST_ROUNDS: Final = 8
"""Values for which the body of a loop is read on its own."""
_LINE_END: Final = lazy_regex(rb"(?<!\\)\n")
_ROUGH_PART: Final = lazy_regex(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^;&|\n()])+""", re.DOTALL)


class Reader(Shell):
    """Reads one script and updates the shell's state on the way."""

    def script(self, text: str, scripts: int, stdin: Output = NOTHING) -> str | None:
        """Read `text` as a whole script with the standard input `stdin`. Returns its output where that is known."""
        self.scripts = scripts
        text = clean(text)
        if (statements := plain_statements(text)) is not None:
            return self.run_plain(statements, stdin)
        return self.run_tree(text, stdin)

    def run_tree(self, text: str, stdin: Output) -> str | None:
        """Read a script by its syntax tree. Returns its output where that is known."""
        self.scope.source = as_bash(text).encode("utf-8", "replace")
        tree = syntax_tree(self.scope.source, self.found.budget.limits.parse_seconds)
        if tree is None:
            self._rough(text)
            self.found.budget.stop("it takes too long to be parsed")
            return None
        root = tree.root_node
        if root.has_error:
            self.found.incomplete = True
            self.found.unread |= unread_names(root, self.scope.source)
        texts = [self.visit(one, stdin).text for one in (root.named_children if root.type == "program" else (root,))]
        if may_substitute(self.scope.source, len(self.seen)):
            for unseen in unseen_substitutions(root, self.scope.source, self.seen):
                if isinstance(unseen, str):
                    self._nested(Inner(script=unseen), CommandContext(), own=False)
                else:
                    self.visit(unseen, NOTHING)
        return texts[0] if len(texts) == 1 else None

    def visit(self, node: Node, stdin: Output) -> Output:
        """Read a statement. Returns its output, where that is known, and the programs that it runs."""
        if not self.found.may_go_on():
            return NOTHING
        self.found.depth += 1
        first = len(self.found.items)
        try:
            text = self._statement(node, stdin)
        finally:
            self.found.depth -= 1
        return Output(text, self.programs_from(first))

    def _statement(self, node: Node, stdin: Output) -> str | None:
        kind = node.type
        if kind == "command":
            return self._command(node, stdin, ())
        if kind == "redirected_statement":
            return self._redirected(node, stdin)
        if kind == "pipeline":
            return self._pipeline(node.named_children, stdin)
        if kind in ("variable_assignment", "declaration_command", "unset_command"):
            for name, value in self._assign(node):
                for inner in variable_script(name, value, self.found.files.texts):
                    self._nested(inner, CommandContext(), own=False)
            return None
        if kind == "function_definition":
            self._function(node)
            return None
        if kind in ("command_substitution", "process_substitution"):
            return self._substitution(node, stdin)
        if kind == "subshell":
            return self._subshell(node, stdin)
        if kind in ("if_statement", "case_statement"):
            return self._branches(node, stdin)
        if kind == "for_statement":
            self._loop(node, stdin)
        elif kind == "ERROR":
            self._rough(self.scope.text(node))
        elif kind == "list":
            return self._list(node.named_children, stdin)
        texts = [(child.type, self.visit(child, stdin).text) for child in node.named_children]
        is_loop = kind in ("for_statement", "while_statement")
        return together([text for type_, text in texts if type_ == "do_group" or not is_loop])

    def _list(self, children: list[Node], stdin: Output) -> str | None:
        """Read `a && b || c`. The later commands may not run, so a variable that they set may also keep its old value."""
        texts = [self.visit(child, stdin).text for child in children[:1]]
        for child in children[1:]:
            before = self.scope.variables
            self.scope.variables = dict(before)
            texts.append(self.visit(child, stdin).text)
            self.may_keep(before)
        return together(texts)

    def _branches(self, node: Node, stdin: Output) -> str | None:
        """Read every branch. Afterwards a variable may have the value of any of them. The output is that of all branches."""
        before = dict(self.scope.variables)
        found: dict[str, tuple[str, ...]] = {}
        texts = []
        conditions = {child.id for child in node.children_by_field_name("condition")}
        for child in node.named_children:
            text = self.visit(child, stdin).text
            texts += [text] if child.id not in conditions else []
            for name, values in self.scope.variables.items():
                if values != before.get(name):
                    found[name] = tuple(self.found.budget.cut(tuple(dict.fromkeys((*found.get(name, ()), *values)))))
        for name, values in found.items():
            both = tuple(dict.fromkeys((*before.get(name, ()), *values)))
            self.scope.variables[name] = tuple(self.found.budget.cut(both))
        return together(texts) if node.type == "if_statement" else None

    def _subshell(self, node: Node, stdin: Output) -> str | None:
        """Read what runs in a process of its own: its variables and its directory end with it."""
        variables, directory = dict(self.scope.variables), self.directory
        children = node.named_children
        texts = [self.visit(child, stdin).text for child in children]
        self.scope.variables, self.directory = variables, directory
        return together(texts)

    def _substitution(self, node: Node, stdin: Output) -> str | None:
        start = first_sign(node, self.scope.source)
        self.seen.add(start)
        text = self.scope.source[start : node.end_byte]
        if text[:1] != b"`" or b"\\" not in text:
            return self._subshell(node, stdin)
        return self._nested(
            Inner(script=without_backticks(text[1:].removesuffix(b"`"))), CommandContext(stdin), own=False
        )

    def substituted(self, node: Node) -> Output:
        """Read a `$(…)`, `<(…)` or `>(…)`. The last reads the output of the command that has it as an argument."""
        sign = self.scope.source[node.start_byte : node.start_byte + 1]
        if sign == b"<":  # `<(…)` is the name of a file
            output = self.visit(node, NOTHING)
            return Output(self.found.files.keep(output.text), output.programs)
        if sign != b">":
            output = self.visit(node, NOTHING)
            if not output.programs and any(child.type == "file_redirect" for child in node.named_children[:1]):
                return Output(output.text, ("cat",))  # `$(< list)`: the shell itself reads the file, as `cat` does
            return output
        fed, name = self.feeding
        own = (program_name(self.scope.text(name)),) if name is not None else ()
        return self.visit(node, Output(fed.text, fed.programs + own))

    def _pipeline(self, stages: list[Node], stdin: Output) -> str | None:
        output = stdin
        first = len(self.found.items)
        for stage in stages:
            if stage.type == "comment":
                continue
            one = self.visit(stage, output)
            self.note_own_output(first)
            output = Output(one.text, output.programs + one.programs)
        return output.text

    def _redirected(self, node: Node, stdin: Output) -> str | None:
        redirects = [child for child in node.named_children if child.type.endswith("_redirect")]
        text = self._with_redirects(node.child_by_field_name("body"), redirects, stdin)
        self._after_heredoc(redirects, Output(text, tuple(one.program for one in self.found.items[-1:])))
        return text

    def _with_redirects(self, body: Node | None, redirects: list[Node], stdin: Output) -> str | None:
        """Read a statement with redirections. The grammar gives them to a whole list; they belong to its last command."""
        text: str | None
        if body is not None and body.type == "command":
            return self._command(body, stdin, redirects)
        if body is not None and body.type in ("pipeline", "list", "negated_command"):
            *before, last = body.named_children
            first = len(self.found.items)
            for one in before:
                output = self.visit(one, stdin)
                stdin = Output(output.text, stdin.programs + output.programs) if body.type == "pipeline" else stdin
            text = self._with_redirects(last, redirects, stdin)
            if body.type == "pipeline":
                read_own_output(self.found.items, first)
            return text
        text = None
        call, argv = read_redirections(redirects, stdin, self.scope, self.found)
        if body is not None and not argv and call.redirects and not is_silent(self.scope.text(body)):
            self.found.items.append(Command(UNKNOWN, redirects=call.redirects, directory=self.directory))
        elif body is None or argv or call.redirects:  # `> log rm -rf /`: the grammar takes the command for targets
            text = self.run(argv, call._replace(piped_from=stdin.programs))
        return text if body is None else self.visit(body, call.stdin).text

    def _after_heredoc(self, redirects: list[Node], output: Output) -> None:
        """Read the rest of the line behind `<<EOF`, which is a child of the heredoc in the tree: `<<EOF | bash`."""
        for redirect in redirects:
            for child in redirect.named_children if redirect.type == "heredoc_redirect" else ():
                if child.type == "pipeline":
                    self._pipeline(child.named_children, output)
                elif child.type in ("command", "list", "redirected_statement", "subshell", "compound_statement"):
                    self.visit(child, NOTHING)

    def _loop(self, node: Node, stdin: Output) -> None:
        """Read `for x in a b`: x is any of the values. A body that changes the directory is read once for each value."""
        name, values = node.child_by_field_name("variable"), node.children_by_field_name("value")
        if name is not None:
            words = [read_word(value, self.scope) for value in values]
            texts = [text for word in words for text in word.texts]
            if not values:  # `for x; do …`
                texts = list(self.scope.variables.get("@", ()))
            self.scope.origins[self.scope.text(name)] = tuple([one for word in words for one in word.sources])
            key, texts = self.scope.text(name), list(self.found.budget.cut(texts)) or [UNKNOWN]
            body, directory = node.child_by_field_name("body"), self.directory
            if body is not None and len(texts) > 1 and _CHANGES_DIRECTORY.search(self.scope.text(body)):
                for text in texts[:_MOST_ROUNDS]:
                    self.scope.variables[key], self.directory = (text,), directory
                    self.visit(body, stdin)
            self.scope.variables[key], self.directory = tuple(texts), directory

    def _assign(self, node: Node) -> tuple[tuple[str, str], ...]:
        """Apply `x=1`, `export x=1` or `unset x`. Returns the names and values that are set."""
        pairs = assign(node, self.scope)
        if self.inside:
            self.made.update(name for name, _ in pairs)
        return pairs

    def _function(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return
        key = self.scope.text(name)
        self.found.functions[key] = (self.scope.source, body)
        before = self.inside
        self.inside = (*before, key)
        first = len(self.found.items)
        variables, directory = dict(self.scope.variables), self.directory
        self.visit(body, NOTHING)
        self.scope.variables, self.directory, self.inside = variables, directory, before
        if calls_itself(key.lower(), self.found.items[first:], self.scope.source[body.start_byte : body.end_byte]):
            self.found.items.append(Command(key.lower(), depth=self.scripts, fork_bomb=True))

    def _rough(self, text: str) -> None:
        """Read a text without the grammar: cut at `;`, `|`, `&` and line ends, so that its plain commands are still seen."""
        for part in _ROUGH_PART.finditer(text):
            if not self.found.may_go_on():
                return
            if words := bare_words(part[0], self.found.budget):
                self.run([Arg(word) for word in words], CommandContext())

    def _command(self, node: Node, stdin: Output, redirects: list[Node] | tuple[()]) -> str | None:
        self.feeding = (self._here_string(node, redirects, stdin), node.child_by_field_name("name"))
        *before, children = self._lines(node)
        for line in before:
            self._simple(node, line, stdin, ())
            stdin = NOTHING
        return self._simple(node, children, stdin, redirects)

    def _here_string(self, node: Node, redirects: list[Node] | tuple[()], stdin: Output) -> Output:
        """What a command reads, where it may pass it on to a `>(…)`."""
        if b">(" in self.scope.source:
            for one in (*redirects, *node.named_children):
                if one.type == "herestring_redirect":
                    return Output(next(iter(read_text(one.named_children[-1], self.scope).texts), ""))
        return stdin

    def _lines(self, node: Node) -> list[list[Node]]:
        """The children by line: after `a | b | c` the grammar (0.25.1) reads `rm x > f` on the next line as words of c."""
        children = node.children
        if self.scope.source.find(b"\n", node.start_byte, node.end_byte) < 0:
            return [children]
        lines: list[list[Node]] = [[]]
        end = node.start_byte
        for child in children:
            if lines[-1] and _LINE_END.search(self.scope.source, end, child.start_byte):
                lines.append([])
            lines[-1].append(child)
            end = child.end_byte
        return lines

    def _simple(self, node: Node, children: list[Node], stdin: Output, redirects: list[Node] | tuple[()]) -> str | None:
        argv: list[Arg] = []
        assignments: list[tuple[str, str]] = []
        own: list[Node] = []
        for child in children:
            kind = child.type
            if kind == "word":
                argv.append(Arg(unescaped(self.scope.text(child))))
                continue
            if kind == "variable_assignment":
                before = dict(self.scope.variables)
                assignments.extend(self._assign(child))
                self.scope.variables = before  # `x=1 cmd` sets x for cmd alone, after the words of the line are read
                continue
            if kind in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                own.append(child)
                continue
            if kind in ("subshell", "compound_statement"):  # `time (rm x)`
                self.visit(child, stdin)
            if kind in ("subshell", "compound_statement") or (not child.is_named and kind not in ("==", "=~", "=")):
                continue
            word = read_word(child.children[0] if kind == "command_name" else child, self.scope)
            argv += [Arg(text, word.sources) for text in word.texts]
        if redirects and self.scope.source[node.end_byte : redirects[0].start_byte].strip() == b"-":
            argv.append(Arg("-"))  # `python3 - <<EOF`: in no node of the tree
        call = CommandContext(stdin)
        if own or redirects:
            if b">(" in self.scope.source and argv:
                fed, name = self.feeding
                text = printed(program_name(argv[0].text), tuple(arg.text for arg in argv[1:]), fed)
                self.feeding = (Output(text, fed.programs), name)
            call, more = read_redirections([*own, *redirects], stdin, self.scope, self.found)
            argv += more
        if argv and argv[0].text == "[":
            argv = []  # it only tests a condition, like `[[`
        return self.run(
            argv, CommandContext(call.stdin, tuple(assignments), call.redirects, stdin.programs or call.stdin.programs)
        )
