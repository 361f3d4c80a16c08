"""Perl, Ruby, JavaScript, PHP, Lua, R, Julia and Elixir on a command line: a scan for calls that delete, write or run.

No grammar: the scan looks for the names of such functions and reads the literals behind them up to the end of the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.code_functions import COPY, DELETE, LANGUAGES, LINK, MOVE, SCRIPT, TREE, WRITE
from bus.shell.inner import Arg, Inner
from bus.shell.programs.code_lists import lists_in, taken, with_joined_literals, with_joins
from bus.shell.programs.code_places import deletes_unknown, opens_shell, places_in
from bus.shell.programs.compiled_code import commanded
from bus.shell.programs.service_calls import service_calls
from bus.shell.words import UNKNOWN

_MOST: Final = 512
"""The most calls of one kind that are read."""
_LONGEST: Final = 64 * 1024
_LONGEST_CALL: Final = 2048

_CALLS: Final = {
    id(table): lazy_regex(
        r"(?<![\w$'\"])(?:\w+\.)*?("
        + "|".join(re.escape(name) for name in sorted(table, key=len, reverse=True))
        + r")(?![\w-])"
    )
    for table in LANGUAGES.values()
}
_TOKEN: Final = lazy_regex(
    r"""\s+|'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"|`((?:\\.|[^`\\])*)`|q[qwx]?\{([^}]{0,4096})\}|q[qwx]?\(([^)]{0,4096})\)|%w\[([^\]]{0,4096})\]"""
    r"""|([$@]?[A-Za-z_][\w.]*(?:::\w+)*)|(<[^<>\n]+>)|(\d+)|(.)""",
    re.DOTALL,
)
_ASSIGNED: Final = lazy_regex(r"""[$@]?([A-Za-z_]\w*)\s*=\s*(?:'((?:\\.|[^'\\\n])*)'|"((?:\\.|[^"\\\n])*)")""")
_BACKTICKS: Final = lazy_regex(
    r"`((?:\\.|[^`\\])+)`|(?:%x|\bqx)\s*[{(\[|!]([^})\]|!]{1,4096})|\bqx/((?:\\.|[^/\\]){1,4096})/"
)
_PLAIN: Final = (
    (lazy_regex(r"""\[\s*['"](\w+)['"]\s*\]\s*\("""), r".\1("),  # fs['rmSync'](
    (lazy_regex(r"""(['"])\s*\+\s*\1"""), ""),  # 'exec' + 'Sync'
    (lazy_regex(r"""\[\s*['"](\w+)['"]\s*\]\s*\("""), r".\1("),  # once more, for names that were only now put together
    (lazy_regex(r"""\brequire\(\s*['"](?:[^'"]*/)?(?:node:)?([\w-]+)['"]\s*\)"""), r"\1"),
    (lazy_regex(r"\b(?:util\.)?promisify\(\s*([\w.]+)\s*\)\s*\("), r"\1("),
    (lazy_regex(r"""\beval\s*\(?\s*['"](?=\s*\w+\s*\()"""), "eval "),  # eval "system(…)"
    (lazy_regex(r"process\.cwd\(\)|Dir\.pwd|\bgetcwd\(\)|\b__dirname\b"), "'.'"),
)
"""Unusual spellings of a call, each with its plain spelling."""
_RENAMED: Final = lazy_regex(
    r"\b(\w+)\s*(?::|\bas\b)\s*(\w+)(?=[^{}()]{0,400}\}\s*(?:=\s*(?:await\s+)?(?:child_process|fs|rimraf|import)|from\b))"
)
"""`{rmSync: r} = require('fs')`, `import {rmSync as r} from 'fs'`."""
_DERIVED: Final = lazy_regex(r"""[$@]?\b(\w+)\s*=\s*(?:`([^`\n]{1,512})`|(?:path\.|File\.)?(?:join|resolve)(?=\())""")
"""`const p = path.join(root, entry.name)`."""
_DEFINED: Final = lazy_regex(
    r"\b(?:(?:const|let|var)\s+(\w+)\s*=\s*(?:async\s*)?\(?\s*(\w+)[^()=]{0,40}\)?\s*=>|(?:function|def)\s+(\w+)\s*\(\s*\$?(\w+)[^()]{0,40}\))"
)
_BODY: Final = 400
"""`const run = (c) => execSync(c)`, `function run($c) { exec($c); }`."""
_NAMED: Final = lazy_regex(r"\b(?:const|let|var)\s+(\w+)\s*=\s*(?:[\w.]*promisify\(\s*)?\w+\.(\w+)\s*\)?\s*(?=[;,\n])")
"""`const run = promisify(child_process.exec);`."""
_OPERANDS: Final = lazy_regex(r"process\.argv\[\d\]|\$argv\[\d\]|[@$]?\bARGV(?:\[\d\])?")
_DIRECTORY_SET: Final = lazy_regex(r"""(?:FileUtils\.cd|\bchdir)\s*\(?\s*['"]([^'"]+)['"]""")
_PATHNAME: Final = lazy_regex(
    r"""\bPathname(?:\.new)?\(\s*['"]([^'"]+)['"]\s*\)"""
    r"""(\.(?:children|each_child|glob|find|entries)\b(?:\([^)]{0,80}\))?)?(?:\.(?:each|map))?(?:\(&:|\s*\{[^}]{0,80}\.|\.)(rmtree|delete|unlink|rmdir)\b"""
)
_OPENED: Final = lazy_regex(
    r"""\b(?:File\.open|File\.new|fopen|openSync|createWriteStream|io\.open)\s*\(?\s*['"]([^'"]+)['"]\s*(?:,\s*['"](\w+)\+?['"])?"""
)
_PERL_OPENED: Final = lazy_regex(
    r"""\bopen\s*\(?\s*[^,;()\n]{1,64},\s*(['"])\s*(\||-\||\+?>{1,2})?\s*([^'"|]{0,512}?)\s*(\|)?\1(?:\s*,\s*(['"])([^'"]*)\5)?"""
)
_PRINTS: Final = lazy_regex(r"\b(?:print|printf|puts|say|write|fwrite|fputs|pipe|writeSync)\b|<<")
_LISTED: Final = frozenset({"pcntl_exec", "system2", "System.cmd"})
"""Functions that get a program and its arguments."""
_SQL: Final = lazy_regex(r"(?i)\s*(?:drop|delete|truncate|update|alter)\s")
_DEEP: Final = lazy_regex(r"(?i)\bfind(?:depth)?\b|walk|recurs|\*\*|CHILD_FIRST")
_MATCHES: Final = lazy_regex(
    r"->exec|(?<!child_process)(?<!\bcp)(?<!\bproc)(?<!\bshell)(?<!\bKernel)(?<!\bProcess)\.exec$"
)
"""`exec` of a regular expression or a database."""
_NUMBER: Final = lazy_regex(r"(?<![\w.])-?\d+(?![\w.])")
_MAPPED: Final = lazy_regex(r"""array_(?:map|walk)\(\s*['"](\w+)['"]\s*,""")
_HOME: Final = lazy_regex(
    r"""#\{ENV\[['"]HOME['"]\]\}|#\{Dir\.home\}|\$\{(?:process\.env\.HOME|os\.homedir\(\)|homedir\(\))\}|\$ENV\{['"]?HOME['"]?\}"""
)
_HOMES: Final = lazy_regex(
    r"""ENV\[['"]HOME['"]\]|Dir\.home|process\.env\.(?:HOME|USERPROFILE)|(?:require\(['"](?:node:)?os['"]\)|os)\.homedir\(\)|homedir\(\)"""
    r"""|\$ENV\{['"]?HOME['"]?\}|getenv\(['"]HOME['"]\)|\$_(?:SERVER|ENV)\[['"]HOME['"]\]"""
)
_BARE_HOME: Final = lazy_regex(r"(?<=[=,(]\s)~(?=\s*[,;)])|(?<=[=,(])~(?=\s*[,;)])")
_INSIDE_LITERAL: Final = lazy_regex(r"""[#$]\{\s*(['"])([^'"]*)\1\s*\}""")
_INSIDE: Final = lazy_regex(r"#\{[^}]{0,512}\}|\$\{[^}]{0,512}\}|\$\w+|@\w+")
_SAME: Final = frozenset(
    {"escapeshellarg", "escapeshellcmd", "Shellwords.escape", "Shellwords.shellescape", "String", "path.resolve"}
    | {"File.expand_path", "quotemeta", "path.normalize", "realpath"}
)
"""Functions that give back their argument, as far as a path or a command goes."""
_GATHERERS: Final = frozenset(
    {"glob", "Dir.glob", "readdirSync", "fs.readdirSync", "scandir", "Dir.children", "Dir.entries"}
)
"""Functions that list files."""
_RUNS_TEXT: Final = lazy_regex(
    r"\b(?:eval|instance_eval|new\s+Function|Function|vm\.run\w+|runInThisContext|loadstring)\b"
    r"|\b(?:system|exec|execSync|spawn|spawnSync)\s*\(?\s*[\w$@]|\b(?:include|require|import|load)(?:_once)?\s*\(?\s*['\"]https?://"
)
"""Code that runs a text: by an evaluator, by a program that no literal names, or from an address."""
_NETWORK: Final = lazy_regex(
    r"\b(?:fetch|https?\.get|LWP|HTTP::Tiny|open-uri|URI\.open|Net::HTTP|urlopen|curl_exec|axios)\b"
    r"|\b(?:get|file_get_contents|include|require|import)\s*\(?\s*['\"]https?://"
    r"|[`(]\s*['\"]?(?:curl|wget)\s"
)
_INCLUDES: Final = lazy_regex(
    r"(?s)file_put_contents\([^;]{0,400}https?://[^;]{0,400};.*\b(?:include|require)(?:_once)?\b"
    r"|https?://.*file_put_contents\(.*\b(?:include|require)(?:_once)?\b"
)
"""PHP that fetches code, writes it and includes it."""
_DECODES: Final = lazy_regex(
    r"\b(?:atob|base64_decode|decode_base64|Base64\.(?:strict_|urlsafe_)?decode64|unpack1?)\b|['\"]base64['\"]"
)


