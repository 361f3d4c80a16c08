"""Perl, Ruby, JavaScript, PHP, Lua, R, Julia and Elixir on a command line: a scan for calls that delete, write or run.

No grammar: the names of such functions are looked for, and the literals behind them are read up to the end of the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from bus.shell.code_functions import COPY, DELETE, LANGUAGES, LINK, MOVE, SCRIPT, TREE, WRITE
from bus.shell.inner import Arg, Inner
from bus.shell.words import UNKNOWN

_MOST: Final = 64
_LONGEST: Final = 64 * 1024
_LONGEST_CALL: Final = 2048

_CALLS: Final = {
    id(table): re.compile(
        r"(?<![\w$'\"])(?:\w+\.)*?("
        + "|".join(re.escape(name) for name in sorted(table, key=len, reverse=True))
        + r")(?![\w-])"
    )
    for table in LANGUAGES.values()
}
_TOKEN: Final = re.compile(
    r"""\s+|'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"|`((?:\\.|[^`\\])*)`|q[qwx]?\{([^}]*)\}|q[qwx]?\(([^)]*)\)|%w\[([^\]]*)\]"""
    r"""|([$@]?[A-Za-z_][\w.]*(?:::\w+)*)|(<[^<>\n]+>)|(\d+)|(.)""",
    re.DOTALL,
)
_ASSIGNED: Final = re.compile(r"""[$@]?([A-Za-z_]\w*)\s*=\s*(?:'((?:\\.|[^'\\\n])*)'|"((?:\\.|[^"\\\n])*)")""")
_BACKTICKS: Final = re.compile(r"`((?:\\.|[^`\\])+)`|(?:%x|\bqx)\s*[{(\[|!]([^})\]|!]+)|\bqx/((?:\\.|[^/\\])+)/")
_PLAIN: Final = (
    (re.compile(r"""\[\s*['"](\w+)['"]\s*\]\s*\("""), r".\1("),  # fs['rmSync'](
    (re.compile(r"""(['"])\s*\+\s*\1"""), ""),  # 'exec' + 'Sync'
    (re.compile(r"""\[\s*['"](\w+)['"]\s*\]\s*\("""), r".\1("),
    (re.compile(r"""\brequire\(\s*['"](?:[^'"]*/)?(?:node:)?([\w-]+)['"]\s*\)"""), r"\1"),
    (re.compile(r"""\beval\s*\(?\s*['"](?=\s*\w+\s*\()"""), "eval "),  # eval "system(…)"
    (re.compile(r"process\.cwd\(\)|Dir\.pwd|\bgetcwd\(\)|\b__dirname\b"), "'.'"),
)
"""Spellings of a call, and a plainer one for each."""
_RENAMED: Final = re.compile(
    r"\b(\w+)\s*(?::|\bas\b)\s*(\w+)(?=[^{}()]{0,400}\}\s*(?:=\s*(?:await\s+)?(?:child_process|fs|rimraf|import)|from\b))"
)
"""`{rmSync: r} = require('fs')`, `import {rmSync as r} from 'fs'`."""
_OPERANDS: Final = re.compile(r"process\.argv\[\d\]|\$argv\[\d\]|[@$]?\bARGV(?:\[\d\])?")
_DIRECTORY_SET: Final = re.compile(r"""(?:FileUtils\.cd|\bchdir)\s*\(?\s*['"]([^'"]+)['"]""")
_PATHNAME: Final = re.compile(r"""\bPathname(?:\.new)?\(\s*['"]([^'"]+)['"]\s*\)\.(rmtree|delete|unlink|rmdir)\b""")
_OPENED: Final = re.compile(
    r"""\b(?:File\.open|File\.new|fopen|openSync|createWriteStream|io\.open)\s*\(?\s*['"]([^'"]+)['"]\s*(?:,\s*['"](\w+)\+?['"])?"""
)
_PERL_OPENED: Final = re.compile(
    r"""\bopen\s*\(?\s*[^,;()\n]{1,64},\s*(['"])\s*(\||-\||\+?>{1,2})?\s*([^'"|]{0,512}?)\s*(\|)?\1(?:\s*,\s*(['"])([^'"]*)\5)?"""
)
_PRINTS: Final = re.compile(r"\b(?:print|printf|puts|say|write|fwrite|fputs|pipe|writeSync)\b|<<")
_LISTED: Final = frozenset({"pcntl_exec", "system2", "System.cmd"})
"""Functions that get a program and its arguments."""
_SQL: Final = re.compile(r"(?i)\s*(?:drop|delete|truncate|update|alter)\s")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?![\w.])")
_MAPPED: Final = re.compile(r"""array_(?:map|walk)\(\s*['"](\w+)['"]\s*,""")
_HOME: Final = re.compile(
    r"""#\{ENV\[['"]HOME['"]\]\}|#\{Dir\.home\}|\$\{(?:process\.env\.HOME|os\.homedir\(\)|homedir\(\))\}|\$ENV\{['"]?HOME['"]?\}"""
)
_HOMES: Final = re.compile(
    r"""ENV\[['"]HOME['"]\]|Dir\.home|process\.env\.(?:HOME|USERPROFILE)|(?:require\(['"](?:node:)?os['"]\)|os)\.homedir\(\)|homedir\(\)"""
    r"""|\$ENV\{['"]?HOME['"]?\}|getenv\(['"]HOME['"]\)|\$_(?:SERVER|ENV)\[['"]HOME['"]\]"""
)
_INSIDE: Final = re.compile(r"#\{[^}]*\}|\$\{[^}]*\}|\$\w+|@\w+")
_GATHERERS: Final = frozenset(
    {"glob", "Dir.glob", "readdirSync", "fs.readdirSync", "scandir", "Dir.children", "Dir.entries"}
)
_RUNS_TEXT: Final = re.compile(
    r"\b(?:eval|instance_eval|new\s+Function|Function|vm\.run\w+|runInThisContext|loadstring|load|include|require|system|exec)\b"
)
_NETWORK: Final = re.compile(
    r"\b(?:fetch|https?\.get|LWP|HTTP::Tiny|open-uri|URI\.open|Net::HTTP|urlopen|curl_exec|axios)\b"
    r"|\b(?:get|file_get_contents|include|require|import)\s*\(?\s*['\"]https?://"
    r"|[`(]\s*(?:curl|wget)\s"
)
_DECODES: Final = re.compile(
    r"\b(?:atob|base64_decode|decode_base64|Base64\.(?:strict_|urlsafe_)?decode64|unpack1?)\b|['\"]base64['\"]"
)


