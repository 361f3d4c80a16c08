"""The programs that run other programs (sudo, env, nice, docker run, npx …), and where in their arguments those are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell.argument_runners import BATCHES
from bus.shell.editors import EDITORS
from bus.shell.inner import RUN_NAMES, TAKES_WORDS, Arg, Inner, names, read_options, script_from_stdin, script_of
from bus.shell.interpreters import find_interpreter
from bus.shell.programs.made_files import unit_property
from bus.shell.programs.options import run_by_unknown_program
from bus.shell.programs.running_words import BY_UNKNOWN, NEVER, RUNNING_WORDS, RunningWords
from bus.shell.programs.tools import TOOLS
from bus.shell.remote_runners import CONTAINERS, HOSTS, POWERSHELL
from bus.shell.script_runners import SCRIPT_RUNNERS, SHELLS
from bus.shell.words import Output, is_hidden

_NONE_GIVEN: Final[frozenset[str]] = frozenset()
_ASSIGNMENT: Final = lazy_regex(r"[A-Za-z_]\w*\+?=")


class _Wrapper(NamedTuple):
    values: frozenset[str] = frozenset()
    """Options that take the next argument."""
    operands: int = 0
    """Arguments of its own before the command."""
    silent: frozenset[str] = frozenset()
    """Options with which it runs nothing."""
    shell: frozenset[str] = frozenset()
    """Options with which a shell runs the command, or what comes from standard input."""
    directory: frozenset[str] = frozenset()
    """Options whose value is the directory of the command."""
    verbs: frozenset[str] = frozenset()
    """Its subcommands that run a command; with any other it runs none."""
    script: frozenset[str] = frozenset()
    """Options whose value is a script."""
    dashes: bool = False
    """Whether the command follows a `--`."""
    optional: frozenset[str] = frozenset()
    """Subcommands that run a command. Without a subcommand it runs one too."""


def _wrapper(
    values: str = "",
    operands: int = 0,
    silent: str = "",
    *,
    as_shell: str = "",
    directory: str = "",
    verbs: str = "",
    script: str = "",
    dashes: bool = False,
    optional: str = "",
) -> _Wrapper:
    return _Wrapper(
        values=names(f"{values} {directory} {script}"),
        operands=operands,
        silent=names(silent),
        shell=names(as_shell),
        directory=names(directory),
        verbs=names(verbs),
        script=names(script),
        dashes=dashes,
        optional=names(optional),
    )


_PLAIN: Final = _wrapper()
_LOADERS: Final = names(
    "ld.so ld-linux.so.2 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld-linux-armhf.so.3"
    " ld-musl-x86_64.so.1 ld-musl-aarch64.so.1"
)
_PYTHON_RUN: Final = (
    "--with --python -p --project --env-file --extra --group --index --with-requirements -n --name -e --package"
)
_WRAPPERS: Final[dict[str, _Wrapper]] = {
    "sudo": _wrapper(
        "-u -g -h -p -C -r -t -T -U -R --user --group --host --prompt --close-from --role --type --chroot --other-user",
        silent="-l -v -K -e --list --validate --edit",
        as_shell="-s -i --shell --login",
        directory="-D --chdir",
    ),
    "sudo-rs": _wrapper("-u -g -p -D -C -r -t -T -U -R", as_shell="-s -i --shell --login", silent="-l -v -K -e"),
    "please": _wrapper("-t -a -d -r -e --target --dir --reason"),
    "doas": _wrapper("-u -C -a", silent="-L", as_shell="-s"),
    "pkexec": _wrapper("--user -u", silent="--version --help"),
    "run0": _wrapper("-u -g --user --group --unit --property --nice --slice", directory="-D --chdir"),
    "gosu": _wrapper(operands=1),
    "su-exec": _wrapper(operands=1),
    "setpriv": _wrapper("--reuid --regid --groups --bounding-set --inh-caps --securebits --selinux-label"),
    "env": _wrapper("-u --unset -a --argv0", directory="-C --chdir"),
    "command": _wrapper(silent="-v -V"),
    "exec": _wrapper("-a"),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n --class --classdata", silent="-p --pid"),
    "time": _wrapper("-f -o --format --output"),
    "gtime": _wrapper("-f -o --format --output"),
    "timeout": _wrapper("-k -s --kill-after --signal", 1),
    "gtimeout": _wrapper("-k -s --kill-after --signal", 1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "taskset": _wrapper(operands=1, silent="-p"),
    "chrt": _wrapper("-T -P -D", operands=1, silent="-p"),
    "numactl": _wrapper("-m -N -C -i -p --membind --cpunodebind --physcpubind"),
    "prlimit": _wrapper(silent="--pid -p"),
    "strace": _wrapper("-o -e -p -s -u -E -I -a -O -S -P -X -b"),
    "ltrace": _wrapper("-o -e -p -s -u -a -F -l -n -x"),
    "perf": _wrapper("-e -o -F -g -r --event --output", verbs="stat record trace"),
    "valgrind": _wrapper(),
    "catchsegv": _PLAIN,
    "chroot": _wrapper(operands=1),
    "nsenter": _wrapper("-t -S -G --target --setuid --setgid"),
    "unshare": _wrapper("-S -G -R --setuid --setgid --root", directory="-w --wd"),
    "firejail": _PLAIN,
    "cgexec": _wrapper("-g"),
    "caffeinate": _wrapper("-t -w"),
    "systemd-run": _wrapper(
        "-u -E -M -H --unit --setenv --slice --description --uid --gid --nice --machine --host --on-active"
        " --on-boot --on-startup --on-calendar --timer-property --service-type",
        directory="--working-directory",
        script="-p --property",
    ),
    "systemd-inhibit": _wrapper("--what --who --why --mode"),
    "xdotool": _wrapper(verbs="exec"),
    "buildah": _wrapper(verbs="unshare"),
    "xvfb-run": _wrapper("-n -s -e -f -p -w --server-args --server-num"),
    "sshpass": _wrapper("-p -f -d -P"),
    **dict.fromkeys(["dotenv", "dotenv-cli"], _wrapper("-f -e -c -p -v --file", optional="run")),
    "env-cmd": _wrapper("-f -e -r --file --environments --rc-file"),
    "arch": _wrapper("-arch"),
    "chpst": _wrapper("-u -U -b -e -/ -n -l -L -m -d -o -p -f -c -t -r"),
    **dict.fromkeys(
        names("setuidgid envuidgid s6-setuidgid s6-envdir envdir setlock s6-setlock"), _wrapper(operands=1)
    ),
    "softlimit": _wrapper("-m -a -d -f -l -o -p -r -s -t -c"),
    "choom": _wrapper("-n --adjust", silent="-p --pid"),
    "uclampset": _wrapper("-m -M --util-min --util-max", silent="-p --pid"),
    "aa-exec": _wrapper("-p -n --profile --namespace"),
    "runcon": _wrapper("-t -u -r -l --type --user --role --range"),
    "daemon": _wrapper("-n --name -F --pidfile -u --user -o --output -O --stdout -E --stderr", directory="-D --chdir"),
    "logsave": _wrapper(operands=1),
    "multitime": _wrapper("-n -s -I -i -o -r"),
    **dict.fromkeys(["ts", "tsp", "task-spooler"], _wrapper("-S -L -N -D -W -G", silent="-l -C -K -k -c -t")),
    "nq": _PLAIN,
    "pueue": _wrapper(
        "-g --group -d --delay -l --label -o --priority", verbs="add", directory="-w --working-directory"
    ),
    **dict.fromkeys(_LOADERS, _wrapper("--preload --library-path --argv0 --audit --inhibit-rpath")),
    "proot-distro": _wrapper(verbs="login sh", dashes=True),
    "devbox": _wrapper("-c --config -e --env", verbs="run"),
    "flox": _wrapper(verbs="activate", script="-c --command", dashes=True),
    "lerna": _wrapper("--scope --ignore --concurrency", verbs="exec"),
    "nx": _wrapper(verbs="exec", dashes=True),
    **dict.fromkeys(["foreman", "honcho", "overmind"], _wrapper("-e --env -f --procfile", verbs="run")),
    **dict.fromkeys(["opam", "dune", "stack", "cabal", "composer", "hermit"], _wrapper(verbs="exec")),
    "rustup": _wrapper(operands=1, verbs="run"),
    "tox": _wrapper("-e -c", verbs="exec", dashes=True),
    "xcrun": _wrapper("--sdk --toolchain -sdk -toolchain", silent="-f --find"),
    "sandbox-exec": _wrapper("-f -n -p -D"),
    "dtruss": _wrapper("-p -n -t -b"),
    "berglas": _wrapper(verbs="exec"),
    "summon": _wrapper("-p -f -D -e --provider --yaml --environment"),
    "launchctl": _wrapper("-l -p -o -e", verbs="submit asuser bsexec", operands=0),
    "op": _wrapper("--env-file --account", verbs="run"),
    "doppler": _wrapper("-p -c -t --project --config --token", verbs="run", script="--command"),
    "infisical": _wrapper("--env --path --projectId", verbs="run", script="--command"),
    "aws-vault": _wrapper("-d --duration --region -t", operands=1, verbs="exec"),
    "chamber": _wrapper(operands=1, verbs="exec"),
    "machinectl": _wrapper("-M -H -E --uid --setenv", operands=1, verbs="shell"),
    "systemd-nspawn": _wrapper("-D -M -u -E -i --directory --machine --user --bind --bind-ro --setenv --image"),
    "flatpak-spawn": _wrapper("--env", directory="--directory"),
    "toolbox": _wrapper("-c --container -d --distro -r --release", verbs="run"),
    "distrobox": _wrapper("-n --name", verbs="enter", dashes=True),
    "distrobox-enter": _wrapper("-n --name", dashes=True),
    "proot": _wrapper("-r -b -w -R -S -q -m -k", directory="--cwd"),
    "cpulimit": _wrapper("-l -p -e -c --limit --pid --exe --cpu"),
    "faketime": _wrapper("-f", operands=1),
    "abduco": _wrapper("-e", operands=1),
    "dtach": _wrapper("-n -c -A -N -e -r"),
    "lxc": _wrapper("--cwd --env --user --group", operands=1, verbs="exec"),
    "incus": _wrapper("--cwd --env --user --group", operands=1, verbs="exec"),
    "orb": _wrapper("-m --machine -u --user -w --workdir"),
    "orbctl": _wrapper("-m --machine -u --user -w --workdir", verbs="run"),
    "wsl": _wrapper(
        "-d --distribution -u --user", silent="--unregister --shutdown --list -l --terminate -t", directory="--cd"
    ),
    "zellij": _wrapper("--cwd -n --name -d --direction", verbs="run", dashes=True),
    "guix": _wrapper(verbs="shell", dashes=True),
    "dotenvx": _wrapper("-f --env-file -e --env", verbs="run"),
    "envchain": _wrapper(operands=1),
    "envconsul": _wrapper("-config -prefix -secret"),
    "teller": _wrapper("-c --config", verbs="run"),
    "cross-env": _PLAIN,
    "direnv": _wrapper(operands=1, verbs="exec"),
    "mise": _wrapper("-c --command -j --jobs", verbs="exec x", script="-c --command", directory="-C --cd", dashes=True),
    "rtx": _wrapper("-c --command", verbs="exec x", script="-c --command", dashes=True),
    "asdf": _wrapper(verbs="exec"),
    "rbenv": _wrapper(verbs="exec"),
    "pyenv": _wrapper(verbs="exec"),
    "nodenv": _wrapper(verbs="exec"),
    "volta": _wrapper("--node --npm --yarn", verbs="run"),
    "fnm": _wrapper("--using", verbs="exec"),
    "bundle": _wrapper(verbs="exec"),
    "poetry": _wrapper("-P --project", verbs="run", directory="-C --directory"),
    "uv": _wrapper(_PYTHON_RUN, verbs="run", directory="--directory"),
    "pipenv": _wrapper(verbs="run"),
    "pdm": _wrapper("-p", verbs="run"),
    "hatch": _wrapper("-e", verbs="run"),
    "rye": _wrapper(verbs="run"),
    "pixi": _wrapper("-e --environment --manifest-path", verbs="run"),
    **dict.fromkeys(
        ["conda", "mamba", "micromamba"], _wrapper("-n -p --name --prefix", verbs="run", directory="--cwd")
    ),
    "npx": _wrapper("-p --package -w --workspace", script="-c --call"),
    "npm": _wrapper("-p --package -w --workspace", verbs="exec x", script="-c --call", directory="-C --prefix"),
    "pnpm": _wrapper("--package --filter -F", verbs="exec dlx", directory="-C --dir"),
    "yarn": _wrapper("-p --package", verbs="exec dlx", directory="--cwd"),
    "bunx": _PLAIN,
    "uvx": _wrapper(_PYTHON_RUN + " --from"),
    "pipx": _wrapper("--spec --python", verbs="run"),
    "start-stop-daemon": _wrapper("-p -u -c -g -n --pidfile --user --chuid --name", directory="-d --chdir"),
    "retry": _wrapper("-t -d -m --times --delay"),
    **dict.fromkeys(
        names(
            "i386 i486 i586 i686 x86_64 uname26 nohup setsid builtin busybox toybox coproc unbuffer noglob nocorrect"
            " linux64 linux32 chronic rlwrap winpty fakeroot dbus-run-session dbus-launch tini dumb-init with-contenv"
            " proxychains proxychains4 torsocks eatmydata libtool-exec daemonize distrobox-host-exec dzdo pfexec"
            " fakechroot termux-chroot box64 box86 wine shx qemu-x86_64 qemu-x86_64-static qemu-aarch64 qemu-"
            " aarch64-static qemu-arm qemu-arm-static lima-exec"
        ),
        _PLAIN,
    ),
    # Words of the shell itself, where the grammar took them for a program (`! while a; do b; done`).
    **dict.fromkeys(names("! { if then elif else while until do"), _PLAIN),
}
_RUN_CODE: Final = frozenset({"eval", "source", "xargs", "parallel", "su", "ssh"})
_ARCHITECTURE: Final = lazy_regex(
    r"linux(?:32|64)|i\d86|x86_64|amd64|(?:arm|aarch|ppc|powerpc|s390|mips|sparc|riscv)\w*|uname26"
)


def _setarch(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`setarch x86_64 -R rm x`, also without an architecture."""
    place = read_options(args, frozenset()).end
    if place < len(args) and (_ARCHITECTURE.fullmatch(args[place].text) or is_hidden(args[place].text)):
        place = read_options(args, frozenset(), start=place + 1).end
    if place < len(args):
        yield Inner(argv=tuple(args[place:]))


