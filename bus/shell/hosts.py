"""Programs that run a command on other machines: pssh, ansible, salt, aws ssm, heroku run, fly ssh console …"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from bus.shell.inner import Arg, Inner, Unwrap, names, read_options, script_of
from bus.shell.words import Output

_SHELL_MODULES: Final = names("command shell raw script win_shell win_command win_powershell ansible.builtin.command"
                              " ansible.builtin.shell ansible.builtin.raw ansible.windows.win_shell")  # fmt: skip
_TEXT: Final = re.compile(r'"((?:\\.|[^"\\])*)"')


def _hosts(values: str, operands: int = 0) -> Unwrap:
    """A program whose operands, after some of its own, are a script for other machines."""
    known = names(values)

    def unwrap(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
        place = read_options(args, known).end
        for _ in range(operands):
            place = read_options(args, known, start=place + 1).end
        rest = args[place:]
        if rest[:1] and rest[0].text == "--":
            rest = rest[1:]
        if rest:
            yield script_of(rest, remote=True)

    return unwrap


def _ansible(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    given = {arg.text: args[place + 1] for place, arg in enumerate(args[:-1]) if arg.text.startswith("-")}
    module = given.get("-m") or given.get("--module-name")
    script = given.get("-a") or given.get("--args")
    if script is not None and (module is None or module.text in _SHELL_MODULES):
        yield script_of([script], remote=True)


def _aws(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    """`aws ssm send-command --parameters 'commands=["rm -rf /srv"]'`."""
    if "send-command" not in [arg.text for arg in args]:
        return
    for arg in args:
        if "commands" in arg.text:
            texts = _TEXT.findall(arg.text) or [arg.text.partition("=")[2].strip("[]")]
            for text in texts:
                if text != "commands":
                    yield Inner(script=text.replace('\\"', '"'), sources=arg.sources, remote=True)


def _az(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    texts = [arg.text for arg in args]
    if "run-command" in texts and "--scripts" in texts:
        for arg in args[texts.index("--scripts") + 1 :]:
            if arg.text.startswith("-"):
                break
            yield Inner(script=arg.text, sources=arg.sources, remote=True)


def _heroku(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    options = read_options(args, names("-a --app -s --size -r --remote"))
    if args[options.end : options.end + 1] and args[options.end].text in ("run", "run:inside", "run:detached"):
        rest = args[read_options(args, names("-a --app -s --size -r --remote -e --env"), start=options.end + 1).end :]
        if rest:
            yield script_of(rest, remote=True)


def _fly(args: Sequence[Arg], _stdin: Output) -> Iterator[Inner]:
    texts = [arg.text for arg in args]
    for place, text in enumerate(texts[:-1]):
        if text in ("-C", "--command") and "ssh" in texts:
            yield Inner(script=texts[place + 1], sources=args[place + 1].sources, remote=True)
    if texts[:2] in (["machine", "exec"], ["machines", "exec"], ["m", "exec"]) and len(args) > 3:
        yield script_of(args[3:], remote=True)


HOSTS: Final[dict[str, Unwrap]] = {
    "pssh": _hosts("-H -h -l -p -o -e -t -O --host --hosts --user --par --outdir --errdir --timeout"),
    "parallel-ssh": _hosts("-H -h -l -p -o -e -t -O --host --hosts --user --par --outdir --errdir --timeout"),
    "pdsh": _hosts("-w -x -l -f -u -t -g -R"),
    "clush": _hosts("-w -x -g -l -f -u -t -X -o"),
    "dsh": _hosts("-m -g -f -o -r --machine --group --file"),
    "mosh": _hosts("--ssh --server --client --predict -p --port", 1),
    "autossh": _hosts(
        "-M -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B", 1
    ),
    "fab": _hosts("-H -i -u --hosts --identity"),
    "ansible": _ansible,
    "aws": _aws,
    "az": _az,
    "heroku": _heroku,
    "fly": _fly,
    "flyctl": _fly,
}  # fmt: skip
"""By program."""
