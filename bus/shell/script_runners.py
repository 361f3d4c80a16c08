"""Programs that hand a text to a shell: shells themselves, su, ssh, at, tmux, screen, make -f -, watch …"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.editors import remote_programs
from bus.shell.indirect.embedded_commands import EMBEDDED_COMMANDS
from bus.shell.indirect.terminal_input import TERMINAL_INPUT
from bus.shell.inner import Arg, Inner, Unwrap, names, read_options, script_from_stdin, script_of
from bus.shell.programs.made_files import recipe_script, schedule_script
from bus.shell.programs.running_words import GIT_RUNNING
from bus.shell.programs.shell_dialects import shell_readers
from bus.shell.programs.variables import side_script
from bus.shell.words import Output

SHELLS: Final = frozenset(
    {
        "sh",
        "bash",
        "zsh",
        "dash",
        "ksh",
        "mksh",
        "ash",
        "fish",
        "rbash",
        "csh",
        "tcsh",
        "elvish",
        "yash",
        "osh",
        "ysh",
        "nu",
        "xonsh",
        "posh",
    }
)
_SHELL_VALUES: Final = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_STDIN: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


def read_shell(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """What `bash` and similar shells run."""
    place, from_option, from_stdin = 0, False, False
    while place < len(args):
        text = args[place].text
        if text == "--":
            place += 1
            break
        if text[:1] not in ("-", "+") or len(text) < 2:
            break
        if not text.startswith("--"):
            from_option = from_option or (text[0] == "-" and "c" in text)
            from_stdin = from_stdin or (text[0] == "-" and "s" in text)
        elif text == "--command":
            from_option = True
        elif text.startswith(("--command=", "--init-command=")):
            yield Inner(script=text.partition("=")[2], sources=args[place].sources)
            return
        if text in ("-C", "--init-command") and place + 1 < len(args):  # fish; the -C of others takes no value
            yield from side_script(args[place + 1].text, args[place + 1].sources)
        place += 2 if text in _SHELL_VALUES or (not text.startswith("--") and text[-1:] in "oO") else 1
    operands = args[place:]
    if from_option:
        if operands:
            script = operands[0]
            yield Inner(script=script.text, sources=script.sources, parameters=tuple(one.text for one in operands[1:]))
    elif from_stdin or not operands or operands[0].text in _STDIN:
        yield Inner(script=stdin.text, sources=stdin.programs, parameters=("", *(one.text for one in operands)))
    elif operands[0].sources:  # bash <(curl …)
        yield Inner(sources=operands[0].sources)


def _eval(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    if args[:1] and args[0].text == "--":
        args = args[1:]
    if args:
        yield script_of(args)


def _source(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    if args and args[0].text in _STDIN:
        yield script_from_stdin(stdin)
    elif args:
        yield Inner(sources=args[0].sources)


def _trap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    args = args[1:] if args[:1] and args[0].text == "--" else args
    if len(args) > 1 and not args[0].text.startswith("-"):
        yield script_of(args[:1])


_SSH: Final = names("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B")


def _ssh(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    host = read_options(args, _SSH).end
    rest = args[read_options(args, _SSH, start=host + 1).end :] if host < len(args) else ()
    yield from remote_programs(args)
    if rest:
        yield script_of(rest, remote=True)
    elif host < len(args):
        yield script_from_stdin(stdin, remote=True)


_SU: Final = names("-c -s -g -G -w --command --session-command --shell --group --supp-group -u --user")


def _su(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    place, user = 0, False
    while place < len(args):
        options = read_options(args, _SU, start=place)
        user = user or options.has("-u", "--user")
        script = options.value("-c", "--command", "--session-command")
        if script is not None:
            yield script_of([script])
            return
        place = options.end
        if user and place < len(args):  # runuser -u me -- rm x
            yield Inner(argv=tuple(args[place:]))
            return
        place += 1
    yield script_from_stdin(stdin)


def _sg(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`sg docker 'rm x'`, also with `-c` before the command."""
    if len(args) == 2 and not args[1].text.startswith("-"):
        yield script_of(args[1:])
    else:
        yield from _su(args, stdin)