def scanned_calls(program: str, code: str, operands: Sequence[str] = ()) -> Iterator[Inner]:
    """What `code`, given these operands, deletes, writes and runs, as the commands of a shell that do the same.

    If the code is too long or has more calls than are read, an item with `unread` says so.
    """
    table = LANGUAGES.get(program)
    if table is None:
        return
    programs = {name: command[0] for name, command in table.items() if command is not SCRIPT}
    if len(code) > _LONGEST:
        yield Inner(unread=programs_named(code, programs))
        return
    if _more(_CALLS[id(table)], code) or _more(_BACKTICKS, code) or _more(_OPENED, code):
        yield Inner(unread=programs_named(code, programs))
    if operands:
        code = _OPERANDS.sub(lambda _: f"'{operands[0]}'", code)
    directory = _DIRECTORY_SET.search(code)
    for one in _calls(table, program, code):
        yield one._replace(directory=directory[1]) if directory else one
    if program != "mongosh":  # its rules look at what it is given
        yield from service_calls(code)
    if _RUNS_TEXT.search(code):
        if _NETWORK.search(code):
            yield Inner(sources=("curl",))
        if _DECODES.search(code):
            yield Inner(sources=("base64",))
    if program == "php" and "file_put_contents" in code and _INCLUDES.search(code):
        yield Inner(sources=("curl",))