def scanned_calls(program: str, code: str, operands: Sequence[str] = ()) -> Iterator[Inner]:
    """What `code`, given these operands, deletes, writes and runs, as the commands of a shell that do the same."""
    table = LANGUAGES.get(program)
    if table is None or len(code) > _LONGEST:
        return
    if operands:
        code = _OPERANDS.sub(lambda _: f"'{operands[0]}'", code)
    directory = _DIRECTORY_SET.search(code)
    for one in islice(_calls(table, program, code), _MOST):
        yield one._replace(directory=directory[1]) if directory else one
    if _RUNS_TEXT.search(code):
        if _NETWORK.search(code):
            yield Inner(sources=("curl",))
        if _DECODES.search(code):
            yield Inner(sources=("base64",))


def _calls(table: Mapping[str, tuple[str, ...]], program: str, code: str) -> Iterator[Inner]:
    code = _plain(_MAPPED.sub(r"\1(", _HOMES.sub("'~'", _HOME.sub("~", code))))
    variables = {match[1]: match[2] or match[3] or "" for match in _ASSIGNED.finditer(code)}
    gathered: list[str] | None = None
    for match in islice(_CALLS[id(table)].finditer(code), _MOST * 4):
        command = table[match[1]]
        words, end = _arguments(code, match.end(), variables)
        if not words:
            # `Dir.glob("/etc/*").each { |f| File.delete(f) }`: what it deletes is in another call's literals.
            if gathered is None:
                gathered = _gathered(code)
            words = gathered if command[0] == "rm" else []
        if command[0] in ("kill", "chmod"):
            command, words = _numbered(command, code[match.end() : end], words)
        if not words:
            continue
        if command is SCRIPT:
            if _SQL.match(words[0]):  # `$db->exec("DROP TABLE users")`
                yield Inner(argv=(Arg("sqlite3"), Arg("database"), Arg(words[0])))
                continue
            listed = len(words) > 1 and (
                program in ("perl", "ruby") or match[1] in _LISTED or "[" in code[match.end() : end]
            )
            yield Inner(argv=tuple(map(Arg, words))) if listed else Inner(script=words[0])
            continue
        if command is DELETE and re.search(r"recursive['\"]?\s*(?::|=>?)\s*(?:true|1|T)", code[match.end() : end]):
            command = TREE
        if command is WRITE and words[1:2] == [""]:
            yield Inner(argv=tuple(map(Arg, ("truncate", "-s", "0", words[0]))))
        taken = words if command[0] in ("rm", "chmod", "kill") else words[: 2 if command in (MOVE, COPY, LINK) else 1]
        yield Inner(argv=tuple(map(Arg, (*command, *taken))))
    if program in ("perl", "ruby", "jruby", "php", "julia"):
        for match in _BACKTICKS.finditer(code):
            yield Inner(script=_interpolated(match[1] or match[2] or match[3].replace("\\/", "/"), variables))
    yield from _opened(code, program)


