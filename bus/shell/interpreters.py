"""Programs that run code of other languages: the shell commands that the code equals, and whether they open a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell.indirect.written_scripts import written_scripts
from bus.shell.inner import Arg, Inner, Unwrap, names, read_options, script_of
from bus.shell.programs.in_place import emptied_by_filter
from bus.shell.programs.unsaid_calls import listed_calls
from bus.shell.python_code import python_calls
from bus.shell.scanned_code import scanned_calls
from bus.shell.script_runners import SHELLS
from bus.shell.words import UNKNOWN, UNSET, Output

_INTERPRETER: Final = lazy_regex(
    r"(python|pypy|ipython|perl|ruby|nodejs|node|deno|bun|tsx|ts-node|php|luajit|lua|osascript|jython|jruby|julia|rscript|r|elixir|iex|irb|pry|zx)[\d.]*(?:\.exe)?"
)
_CODE: Final = {
    "python": "c",
    "pypy": "c",
    "ipython": "c",
    "perl": "eE",
    "ruby": "e",
    "node": "ep",
    "nodejs": "ep",
    "bun": "ep",
    "tsx": "ep",
    "php": "rBRE",
    "lua": "e",
    "luajit": "e",
    "osascript": "e",
    "deno": "",
    "ts-node": "ep",
    "jython": "c",
    "jruby": "e",
    "julia": "eE",
    "rscript": "e",
    "r": "e",
    "elixir": "e",
    "iex": "e",
}
_SAME: Final = {"irb": "ruby", "pry": "ruby", "zx": "node"}
"""By language, the letters of the options whose value is code; they may end a cluster (`perl -lne`)."""
_LONG: Final = names("--eval --print --run -eval")
_VALUES: Final = {
    "python": names("-W -X -m --check-hash-based-pycs"),
    "perl": names("-I -M -m"),
    "ruby": names("-I -r -E -C"),
    "node": names("-r --require --import --loader --env-file --conditions -C"),
    "php": names("-d -c -f -z"),
}
_TAG: Final = lazy_regex(r"(?<=.)@[^@/]*$")
_STDIN: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0"})
_HELD: Final = {UNKNOWN: "\ue000", UNSET: "\ue001"}
"""Replace UNKNOWN and UNSET while code is parsed, because `ast` refuses control characters."""


_REWRITES: Final = frozenset({"perl", "ruby", "jruby"})
"""Languages that can rewrite files in place."""
_PYTHONS: Final = frozenset({"python", "pypy", "ipython", "jython"})
_EMPTIED: Final = lazy_regex(
    r"""(?<!as )\bopen\(\s*['"]([^'"\n]+)['"]\s*,\s*(?:mode=)?['"]wb?['"]\s*\)\s*(?:\.close\(\)|\.truncate\(|;|$)"""
)
"""In Python: a file that is opened for writing and closed at once, which empties it."""


class ScriptFiles(NamedTuple):
    """The files that an interpreter or a shell reads code from."""

    script: str = ""
    """The script, or a folder with one; empty where there is none."""
    module: str = ""
    """The module of `python -m`."""
    loaded: tuple[str, ...] = ()
    """The files that it loads first: `node --require ./a.js`."""


_SHELL_VALUES: Final = names("-o -O --rcfile --init-file")
_LOADS: Final = names("-r --require --import --loader")
_RUN_VERBS: Final = names("run test exec x")


def script_files(program: str, words: Sequence[str]) -> ScriptFiles | None:
    """The files that an interpreter or a shell of this name reads code from; None for another program."""
    match = _INTERPRETER.fullmatch(program)
    if match is None and program not in SHELLS:
        return None
    language = match[1] if match else "sh"
    if language in ("deno", "bun") and words[:1] and words[0] in _RUN_VERBS:
        words = words[1:]
    values = _VALUES.get(language, frozenset()) if match else _SHELL_VALUES
    options = read_options(list(map(Arg, words)), values)
    loaded = tuple(value.text for name, value in options.items if name in _LOADS and language not in _PYTHONS and match)
    module = options.value("-m") if language in _PYTHONS else None
    code = any(f"-{letter}" == name for letter in (_CODE[language] if match else "cs") for name, _ in options.items)
    if module is not None or code or options.has(*_LONG):
        return ScriptFiles("", "" if module is None or code else module.text, loaded)
    file = options.value("-f") if language == "php" else None
    script = file.text if file is not None else words[options.end] if options.end < len(words) else ""
    return ScriptFiles("" if script in _STDIN else script, "", loaded)


@lru_cache(maxsize=1024)
def find_interpreter(program: str) -> Unwrap | None:
    """The reader of an interpreter's arguments; None for a program that is none."""
    match = _INTERPRETER.fullmatch(program)
    return partial(_interpreter, _SAME.get(match[1], match[1])) if match else None


def _interpreter(language: str, args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    letters, values = _CODE[language], _VALUES.get(language, frozenset())
    found = False
    if language in _REWRITES:
        yield from emptied_by_filter(args)
    place = 0
    if language == "deno":
        if args[:1] and args[0].text == "eval":
            yield from _code(language, [arg for arg in args[1:] if not arg.text.startswith("-")][:1])
        elif len(args) > 1 and args[0].text == "run" and args[-1].text == "-":
            yield from _code(language, [Arg(stdin.text or "", stdin.programs)])
        elif args:
            for place, arg in enumerate(args):
                if args[0].text == "run" and arg.text.startswith(("https://", "http://")):
                    yield Inner(sources=("curl",))
                if arg.text.startswith("npm:"):  # `deno run -A npm:rimraf@5 x`
                    yield Inner(argv=(Arg(_TAG.sub("", arg.text[4:])), *args[place + 1 :]))
                    return
            yield Inner(sources=tuple(source for arg in args for source in arg.sources))
        return
    if language == "bun" and args[:1] and args[0].text == "exec":
        yield script_of(args[1:2])
        return
    if language == "bun" and [arg.text for arg in args[:2]] == ["run", "-"]:
        yield from _code(language, [Arg(stdin.text or "", stdin.programs)])
        return
    if language == "bun" and args[:1] and args[0].text == "x":
        yield Inner(argv=tuple(args[1:]))
        return
    while place < len(args):
        text, sources = args[place]
        place += 1
        if text in _STDIN:
            yield from _code(language, [Arg(stdin.text or "", stdin.programs)])
            return
        if text == "-m" and language in _PYTHONS:
            if args[place : place + 1] == [Arg("timeit")]:
                for arg in args[place + 1 :]:
                    yield from _code(language, [arg] if arg.text[:1] != "-" else [])
            elif args[place:]:
                yield Inner(argv=tuple(args[place:]))
            return
        if text == "-run" and language == "ruby":  # `ruby -run -e rm -- -r x`
            words = [arg for arg in args[place:] if arg.text not in ("-e", "--")]
            yield Inner(argv=tuple(words))
            return
        if not text.startswith("-"):
            if not found:
                yield Inner(sources=sources)
            return
        name, equals, value = text.partition("=")
        if name in _LONG or (text[1:2] != "-" and text[-1] in letters and text[:2] not in values):
            after = place if equals else place + 1
            operands = [arg.text for arg in args[after:] if arg.text != "--"]
            yield from _code(language, [Arg(value, sources)] if equals else args[place : place + 1], operands)
            found = True
            if stdin.text and args[place : place + 1]:
                each = text[1:2] != "-" and ("n" in text or "p" in text) and language in _REWRITES
                yield from listed_calls(value if equals else args[place].text, stdin.text, each=each)
            place = after
            if language in _PYTHONS:
                if stdin.text and any("stdin" in arg.text for arg in args[place - 1 : place]):  # exec(sys.stdin.read())
                    yield from _code(language, [Arg(stdin.text, stdin.programs)])
                return
        elif text[1:2] in letters and text[1:2] and text[1:2] != "-" and len(text) > 2:
            yield from _code(language, [Arg(text[2:], sources)])  # `-e'code'`
            found = True
        elif text in values:
            place += 1
    if not found:
        yield from _code(language, [Arg(stdin.text or "", stdin.programs)])


def _code(language: str, given: Sequence[Arg], operands: Sequence[str] = ()) -> Iterator[Inner]:
    """The commands that a text of code runs. The sources of an argument are the programs that wrote the text."""
    for text, sources in given:
        yield Inner(sources=sources)
        held = text
        for sign, stand_in in _HELD.items():
            held = held.replace(sign, stand_in)
        if language in _PYTHONS:
            if language == "ipython" and held.startswith("!"):
                yield Inner(script=text[1:])
            for match in _EMPTIED.finditer(held):
                yield Inner(argv=(Arg("truncate"), Arg("-s"), Arg("0"), Arg(_released(match[1]))))
            try:
                calls = list(python_calls(held, operands))
            except SyntaxError:
                calls = []
        else:
            calls = list(scanned_calls(language, held, operands))
        for one in calls:
            yield one._replace(
                argv=tuple(Arg(_released(arg.text)) for arg in one.argv),
                script=_released(one.script) if one.script is not None else None,
                directory=_released(one.directory),
            )
        yield from written_scripts(text)  # last: what is written counts, not what the code itself reads


def _released(text: str) -> str:
    for sign, stand_in in _HELD.items():
        text = text.replace(stand_in, sign)
    return text


_SHELL: Final = (names("-o -O +o +O --rcfile --init-file"), 0, names("-c --version --help"))
_PROMPTS: Final[dict[str, tuple[frozenset[str], int, frozenset[str]]]] = {
    **dict.fromkeys(SHELLS, _SHELL),
    **dict.fromkeys(
        ["python", "pypy", "ipython", "bpython", "ptpython"], (names("-W -X"), 0, names("-c -m -V --version -h"))
    ),
    **dict.fromkeys(
        ["node", "bun", "deno", "tsx"], (names("-r --require --import"), 0, names("-e -p -v --eval --version"))
    ),
    **dict.fromkeys(
        ["irb", "pry", "ghci", "iex", "erl", "scala", "jshell", "clj", "julia", "r", "lua", "gdb", "lldb"],
        (names("-r -I"), 0, names("-e --eval -v --version -batch --batch")),
    ),
    "psql": (
        names("-U -h -p -d -v --username --host --port --dbname --set"),
        2,
        names("-c -f -l --command --file --list"),
    ),
    **dict.fromkeys(
        ["mysql", "mariadb"], (names("-u -h -P -D -S --user --host --port --database"), 1, names("-e --execute"))
    ),
    "sqlite3": (names("-cmd -init -separator"), 1, names("-version -cmd")),
    "mongosh": (names("-u -p --username --password --host --port"), 1, names("--eval -f --file")),
    "redis-cli": (names("-h -p -n -a -u -s --user --pass"), 0, names("--eval --scan --pipe --stat")),
    "ssh": (names("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B"), 1, names("-N -G -V -O -Q")),
    "su": (names("-s -g -G"), 1, names("-c --command --session-command")),
    "sudo": (names("-u -g -p -h -D --user --group"), 0, names("-l -v -k -K -V")),
    "pwsh": (names("-WorkingDirectory"), 0, names("-c -Command -File -f")),
    "script": (names("-I -O -B -T -m -o -E"), 1, names("-c --command -V --version -h --help")),
    **dict.fromkeys(
        ["tmux", "screen"], (names("-L -S -f -s -t"), 0, names("-d -D -m -dm -dmS -V -v -ls -list -X -wipe -h"))
    ),
    "chroot": (names("--userspec --groups"), 1, names("--version --help")),
    "unshare": (names("-R -w -S -G --root --wd --setuid --setgid"), 0, names("-V -h --version --help")),
    "nsenter": (names("-t -S -G --target --setuid --setgid"), 0, names("-V -h --version --help")),
    "nix-shell": (names("-I -p -A --packages --attr"), 1, names("--run --command --version --help")),
}
"""By program: options that take a value, the most operands with which it still opens a prompt, options without a prompt."""
_PROMPTS_IF: Final[dict[str, frozenset[str]]] = {
    "rails": names("c console db dbconsole"),
    "poetry": names("shell"),
    "pipenv": names("shell"),
    "flask": names("shell"),
    "php": names("-a --interactive"),
    "perl": names("-d -de0 -de1 -de"),
}
"""By program that otherwise opens none: the first arguments with which it opens a prompt, if at most one more follows."""
_VERSION: Final = lazy_regex(r"[\d.]+$")


def opens_prompt(program: str, args: Sequence[Arg]) -> bool:
    """Whether a program with these arguments reads what a person types, if its standard input is the terminal."""
    name = _without_version(program)
    if name in _PROMPTS_IF:
        return 0 < len(args) < 3 and args[0].text in _PROMPTS_IF[name]
    known = _PROMPTS.get(name)
    if known is None:
        return False
    values, most, without = known
    if program[:6] == "python" and _stays_open(args):
        return True
    if args and not most and args[0].text[:1] != "-":
        return False  # a script, or the command of sudo
    options = read_options(args, values)
    if not without.isdisjoint(dict(options.items)) or any(arg.sources for arg in args):
        return False
    if program == "sudo":
        return options.has("-s", "-i", "--shell", "--login") and options.end == len(args)
    operands = [arg for arg in args[options.end :] if arg.text not in ("-", "-l", "-i")]
    return len(operands) <= most


def _stays_open(args: Sequence[Arg]) -> bool:
    """Whether Python has `-i`, and so opens a prompt after its script, or runs a shell of Django's `manage.py`."""
    for place, arg in enumerate(args):
        if arg.text[:1] != "-":
            following = args[place + 1].text if place + 1 < len(args) else ""
            return arg.text.endswith("manage.py") and following in ("shell", "shell_plus", "dbshell")
        if arg.text[1:2] != "-" and "i" in arg.text[1:]:
            return True
        if arg.text[:2] in ("-c", "-m", "-W", "-X"):
            return False
    return False


def may_prompt(program: str) -> bool:
    """Whether a program opens a prompt with some arguments."""
    name = _without_version(program)
    return name in _PROMPTS or name in _PROMPTS_IF


def _without_version(program: str) -> str:
    """The name of a program as it is in the tables: `python` for `python3.12`."""
    if program in _PROMPTS or not program[-1:].isdigit():
        return program
    return _VERSION.sub("", program)