_WORD: Final = lazy_regex(r"\w+")
_NOTHING_NAMED: Final = ("",)


def programs_named(code: str, programs: Mapping[str, str]) -> tuple[str, ...]:
    """For `Inner.unread`: the programs that do the same as the functions that `code` names, or one empty text for none."""
    words = frozenset(_WORD.findall(code))
    return tuple({program for name, program in programs.items() if name.rpartition(".")[2] in words}) or _NOTHING_NAMED


def _more(pattern: re.Pattern[str], code: str) -> bool:
    """Whether a pattern occurs more often than is read."""
    return next(islice(pattern.finditer(code), _MOST, None), None) is not None


def _calls(table: Mapping[str, tuple[str, ...]], program: str, code: str) -> Iterator[Inner]:
    code = _HOMES.sub("'~'", _HOME.sub("~", code))
    code = _plain(_MAPPED.sub(r"\1(", _BARE_HOME.sub("'~'", code) if "~" in code else code), table)
    code = with_joined_literals(code)
    variables = {match[1]: match[2] or match[3] or "" for match in _ASSIGNED.finditer(code)}
    lists = lists_in(code, variables)
    for match in islice(
        _DERIVED.finditer(code) if "join(" in code or "resolve(" in code or "${" in code else (), _MOST
    ):
        if match[2] is not None:
            variables.setdefault(match[1], _interpolated(match[2], variables))
        elif parts := _arguments(code, match.end(), variables, lists)[0]:
            variables.setdefault(match[1], "/".join([*parts, UNKNOWN]))
    code = with_joins(code, lists) if lists else code
    gathered: list[str] | None = None
    deletes = runs = False  # whether a call deletes or runs what no literal in its arguments says
    for match in islice(_CALLS[id(table)].finditer(code), _MOST):
        command = table[match[1]]
        words, end = _arguments(code, match.end(), variables, lists)
        if not words or words[0].startswith((UNKNOWN, "$", "#{")):
            deletes = deletes or command[0] in ("rm", "rmdir")
            runs = runs or (command is SCRIPT and _MATCHES.search(code, max(match.start() - 2, 0), match.end()) is None)
        if not words:
            # `Dir.glob("/etc/*").each { |f| File.delete(f) }`: the deleted paths are literals of another call.
            if gathered is None:
                gathered = _gathered(code)
            words = gathered if command[0] == "rm" else []
            command = TREE if words and _DEEP.search(code) else command
        if command[0] in ("kill", "chmod"):
            command, words = _numbered(command, code[match.end() : end], words)
        if not words:
            continue
        if command is SCRIPT:
            if _SQL.match(words[0]):  # `$db->exec("DROP TABLE users")`
                yield Inner(argv=(Arg("sqlite3"), Arg("database"), Arg(words[0])))
                continue
            listed = len(words) > 1 and (
                not lists.keys().isdisjoint(_WORD.findall(code[match.end() : end]))
                or program in ("perl", "ruby")
                or match[1] in _LISTED
                or "[" in code[match.end() : end]
            )
            deletes = deletes or deletes_unknown(" ".join(words) if listed else words[0])
            if listed and " " in words[0]:  # a loop over whole commands
                yield from (Inner(script=word) for word in words if " " in word)
            else:
                yield Inner(argv=tuple(map(Arg, words))) if listed else Inner(script=words[0])
            continue
        if command is DELETE and re.search(r"recursive['\"]?\s*(?::|=>?)\s*(?:true|1|T)", code[match.end() : end]):
            command = TREE
        if command is WRITE and words[1:2] == [""]:
            yield Inner(argv=tuple(map(Arg, ("truncate", "-s", "0", words[0]))))
        taken = words if command[0] in ("rm", "chmod", "kill") else words[: 2 if command in (MOVE, COPY, LINK) else 1]
        yield Inner(argv=tuple(map(Arg, (*command, *taken))))
    if program in ("perl", "ruby", "jruby", "php", "julia"):
        for match in islice(_BACKTICKS.finditer(code), _MOST):
            script = _interpolated(match[1] or match[2] or match[3].replace("\\/", "/"), variables)
            runs = runs or script.startswith((UNKNOWN, "$"))
            yield Inner(script=script)
    yield from _opened(code, program)
    if deletes and (places := places_in(code)):
        yield Inner(argv=tuple(map(Arg, (*TREE, *places))))
    if runs or opens_shell(code):
        yield from commanded(code)


