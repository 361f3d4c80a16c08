"""Perl, Ruby, JavaScript, PHP and Lua on a command line: a scan for the calls that delete, write or run something.

No grammar: the names of such functions are looked for, and the literals behind them are read up to the end of the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from bus.shell.inner import Arg, Inner
from bus.shell.words import UNKNOWN

_MOST: Final = 64
_LONGEST: Final = 64 * 1024
_LONGEST_CALL: Final = 2048

_SCRIPT: Final = ("",)
"""Stands for a function that hands a text to a shell."""
_DELETE, _TREE, _DIRECTORY, _WRITE, _MOVE, _COPY = ("rm",), ("rm", "-r"), ("rmdir",), ("tee",), ("mv",), ("cp",)

_PERL: Final[dict[str, tuple[str, ...]]] = {
    "unlink": _DELETE, "rmtree": _TREE, "remove_tree": _TREE, "rmdir": _DIRECTORY, "system": _SCRIPT, "exec": _SCRIPT,
    "qx": _SCRIPT, "rename": _MOVE, "move": _MOVE, "copy": _COPY, "truncate": ("truncate", "-s", "0"), "spew": _WRITE,
    "chmod": ("chmod",), "kill": ("kill",), "write_file": _WRITE,
}  # fmt: skip
_RUBY: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(["rm_rf", "rm_r", "remove_dir", "remove_entry", "remove_entry_secure", "rmtree", "rm_tree"], _TREE),
    **dict.fromkeys(["FileUtils.rm", "FileUtils.rm_f", "FileUtils.remove", "File.delete", "File.unlink"], _DELETE),
    **dict.fromkeys(["Dir.rmdir", "Dir.delete", "Dir.unlink"], _DIRECTORY),
    **dict.fromkeys(["system", "exec", "spawn", "IO.popen", "%x", "Open3.capture2", "Open3.capture3", "Open3.capture2e",
                     "Open3.popen3"], _SCRIPT),
    **dict.fromkeys(["File.write", "IO.write"], _WRITE), "File.rename": _MOVE, "FileUtils.mv": _MOVE, "FileUtils.cp": _COPY,
    "Process.kill": ("kill",), "File.truncate": ("truncate", "-s", "0"), "FileUtils.chmod_R": ("chmod", "-R"),
}  # fmt: skip
_NODE: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(["rmSync", "rmdirSync", "rm", "rmdir", "Deno.remove", "Deno.removeSync"], _DELETE),
    **dict.fromkeys(["unlinkSync", "unlink"], _DELETE),
    **dict.fromkeys(["rimraf", "rimrafSync", "rimraf.sync", "removeSync", "emptyDirSync", "emptyDir", "fse.remove", "del.sync",
                     "deleteSync", "shell.rm"], _TREE),
    **dict.fromkeys(["execSync", "exec", "spawnSync", "spawn", "execFileSync", "execFile", "Deno.Command", "Bun.spawn",
                     "Bun.spawnSync", "execa", "execaSync", "Bun.$", "$"], _SCRIPT),
    **dict.fromkeys(["writeFileSync", "writeFile", "outputFileSync", "Bun.write", "Deno.writeTextFileSync"], _WRITE),
    **dict.fromkeys(["truncateSync", "truncate"], ("truncate", "-s", "0")),
    **dict.fromkeys(["renameSync", "rename", "moveSync"], _MOVE), **dict.fromkeys(["copyFileSync", "cpSync"], _COPY),
    "process.kill": ("kill",),
}  # fmt: skip
_PHP: Final[dict[str, tuple[str, ...]]] = {
    "unlink": _DELETE, "rmdir": _DIRECTORY, "deleteDirectory": _TREE, "rename": _MOVE, "copy": _COPY,
    "file_put_contents": _WRITE, "chmod": ("chmod",), "posix_kill": ("kill",),
    **dict.fromkeys(["system", "exec", "shell_exec", "passthru", "popen", "proc_open", "pcntl_exec"], _SCRIPT),
}  # fmt: skip
_LUA: Final[dict[str, tuple[str, ...]]] = {"os.execute": _SCRIPT, "io.popen": _SCRIPT, "os.remove": _DELETE}
_APPLE: Final[dict[str, tuple[str, ...]]] = {"do shell script": _SCRIPT}

LANGUAGES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "perl": _PERL, "ruby": _RUBY, "node": _NODE, "nodejs": _NODE, "deno": _NODE, "bun": _NODE, "tsx": _NODE, "php": _PHP,
    "lua": _LUA, "luajit": _LUA, "osascript": _APPLE,
}  # fmt: skip
"""By program, what its functions are as commands."""

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
_BACKTICKS: Final = re.compile(r"`((?:\\.|[^`\\])+)`|%x[{(\[]([^})\]]+)")
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
)
_DECODES: Final = re.compile(
    r"\b(?:atob|base64_decode|decode_base64|Base64\.(?:strict_|urlsafe_)?decode64|unpack1?)\b|['\"]base64['\"]"
)


def scanned_calls(program: str, code: str) -> Iterator[Inner]:
    """What `code` deletes, writes and runs, as the commands of a shell that do the same."""
    table = LANGUAGES.get(program)
    if table is None or len(code) > _LONGEST:
        return
    yield from islice(_calls(table, program, code), _MOST)
    if _RUNS_TEXT.search(code):
        if _NETWORK.search(code):
            yield Inner(sources=("curl",))
        if _DECODES.search(code):
            yield Inner(sources=("base64",))


def _calls(table: Mapping[str, tuple[str, ...]], program: str, code: str) -> Iterator[Inner]:
    code = _MAPPED.sub(r"\1(", _HOMES.sub("'~'", _HOME.sub("~", code)))
    variables = {match[1]: match[2] or match[3] or "" for match in _ASSIGNED.finditer(code)}
    for match in islice(_CALLS[id(table)].finditer(code), _MOST * 4):
        command = table[match[1]]
        words, end = _arguments(code, match.end(), variables)
        if not words:
            # `Dir.glob("/etc/*").each { |f| File.delete(f) }`: what it deletes is in another call's literals.
            words = _gathered(code) if command[0] == "rm" else []
        if not words:
            continue
        if command is _SCRIPT:
            listed = len(words) > 1 and (
                program == "perl" or "[" in code[match.end() : end] or program in ("ruby", "php")
            )
            yield Inner(argv=tuple(map(Arg, words))) if listed else Inner(script=words[0])
            continue
        if command is _DELETE and re.search(r"recursive['\"]?\s*(?::|=>)\s*(?:true|1)", code[match.end() : end]):
            command = _TREE
        if command is _WRITE and words[1:2] == [""]:
            yield Inner(argv=tuple(map(Arg, ("truncate", "-s", "0", words[0]))))
        taken = words if command[0] in ("rm", "chmod", "kill") else words[: 2 if command in (_MOVE, _COPY) else 1]
        yield Inner(argv=tuple(map(Arg, (*command, *taken))))
    if program in ("perl", "ruby", "php"):
        for match in _BACKTICKS.finditer(code):
            yield Inner(script=_interpolated(match[1] or match[2], variables))


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
    found = re.findall(r"""(?:glob|readdirSync|scandir|children|entries|find)\s*\(?\s*['"]([^'"]+)['"]""", code)
    return [one if "*" in one else f"{one.rstrip('/')}/{UNKNOWN}" for one in found]


def _interpolated(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return variables.get(match[0].strip("#${}@"), UNKNOWN)

    return _INSIDE.sub(value, text).replace('\\"', '"').replace("\\n", "\n")
