"""Build and package tools and version control that run a command: `gcc -wrapper`, `hg --config`, `flatpak run`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner, Unwrap, names, read_options, script_of
from bus.shell.programs.options import matching, named_options, run_by_option
from bus.shell.scanned_code import scanned_calls
from bus.shell.words import Output

_CLUSTER_E: Final = lazy_regex(r"-[a-zA-Z]*e")
_rpm_macros: Final = matching(r"%\((.*)\)")
_WRITE18: Final = lazy_regex(r"\\write18\s*\{([^}]{0,4096})\}")


def _rsync(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`rsync -ae 'sh -c …'`, `rsync --rsync-path='…; rsync'`."""
    yield from named_options("--rsh", "--rsync-path")(args, stdin)
    for arg, after in pairwise(args):
        if " " in after.text and _CLUSTER_E.fullmatch(arg.text):
            yield Inner(script=after.text, sources=after.sources)


def _rpm(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    yield from _rpm_macros(args, stdin)
    yield from named_options("--pipe")(args, stdin)


def _gcc(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`gcc -wrapper sh,-c,'rm x'`."""
    for arg, after in pairwise(args):
        if arg.text == "-wrapper":
            yield Inner(argv=tuple(Arg(part, after.sources) for part in after.text.split(",")))


def _tex(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    for arg in args:
        for match in _WRITE18.finditer(arg.text):
            yield Inner(script=match[1], sources=arg.sources)
        if "\\directlua" in arg.text:
            yield from scanned_calls("lua", arg.text)


def _versions(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`hg --config alias.x='!rm y'`, `hg --config hooks.update='rm y'`, `svn --editor-cmd 'rm y'`."""
    for arg in args:
        name, equals, value = arg.text.partition("=")
        if (
            equals
            and " " in value
            and name.startswith(("alias.", "hooks.", "ui.", "extensions.", "config:", "merge-tools."))
        ):
            yield Inner(script=value.removeprefix("!"), sources=arg.sources)
    yield from run_by_option(args)


def _coreutils(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`coreutils --coreutils-prog=rm -r x`, `coreutils rm -r x`."""
    first = args[0].text.partition("=") if args else ("", "", "")
    if first[0] in ("--coreutils-prog", "--coreutils-prog-shebang"):
        yield Inner(argv=(Arg(first[2]), *args[1:]))
    elif args:
        yield Inner(argv=tuple(args))


def _flatpak(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`flatpak run --command=rm APP -r x`."""
    options = read_options(args, names("--command --branch --arch --cwd"), start=1)
    command = options.value("--command")
    if command is not None and args[0].text == "run":
        yield Inner(argv=(command, *args[options.end + 1 :]))


def _snap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`snap run bash -c …`, `snap run --shell NAME -c …`."""
    options = read_options(args, frozenset(), start=1)
    if args and args[0].text == "run" and options.end < len(args):
        rest = args[options.end + 1 :]
        yield Inner(argv=(Arg("bash") if options.has("--shell") else args[options.end], *rest))


def _each(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`mispipe 'a' 'b'` runs both."""
    for arg in args:
        yield script_of([arg])


def _nix(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    texts = [arg.text for arg in args]
    if texts[:1] == ["run"] and "--" in texts:  # `nix run nixpkgs#bash -- -c …`
        end = texts.index("--")
        package = next((text for text in texts[1:end] if text[:1] != "-"), "")
        yield Inner(argv=(Arg(package.rpartition("#")[2]), *args[end + 1 :]))
        return
    for place, arg in enumerate(args[:-1]):
        if arg.text in ("--run", "--command") and len(args) > place + 1 and args[0].text not in ("develop", "shell"):
            yield script_of(args[place + 1 : place + 2])
            return
        if arg.text in ("-c", "--command"):
            yield Inner(argv=tuple(args[place + 1 :]))
            return


def _over_ssh(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """`gcloud compute ssh vm -- rm x`, `gcloud compute ssh vm --command 'rm x'`."""
    texts = [arg.text for arg in args]
    if "ssh" in texts and "--" in texts:
        yield script_of(args[texts.index("--") + 1 :], remote=True)
    yield from named_options("--command", "--ssh-command")(args, stdin)


def _sops(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`sops exec-env secrets.yaml 'script'`."""
    if len(args) > 2 and args[0].text in ("exec-env", "exec-file"):
        yield script_of(args[-1:])


TOOLS: Final[dict[str, Unwrap]] = {
    "rsync": _rsync,
    "rpm": _rpm,
    **dict.fromkeys(["gcc", "g++", "cc", "clang", "clang++"], _gcc),
    **dict.fromkeys(["hg", "svn", "jj"], _versions),
    **dict.fromkeys(["tex", "pdftex", "latex", "pdflatex", "xelatex", "lualatex", "luatex", "xetex"], _tex),
    "coreutils": _coreutils,
    "flatpak": _flatpak,
    "snap": _snap,
    "mispipe": _each,
    "nix-shell": _nix,
    "nix": _nix,
    "sops": _sops,
    **dict.fromkeys(["gcloud", "doctl", "ibmcloud", "railway"], _over_ssh),
}
"""By program."""