def _script(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    values = names("-c -I -O -B -E -o -t -m -T --command --log-in --log-out --log-io --echo --output-limit")
    options = read_options(args, values, attached=frozenset({"-t"}))
    later = read_options(args, values, start=options.end + 1)  # after the file's name
    command = options.value("-c", "--command") or later.value("-c", "--command")
    if command is not None:
        yield script_of([command])
    elif args[later.end :]:
        yield Inner(argv=tuple(args[later.end :]))
    else:
        yield script_from_stdin(stdin)


def _watch(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    rest = args[read_options(args, frozenset({"-n", "--interval", "-q", "--equexit", "-s", "--shotsdir"})).end :]
    if rest:
        yield script_of(rest)


def _watchexec(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    values = names(
        "-w -W -e -i -f -s -d -o -E -c -j --watch --exts --ignore --filter --signal --debounce --on-busy-update --shell"
        " --workdir --env --delay-run --poll --stop-signal --stop-timeout --fs-events --exec -x"
    )
    options = read_options(args, values)
    if command := options.value("--exec", "-x"):  # nodemon
        yield script_of([command])
    elif args[options.end :]:
        yield script_of(args[options.end :])


def _flock(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    start = read_options(args, frozenset({"-w", "-E", "--timeout", "--wait", "--conflict-exit-code"})).end + 1
    rest = args[start:]
    if rest and rest[0].text in ("-c", "--command"):
        yield script_of(rest[1:2])
    elif rest:
        yield Inner(argv=tuple(rest))


def _at(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    options = read_options(args, frozenset({"-q", "-f", "-t"}))
    file = options.value("-f")
    if not options.has("-l", "-d", "-r", "-c") and (file is None or file.text in _STDIN):
        yield script_from_stdin(stdin)


def _crontab(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    operands = args[read_options(args, frozenset({"-u"})).end :]
    if stdin.text and (not operands or operands[0].text in _STDIN):
        yield Inner(script=schedule_script(stdin.text), sources=stdin.programs)


_TMUX_VALUES: Final = names("-c -e -F -f -n -s -t -x -y -l -p -L -S -T -w -h -b")
_TMUX_RUNS: Final = names(
    "new new-session neww new-window splitw split-window respawnp respawn-pane respawnw respawn-window run run-shell"
    " popup display-popup pipe-pane pipep if if-shell"
)
_KEYS: Final = {"enter": "\n", "c-m": "\n", "kpenter": "\n", "space": " ", "c-j": "\n", "tab": " "}


def _tmux(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    options = read_options(args, names("-L -S -f -c -T"))
    if (script := options.value("-c")) is not None:
        yield script_of([script])
    rest = list(args[options.end :])
    while rest:
        end = next((n for n, arg in enumerate(rest) if arg.text == ";"), len(rest))
        command, own = rest[0].text, rest[1:end]
        rest = rest[end + 1 :]
        if command in ("send-keys", "send"):
            keys = own[read_options(own, frozenset({"-t", "-N", "-c"})).end :]
            text = "".join(_KEYS.get(key.text.lower(), key.text) for key in keys)
            yield Inner(script=text, sources=tuple(source for key in keys for source in key.sources))
        elif command in _TMUX_RUNS:
            flags = {"-h", "-b"} if command.startswith(("split", "run", "if")) else {"-b"}
            words = own[read_options(own, _TMUX_VALUES - flags).end :]
            if command in ("if", "if-shell"):
                for word in words:
                    yield script_of([word])
            elif len(words) == 1:
                yield script_of(words)
            elif words:
                yield Inner(argv=tuple(words))


def _screen(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    options = read_options(args, names("-S -c -e -h -p -s -t -T -Logfile -X"))
    first = options.value("-X")
    rest = tuple(args[options.end :])
    if first is not None:
        if first.text in ("stuff", "exec", "screen", "eval") and rest:
            text = " ".join(arg.text for arg in rest).replace("^M", "\n").replace("\\n", "\n").replace("\\r", "\n")
            yield Inner(script=text.replace("\r", "\n"), sources=tuple(one for arg in rest for one in arg.sources))
    elif rest and (options.has("-m") or not options.has("-r", "-x", "-d")):
        yield Inner(argv=rest)


_MAKE_SHELL: Final = lazy_regex(r"\$\(shell\s+([^()]*)\)")


def _make(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    options = read_options(args, names("-C -f -I -j -o -W --file --makefile --directory --include-dir"))
    for arg in args:
        if arg.text.startswith("--eval="):
            yield Inner(script=recipe_script(arg.text.partition("=")[2]), sources=arg.sources)
        elif arg.text.startswith("SHELL="):
            yield Inner(script=arg.text.removeprefix("SHELL="), sources=arg.sources)
        for script in _MAKE_SHELL.findall(arg.text):
            yield Inner(script=script, sources=arg.sources)
    file = options.value("-f", "--file", "--makefile")
    if file is not None and file.text in _STDIN and stdin.text:
        yield Inner(script=recipe_script(stdin.text), sources=stdin.programs)


def _just(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`just --command rm x` runs it with the variables of the justfile."""
    for place, arg in enumerate(args[:-1]):
        if arg.text in ("-c", "--command"):
            yield Inner(argv=tuple(args[place + 1 :]))
            return


_CARGO_RUNS: Final = lazy_regex(r"""(?:runner|linker|wrapper)\s*=\s*["']([^"']+)["']""")


def _cargo(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`cargo watch -s script -x 'check'`."""
    for arg in args:
        if "runner" in arg.text or "linker" in arg.text or "wrapper" in arg.text:
            for value in _CARGO_RUNS.findall(arg.text):
                yield Inner(script=value, sources=arg.sources)
    if [arg.text for arg in args[:1]] != ["watch"]:
        return
    for option, value in pairwise(args):
        if option.text in ("-s", "--shell"):
            yield script_of([value])
        elif option.text in ("-x", "--exec"):
            yield Inner(script=f"cargo {value.text}", sources=value.sources)


def _hyperfine(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for arg in args:
        option, equals, value = arg.text.partition("=")
        if equals and option.startswith("--"):
            yield Inner(script=value, sources=arg.sources)
        elif not arg.text.startswith("-") and not arg.text.isdigit():
            yield script_of([arg])


_CONFIG_VERBS: Final = frozenset({"set", "get", "unset"})
_GIT_PROGRAM: Final = lazy_regex(
    r"(?i)core\.(editor|pager|sshcommand|fsmonitor|gitproxy|askpass)|sequence\.editor|gpg\.(\w+\.)?program|diff\.external|pager\.\w+"
    r"|uploadpack\.packobjectshook|(filter|diff|merge|difftool|mergetool|man|browser)\.[^=\s]+\.\w+"
)
"""Settings whose value is a command."""
_GIT_WRITES: Final = frozenset({"--output", "-o"})
_GIT_OPTIONS: Final = ("--exec=", "--upload-pack=", "--receive-pack=", "--open-files-in-pager=", "--extcmd=")


def _git_setting(name: str, value: str, sources: tuple[str, ...]) -> Iterator[Inner]:
    """What a setting makes git run: now, as `-c name=value`, or later, as `git config name value`."""
    if name.startswith("alias.") and value:
        script = value[1:] if value[0] == "!" else f"git {value}"
        yield Inner(script=script, sources=sources)
    elif value.startswith("!"):  # credential.helper
        yield Inner(script=value[1:], sources=sources)
    elif _GIT_PROGRAM.fullmatch(name):
        yield from side_script(value, sources)


def _git(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    texts = [arg.text for arg in args]
    for place, arg in enumerate(args):
        if "=" not in arg.text and arg.text[:1] != "-" and arg.text[:5] != "ext::":
            continue
        name, equals, value = arg.text.partition("=")
        if equals and place and texts[place - 1] in ("-c", "--config"):
            yield from _git_setting(name, value, arg.sources)
        elif name in _GIT_WRITES and (equals or "archive" in texts):
            yield Inner(argv=(Arg("tee"), *([Arg(value)] if equals else args[place + 1 : place + 2])))
        elif arg.text.startswith(_GIT_OPTIONS):
            yield Inner(script=value, sources=arg.sources)
        elif arg.text.startswith("ext::"):
            yield Inner(script=arg.text[5:].replace("% ", " "), sources=arg.sources)
        elif arg.text.startswith("-O") and " " in arg.text and "grep" in texts:
            yield Inner(script=arg.text[2:], sources=arg.sources)
        elif arg.text in ("--upload-pack", "--receive-pack", "-u") and place and place + 1 < len(args):
            yield from side_script(args[place + 1].text, args[place + 1].sources) if " " in args[place + 1].text else ()
    if GIT_RUNNING.isdisjoint(texts):
        return
    if "config" in texts[:3]:
        given = [
            arg for arg in args[texts.index("config") + 1 :] if arg.text[:1] != "-" and arg.text not in _CONFIG_VERBS
        ]
        if len(given) > 1:
            yield from _git_setting(given[0].text, given[1].text, given[1].sources)
    if "foreach" in texts and "submodule" in texts:
        rest = [arg for arg in args[texts.index("foreach") + 1 :] if arg.text not in ("--recursive", "-q", "--quiet")]
        if rest:
            yield script_of(rest)
    elif "bisect" in texts and texts[texts.index("bisect") + 1 :][:1] == ["run"]:
        yield Inner(argv=tuple(args[texts.index("bisect") + 2 :]))
    elif "rebase" in texts or "filter-branch" in texts or "difftool" in texts:
        for place, text in enumerate(texts[:-1]):
            if text in ("-x", "--exec", "--extcmd") or text.endswith("-filter"):
                yield script_of(args[place + 1 : place + 2])


def _capsh(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`capsh … -- -c script`: what follows `--` is for bash."""
    texts = [arg.text for arg in args]
    if "--" in texts:
        yield from read_shell(args[texts.index("--") + 1 :], stdin)


SCRIPT_RUNNERS: Final[dict[str, Unwrap]] = {
    **dict.fromkeys(SHELLS, read_shell),
    **shell_readers(read_shell),
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "ssh": _ssh,
    "su": _su,
    "runuser": _su,
    "sg": _sg,
    "script": _script,
    "watch": _watch,
    "watchexec": _watchexec,
    "nodemon": _watchexec,
    "flock": _flock,
    "at": _at,
    "batch": _at,
    "crontab": _crontab,
    "git": _git,
    "just": _just,
    "cargo": _cargo,
    "tmux": _tmux,
    "byobu": _tmux,
    "tmate": _tmux,
    "screen": _screen,
    "make": _make,
    "gmake": _make,
    "hyperfine": _hyperfine,
    "concurrently": _hyperfine,
    "pee": _hyperfine,
    "mispipe": _hyperfine,
    "cross-env-shell": _eval,
    "capsh": _capsh,
    **EMBEDDED_COMMANDS,
    **TERMINAL_INPUT,
}
"""How each program's arguments are read, by its name."""