def _plain(code: str, table: Mapping[str, tuple[str, ...]]) -> str:
    """`code` with unusual spellings of calls replaced by plain ones."""
    for pattern, plainer in _PLAIN:
        code = pattern.sub(plainer, code)
    for match in islice(_RENAMED.finditer(code), 8):
        code = re.sub(rf"\b{match[2]}\s*\(", f"{match[1]}(", code)
    for match in islice(_DEFINED.finditer(code) if "=>" in code or "function" in code or "def " in code else (), 8):
        name, parameter = match[1] or match[3], match[2] or match[4]
        handed = re.compile(rf"\b(?:\w+\.)*(\w+)\s*\(?\s*[\"'`]?\$?\{{?{parameter}\b")
        inside = code[match.end() : match.end() + _BODY]
        used = next((one[1] for one in handed.finditer(inside) if one[1] in table), None)
        if used is not None:
            code = code[: match.end()] + re.sub(rf"\b{name}\s*\(", f"{used}(", code[match.end() :])
    for match in islice(_NAMED.finditer(code) if "= " in code or "=" in code else (), 8):
        code = re.sub(rf"\b{match[1]}\s*\(", f"{match[2]}(", code)
    return code


def _numbered(command: tuple[str, ...], given: str, words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """`kill` and `chmod` with the numbers among their arguments. The process of `kill` is the negative or the first number."""
    numbers = _NUMBER.findall(given)
    if command[0] == "chmod" or not numbers:
        return command, [*numbers[:1], *words]
    process = next(
        (one for one in numbers if one.startswith("-")), numbers[-1] if words or len(numbers) < 2 else numbers[1]
    )
    signal = next((one for one in numbers if one != process), words[0] if words else "TERM")
    return command, [f"-{signal}", process]


def _opened(code: str, program: str) -> Iterator[Inner]:
    """The files that are opened for writing (emptied, where nothing is written), and the commands of perl's pipes."""
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
        path = f"{match[1].rstrip('/')}/{UNKNOWN}" if match[2] else match[1]
        yield Inner(argv=tuple(map(Arg, (*(TREE if match[3] == "rmtree" else DELETE), path))))
    for mode, path in opened:
        if mode[0] in "wax":
            emptied = mode[0] == "w" and not prints
            yield Inner(argv=tuple(map(Arg, ("truncate", "-s", "0", path) if emptied else ("tee", path))))


def _arguments(
    code: str, start: int, variables: Mapping[str, str], lists: Mapping[str, Sequence[str]]
) -> tuple[list[str], int]:
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
            if name.endswith(".."):  # Lua's sign that joins texts
                name, place = name.rstrip("."), place - 2
            if name in _SAME and code[place : place + 1] in ("(", " "):
                continue
            plain = name.lstrip("$@")
            if (held := lists.get(plain.partition(".")[0])) is not None:
                dot = name.find(".")
                some, place = taken(code, place if dot < 0 else place - len(name) + dot, held)
                if joined and words and some:
                    words[-1] += some.pop(0)
                words += some
                joined = False
            elif plain in variables:
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
        elif sign == "~" and code[place - 2 : place - 1] not in ("=", "!"):  # perl's `$ENV{HOME}` outside of a literal
            words.append(sign)
        elif sign in ("+", ".") and words:
            joined = True
        elif sign == "\n" and depth <= 0:
            break
    return ([f"{word.rstrip('/')}/{UNKNOWN}" if gathers and "*" not in word else word for word in words], place)


def _gathered(code: str) -> list[str]:
    """The patterns in a text that are arguments of `glob` or a similar function."""
    found = re.findall(
        r"""(?:glob|readdirSync|readdir|scandir|children|entries|find|walk|each_child|DirectoryIterator|FilesystemIterator|Dir(?=\[))\s*[(\[]?\s*['"]([^'"]+)['"]""",
        code,
    )
    found += re.findall(r"<([/~][^<>\n]*)>", code)
    found += re.findall(r"\bfind(?:depth)?\s*\(.{0,400},\s*['\"]([^'\"]+)['\"]", code)
    return [one if "*" in one else f"{one.rstrip('/')}/{UNKNOWN}" for one in found]


def _interpolated(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if literal := _INSIDE_LITERAL.fullmatch(match[0]):
            return literal[2]
        return variables.get(match[0].strip("#${}@"), UNKNOWN)

    return _INSIDE.sub(value, text).replace('\\"', '"').replace("\\n", "\n")
