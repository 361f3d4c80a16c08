"""Programs that run a command among their arguments or in the text that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, Unwrap, names, read_options, script_from_stdin, script_of
from bus.shell.words import Output

_DC: Final = lazy_regex(r"!([^\n<>=][^\n]{0,4096})")
_M4: Final = lazy_regex(r"e?syscmd\(\s{0,8}[`\[]{0,2}([^\n]{1,4096})")
_SCRIPTS: Final = (".sh", ".py", ".pl", ".bash")


def _history(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`history -s rm x`, which `fc -s` then runs."""
    options = read_options(args, frozenset())
    if options.has("-s", "-p"):
        yield script_of(args[options.end :])


def _dc(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`dc -e '!rm x'`, `echo '!rm x' | dc`."""
    for text, sources in (*args, Arg(stdin.text or "", stdin.programs)):
        for script in _DC.findall(text):
            yield Inner(script=script, sources=sources)


def _m4(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """What `syscmd(…)` in the input or in a definition runs."""
    for text, sources in (*args, Arg(stdin.text or "", stdin.programs)):
        for script in _M4.findall(text) if "syscmd" in text else ():
            yield Inner(script=script.rstrip("])' \t"), sources=sources)


def _aria2c(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`aria2c --on-download-complete=script`: it runs the script, which may be what it has downloaded."""
    for place, arg in enumerate(args):
        name, equals, value = arg.text.partition("=")
        if name.startswith("--on-"):
            script = value if equals else next((one.text for one in args[place + 1 : place + 2]), "")
            yield Inner(script=script, sources=arg.sources)
            if script.endswith(_SCRIPTS):
                yield Inner(sources=("aria2c",))


def _zargs(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """zsh's `zargs -- a b -- rm -rf`: the words between the two `--` are the operands of the command."""
    start = read_options(args, names("-n -s -P -L -E")).end
    end = next((place for place in range(start, len(args)) if args[place].text == "--"), len(args))
    given, command = args[start:end], args[end + 1 :]
    mark = next((arg.text[2:] or "{}" for arg in args[:start] if arg.text[:2] in ("-i", "-I")), "")
    if not command:
        return
    if not mark:
        yield Inner(argv=(*command, *given))
    for one in given if mark else ():
        yield Inner(argv=tuple(word._replace(text=word.text.replace(mark, one.text)) for word in command))


def _newgrp(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`newgrp docker <<< 'rm x'`, and `newgrp docker -c 'rm x'` where it has that option."""
    texts = [arg.text for arg in args]
    if "-c" in texts:
        yield script_of(args[texts.index("-c") + 1 :])
    elif stdin.text is not None or stdin.programs:
        yield script_from_stdin(stdin)


EMBEDDED_COMMANDS: Final[dict[str, Unwrap]] = {
    "history": _history,
    "dc": _dc,
    "m4": _m4,
    "gm4": _m4,
    "aria2c": _aria2c,
    "zargs": _zargs,
    "newgrp": _newgrp,
}
"""How each program's arguments are read, by its name."""