_BWRAP_PAIRS: Final = names(
    "--bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --symlink --setenv --file --bind-data --ro-bind-data"
    " --chmod --overlay"
)
_BWRAP_VALUES: Final = names(
    "--chdir --unsetenv --proc --dev --tmpfs --mqueue --dir --remount-ro --uid --gid --hostname --cap-add --cap-drop --args"
    " --lock-file --sync-fd --info-fd --json-status-fd --block-fd --seccomp --exec-label --file-label --userns --pidns --perms"
    " --size --argv0 --add-seccomp-fd --overlay-src --tmp-overlay --ro-overlay"
)


def _bwrap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    place = 0
    while place < len(args) and args[place].text.startswith("--") and args[place].text != "--":
        place += 3 if args[place].text in _BWRAP_PAIRS else 2 if args[place].text in _BWRAP_VALUES else 1
    inner = tuple(args[place + 1 :] if place < len(args) and args[place].text == "--" else args[place:])
    if inner:
        yield Inner(argv=inner)


def _ip(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`ip netns exec name rm x`."""
    texts = [arg.text for arg in args]
    if "exec" in texts[1:3] and len(args) > texts.index("exec") + 2:
        yield Inner(argv=tuple(args[texts.index("exec") + 2 :]))


_OWN: Final = {"setarch": _setarch, "bwrap": _bwrap, "ip": _ip}
_SPECIAL: Final = {**_OWN, **TOOLS, **EDITORS, **HOSTS, **SCRIPT_RUNNERS, **BATCHES, **CONTAINERS, **POWERSHELL}


def runs_code(program: str) -> bool:
    """Whether a program may run its input as code: a shell, another interpreter, `eval`, `source`, `xargs`."""
    return program in SHELLS or program in _RUN_CODE or find_interpreter(program) is not None


def running_words(program: str) -> RunningWords | None:
    """The words with which a program runs others; None where its arguments must be read to know that."""
    wrapper = _WRAPPERS.get(program)
    if program in RUNNING_WORDS or program in _SPECIAL:
        return RUNNING_WORDS.get(program)
    if wrapper is not None and wrapper.verbs:
        return RunningWords(wrapper.verbs | RUN_NAMES | {"pkg"}, (" ",))  # `npm pkg set scripts.x=…`
    if wrapper is not None or find_interpreter(program) is not None:
        return None
    return NEVER if program in TAKES_WORDS else BY_UNKNOWN


def inner_calls(program: str, args: Sequence[Arg], stdin: Output) -> Iterable[Inner]:
    """The commands and scripts that `program` with `args` runs, reading `stdin`; nothing for an ordinary program."""
    if special := _SPECIAL.get(program):
        return special(args, stdin)
    if program == "uv" and [arg.text for arg in args[:2]] == ["tool", "run"]:
        program, args = "uvx", args[2:]
    if program == "npm" and [arg.text for arg in args[:2]] == ["pkg", "set"]:  # `npm pkg set scripts.x='rm y'`
        return [Inner(script=arg.text.partition("=")[2]) for arg in args[2:] if arg.text.startswith("scripts.")]
    if program == "uv" and [arg.text for arg in args[:1]] == ["run"]:
        if args[-1].text.startswith(("https://", "http://")):
            return [Inner(sources=("curl",))]
        if args[-1].text == "-":
            args = [*args[:-1], Arg("python3"), Arg("-")]
    if wrapper := _WRAPPERS.get(program):
        found = list(_wrapped(program, wrapper, args, stdin))
        return found if found or not wrapper.verbs else run_by_unknown_program(args)
    interpreter = find_interpreter(program)
    return run_by_unknown_program(args) if interpreter is None else interpreter(args, stdin)


def _wrapped(program: str, wrapper: _Wrapper, args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    if wrapper.verbs and args and args[0].text[:1] != "-" and args[0].text not in wrapper.verbs:
        return  # `npm test`, `poetry install`
    options = read_options(args, wrapper.values)
    start = options.end
    items = options.items
    if program == "env":
        if any(name in ("-S", "--split-string") for name, _ in items):
            yield from _split_string(args)
            return
        start += args[start : start + 1] == [Arg("-")] or (start < len(args) and args[start].text == "-")
    if wrapper.verbs:
        if start >= len(args) or args[start].text not in wrapper.verbs:
            return
        options = read_options(args, wrapper.values, start=start + 1)
        start, items = options.end, items + options.items
    given = {name for name, _ in items} if items else _NONE_GIVEN
    directory = ""
    if items:
        if not wrapper.silent.isdisjoint(given):
            return
        directory = next((value.text for name, value in reversed(items) if name in wrapper.directory), "")
        for name, value in items:
            if name in wrapper.script:
                yield script_of([value._replace(text=unit_property(value.text))], directory=directory)
    assignments: list[tuple[str, str]] = []
    while start < len(args) and "=" in args[start].text and _ASSIGNMENT.match(args[start].text):
        variable, _, text = args[start].text.partition("=")
        assignments.append((variable, text))
        start += 1
    start += wrapper.operands + (args[start : start + 1] != [] and args[start].text in wrapper.optional)
    if wrapper.dashes:
        start = next((place for place, arg in enumerate(args) if arg.text == "--"), len(args))
    if start < len(args) and args[start].text == "--":
        start += 1
    inner = tuple(args[start:])
    if not wrapper.shell.isdisjoint(given):
        if not inner:
            yield script_from_stdin(stdin)
        elif len(inner) == 1:
            yield script_of(inner, directory=directory)
        else:  # sudo quotes each word for the shell
            yield Inner(argv=inner, directory=directory)
    elif len(inner) == 1 and " " in inner[0].text:  # `lerna exec 'rm -rf x'`
        yield script_of(inner, directory=directory)
    elif inner:
        yield Inner(argv=inner, directory=directory, assignments=tuple(assignments))


def _split_string(args: Sequence[Arg]) -> Iterator[Inner]:
    """`env -S 'rm -rf /'`, also as `-iS…` and `--split-string=…`."""
    for place, arg in enumerate(args):
        text = arg.text
        if text.startswith("--split-string="):
            yield script_of([arg._replace(text=text.partition("=")[2]), *args[place + 1 :]])
            return
        if text == "--split-string":
            yield script_of(args[place + 1 :])
            return
        if text.startswith("-") and not text.startswith("--") and "S" in text:
            attached = text.partition("S")[2].lstrip("=")
            yield script_of([*([arg._replace(text=attached)] if attached else []), *args[place + 1 :]])
            return


_INIT_SCRIPT: Final = lazy_regex(r"/(?:usr/local/)?etc/(?:rc\.d/init\.d|init\.d|rc\.d)/([^/]+)")


def init_script(argv: Sequence[Arg]) -> Iterator[Inner]:
    """The command that does the same as an init script: `service nginx stop` for `/etc/init.d/nginx stop`."""
    if found := _INIT_SCRIPT.fullmatch(argv[0].text):
        yield Inner((Arg("service"), Arg(found[1]), *argv[1:]))