def _plain(code: str) -> str:
    """`code` with fewer spellings of the same calls."""
    for pattern, plainer in _PLAIN:
        code = pattern.sub(plainer, code)
    for match in islice(_RENAMED.finditer(code), 8):
        code = re.sub(rf"\b{match[2]}\s*\(", f"{match[1]}(", code)
    return code


def _numbered(command: tuple[str, ...], given: str, words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """`kill` and `chmod` with the numbers that they are given; a process is negative, or comes first where it is alone."""
    numbers = _NUMBER.findall(given)
    if command[0] == "chmod" or not numbers:
        return command, [*numbers[:1], *words]
    process = next(
        (one for one in numbers if one.startswith("-")), numbers[-1] if words or len(numbers) < 2 else numbers[1]
    )
    signal = next((one for one in numbers if one != process), words[0] if words else "TERM")
    return command, [f"-{signal}", process]


def _opened(code: str, program: str) -> Iterator[Inner]:
    """The files that are opened for writing, and emptied where nothing is written into them; commands behind perl's pipes."""
    prints = _PRINTS.search(code) is not None
    opened: list[tuple[str, str]] = []
    for match in islice(_OPENED.finditer(code), _MOST):
        mode = match[2] or ("w" if "createWriteStream" in match[0] else "r")
        opened.append((mode, match[1]))
    for match in islice(_PERL_OPENED.finditer(code) if program == "perl" else (), _MOST):
        sign, target = match[2] or "", match[6] or match[3]
        if "|" in sign or match[4]:
            yield Inner(script=target)
        elif ">" in sign:
            opened.append(("a" if ">>" in sign else "w", target))
    for match in islice(_PATHNAME.finditer(code), _MOST):
        yield Inner(argv=tuple(map(Arg, (*(TREE if match[2] == "rmtree" else DELETE), match[1]))))
    for mode, path in opened:
        if mode[0] in "wax":
            emptied = mode[0] == "w" and not prints
            yield Inner(argv=tuple(map(Arg, ("truncate", "-s", "0", path) if emptied else ("tee", path))))


def _arguments(code: str, start: int, variables: Mapping[str, str]) -> tuple[list[str], int]:
    """The literals and variables of the call whose name ends at `start`, and where the call ends."""
    words: list[str] = []
    joined, depth, place, gathers = False, 0, start, False
    while place < min(len(code), start + _LONGEST_CALL):
        token = _TOKEN.match(code, place)
        if token is None:
            break
        sign, name = token[10] or "", token[7]
        if sign in (";", "}") and depth <= 0:
            break
        place = token.end()
        literal = next((token[group] for group in (1, 2, 3, 4, 5, 6) if token[group] is not None), None)
        if literal is not None:
            text = _interpolated(literal, variables) if token[1] is None else literal.replace("\\'", "'")
            if joined and words:
                words[-1] += text
            elif token[6] is not None:
                words += text.split()
            else:
                words.append(text)
            joined = False
        elif token[8] is not None:  # perl's <*.c>
            words.append(token[8][1:-1])
        elif name is not None:
            if name in _GATHERERS:
                gathers = True
            plain = name.lstrip("$@")
            if plain in variables:
                words[-1:] = [words[-1] + variables[plain]] if joined and words else [*words[-1:], variables[plain]]
                joined = False
            elif joined and words:
                words[-1] += UNKNOWN
                joined = False
            elif name in ("or", "and", "if", "unless", "for", "do", "foreach", "while", "each"):
                break
        elif sign in ("(", "[", "{"):
            depth += 1
        elif sign in (")", "]", "}"):
            depth -= 1
            if depth <= 0 and sign == ")":
                break
        elif sign in ("+", ".") and words:
            joined = True
        elif sign == "\n" and depth <= 0:
            break
    return ([f"{word.rstrip('/')}/{UNKNOWN}" if gathers and "*" not in word else word for word in words], place)


def _gathered(code: str) -> list[str]:
    """The patterns that a text gives `glob` and its like."""
    found = re.findall(
        r"""(?:glob|readdirSync|readdir|scandir|children|entries|find|Dir(?=\[))\s*[(\[]?\s*['"]([^'"]+)['"]""", code
    )
    found += re.findall(r"<([/~][^<>\n]*)>", code)
    found += re.findall(r"\bfind(?:depth)?\s*\(.{0,400},\s*['\"]([^'\"]+)['\"]", code)
    return [one if "*" in one else f"{one.rstrip('/')}/{UNKNOWN}" for one in found]


def _interpolated(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return variables.get(match[0].strip("#${}@"), UNKNOWN)

    return _INSIDE.sub(value, text).replace('\\"', '"').replace("\\n", "\n")


_DELETES: Final = re.compile(
    r"""\b(?:deleteDir|deleteRecursively|removeDirectoryRecursive|del_dir_r|delete-directory/files|delete-tree|"""
    r"""file delete -force|removeItem|RemoveAll|rm_rf!?|deleteTree)\b"""
)
_SPAWNS: Final = re.compile(r"\b(?:execute|exec|system|sh|shell|run-program|callCommand|cmd|spawn|sys\.process)\b")
_LITERAL: Final = re.compile(r'"((?:\\.|[^"\\])*)"')
_FORCED: Final = re.compile(r"\bfile delete -force (?:-- )?([^\s\]]+)|(?:^|[\[;\n])[ \t]*exec ([^\]\n;]+)")


def other_calls(code: str) -> Iterator[Inner]:
    """As `scanned_calls`, for a language of which no functions are listed: its literals, where it deletes or spawns at all."""
    if not code or len(code) > _LONGEST:
        return
    literals = [match[1] for match in islice(_LITERAL.finditer(code), _MOST)]
    if literals and _DELETES.search(code):
        yield Inner(argv=(Arg("rm"), Arg("-r"), Arg(literals[-1])))
    if _SPAWNS.search(code):
        yield from (Inner(script=one) for one in literals if " " in one)
        if len(literals) > 1:
            yield Inner(argv=tuple(map(Arg, literals)))
    for match in islice(_FORCED.finditer(code), _MOST):
        yield Inner(argv=(Arg("rm"), Arg("-r"), Arg(match[1]))) if match[1] else Inner(script=match[2])
